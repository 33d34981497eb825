package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// TopicID is Kafka's id of a topic: a recreated topic has another one.
type TopicID [16]byte

// Partition names a partition of a topic.
type Partition struct {
	Topic   string
	TopicID TopicID
	Number  int32
}

// Position is a place in a partition. Offset is the next record to read.
type Position struct {
	Offset      int64
	LeaderEpoch int32 // of the record before Offset; -1 unknown
}

// Spec is what the ledger needs to know of a subscription. Its name is the namespace of everything it owns.
type Spec struct {
	Name       string // "<team>.<subscription>", the Kafka group
	Generation int32  // 0 outside replays
	Owner      string // this process, shown to operators: host, pid
	Actions    []ActionSpec
	// Policy has the caps of a topic: each of its partitions has an even share of MaxBuffered and MaxBytes.
	Policy gate.Policy
	// Latest says that lanes want to know of each action whether its payload is a delta (backlog: latest).
	Latest bool
	// Window is how long dedupe remembers; 0 means for ever.
	Window time.Duration
	// Done and Dead are how long finished and dead actions stay readable, with what belongs to them, attempts and
	// rejected records included; longer where dedupe needs the same tables. 0 is as SweepConfig says.
	Done, Dead time.Duration
	// MaxAge bounds how long an event waits in gaps, over all the gaps it stands behind; 0 is no bound.
	MaxAge time.Duration
	// Forget is after how long without an event an entity's line is forgotten, to the day that its dedupe window was written
	// to last; 0 is never. The next event then begins it, so it goes with Policy.Start any only.
	Forget time.Duration
	// CacheLines bounds the version lines that each claim keeps in memory; 0 means 32768.
	CacheLines int
}

// ActionSpec is one action of a subscription, in listed order.
type ActionSpec struct {
	Name        string
	Destination string // "<team>/<destination>"
	OnDead      OnDead
}

// OnDead says what a dead action does to its lane.
type OnDead string

const (
	Park     OnDead = "park"     // the entity stops with everything behind it
	Continue OnDead = "continue" // the next action runs
)

// Claim is a held fence: the right to write one partition's gate and lanes until another claim takes it. It is
// owned by one goroutine at a time; Apply advances its unexported cursors.
type Claim struct {
	ID        int32 // of the fence row
	Partition Partition
	Epoch     int64
	Token     [16]byte
	Next      Position // where to read on
	Seek      *Seek    // not nil: the claim found a change of position and recorded it
	Unclean   bool     // the owner before did not release: calls of its may be in flight
	// DoubtTo is the lane_seq below which the first open action of each entity may have been attempted, until DoubtAt and what
	// was in flight then, without a word of it here: it is set by an unclean claim and goes from claim to claim, until lanes
	// that know of all of them set it to 0 before a release. 0: none.
	DoubtTo int64
	DoubtAt time.Time

	claimState
}

// Seek is a change of position by an operator, found at a claim or accepted.
type Seek struct {
	From, To int64 // From is the ledger's next offset; To where the group was set
}

// Start is what ClaimRequest.Confirm decides under the fence lock.
type Start struct {
	Position Position
	Seek     *Seek
	// Accepted is the stop (Stop.ID) whose acceptance this start rests on; 0: none.
	Accepted int64
}

// ClaimRequest asks for a partition's fence.
type ClaimRequest struct {
	Partition Partition
	// Partitions is the topic's partition count; another count than recorded is refused.
	Partitions int32
	// Standing, where set, is told under the lock, before Confirm, what else the ledger knows of the partition.
	Standing func(Standing)
	// Confirm runs while the fence row is locked: it proves membership with a heartbeat and decides where to start,
	// given what the ledger stored (nil on the first claim). An error rolls the claim back. It runs on a goroutine of its own, returns
	// when ctx ends, and may be asked again, one after the other, where the connection has hung or somebody else has held the fence.
	Confirm func(ctx context.Context, stored *Position) (Start, error)
}

// Pointer says where an event's bytes are.
type Pointer struct {
	TopicID     TopicID
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Key         schemas.EventKey
	Hash        schemas.BodyHash
}

// Record is one record of a batch, gate's view and the ledger's. Its Size is the length of what Packed gives: that is what
// the gap buffer keeps.
type Record struct {
	gate.Record
	LeaderEpoch int32
	Source, ID  string
	Type        string
	ReceivedAt  time.Time // intake time
	// Packed gives the record in the form of schemas/record.Pack, for what must outlive the log. Called only for
	// records that are buffered, parked, in conflict or undecodable.
	Packed func() []byte
	// Error says in words why a Broken record is not decodable.
	Error string
}

// Slice is one partition's part of a batch, in offset order: all that the log has between From and Next.
type Slice struct {
	Claim *Claim
	// From is where the slice begins to have been read. It must be the ledger's next offset: offsets have holes, what was read
	// has none.
	From    int64
	Records []Record
	// Next is where to read on after the batch: behind the last record, control records included.
	Next Position
}

// Applied is what became of one slice.
type Applied struct {
	Claim  *Claim
	Fenced bool // somebody else holds the fence: nothing of the slice was written
	// Refused is why the ledger does not take the slice, however often it is tried: a *[ContinuityError], or what the database
	// refuses for good. Of a slice that was bisected the beginning may have been written; the claim is of no use any more.
	Refused  error
	Outcomes []gate.Outcome
	// Actions are the new open actions in lane_seq order. Those of events that came out of the gap buffer have a copy
	// (Action.HasCopy); for the others Action.Record is the index into Slice.Records.
	Actions []Action
	// Quarantined are the indices of records whose data the database refused, and that were quarantined.
	Quarantined []int
	// BackfillRequested says that the slice asked for a backfill.
	BackfillRequested bool
	// Waiting says that the slice left something in the gap buffer, so that the owner asks NextDeadline again.
	Waiting bool
}

// Status is an action's state.
type Status string

const (
	Pending    Status = "pending" // never tried
	Failed     Status = "failed"  // tried, will be retried at NextAt
	Done       Status = "done"
	Dead       Status = "dead_letter" // given up
	Parked     Status = "parked"      // stands behind a dead head
	Unknown    Status = "unknown"     // an unsafe attempt whose outcome nobody knows
	Processing Status = "processing"  // its destination has accepted it and reports the result later
	// Superseded is the end of an action that was never tried because a newer version stands behind it; see Spec.Latest.
	Superseded Status = "superseded"
	// Stale and Discarded have ended without being done: run again, it found that a newer one had been started (P4), or an
	// operator gave it up.
	Stale     Status = "stale"
	Discarded Status = "discarded"
)

// Action is one effect of one event, as the ledger holds it.
type Action struct {
	Claim       int32 // fence row
	LaneSeq     int64
	ID          schemas.ActionID
	Name        string
	Destination string
	OnDead      OnDead
	Entity      schemas.EntityKey
	Version     schemas.Version
	Late        bool
	Payload     schemas.PayloadKind // empty where nobody has written it down; see Spec.Latest
	Reason      gate.Reason
	Pointer     Pointer
	Source      string
	EventID     string
	EventType   string
	Status      Status
	Attempts    int
	Spent       int            // attempts that the retry policy does not count: before it was last run again, or while its destination was away
	FirstAt     time.Time      // of the first attempt, by our clock; zero before
	NextIn      time.Duration  // until the next attempt, by the database's clock; 0 now
	DoubtEnd    time.Time      // an attempt may have been made before the first that is recorded, and was over by then; zero: none
	Replay      *ReplayRequest // nil: nobody has asked to run it again
	Record      int            // see Applied.Actions; -1 elsewhere
	// Left is how long the result of a Processing action is still waited for, SilenceLeft how long its destination may still be silent; 0 is
	// over. Silence is how long that may be from sign to sign; 0: none is asked for.
	Left, SilenceLeft, Silence time.Duration
	// HasCopy says that the ledger has a payload copy. Packed is that copy, where the page had room for it; Open of this
	// action alone brings it.
	HasCopy bool
	Packed  []byte
}

// ReplayRequest says that an operator has asked to run an action again which was dead or whose outcome was unknown.
type ReplayRequest struct {
	At time.Time // the retry policy counts from here; by our clock
	// Force lets it run whatever has been started since: the operator wants it so, or it has parked its lane, so that nothing was.
	Force bool
	// Twice: the operator knows that it may be done twice.
	Twice bool
}

// Result is the end of one attempt, or a change of an action's status, to be recorded under the fence.
type Result struct {
	Claim    *Claim
	LaneSeq  int64
	ID       schemas.ActionID // kept with the action's row, so that it is found by it; empty where it is not at hand
	Status   Status           // Done, Failed, Dead, Unknown, Processing or Superseded
	Attempt  int              // 1 for the first; 0 when no attempt was made
	Spent    int              // as in [Action]; what is kept never becomes less
	Class    string           // closed list of sink.Class
	Code     int              // HTTP status or 0
	Latency  time.Duration
	Began    time.Time // of the attempt, by this process's clock; zero: Latency before it is recorded
	Error    string
	Response []byte        // the first 4 KiB of the answer
	Trace    [16]byte      // the trace id that the call was part of; zero: none
	NextIn   time.Duration // for Failed
	// Left and Silence are for Processing: how long the result is waited for, and how long silence may be; 0: for ever.
	Left, Silence time.Duration
	// Marked says that the attempt was marked before its call, by an Unknown of it without a class: this takes the mark's place
	// among the attempts.
	Marked bool
	// Reported says that the destination said so later: its word, see Report, is applied with this.
	Reported bool
	// DoubtEnd is as in [Action], where this is the first attempt that is recorded.
	DoubtEnd time.Time
	// Packed is a payload copy to keep: given with an action's first failure.
	Packed []byte
}
