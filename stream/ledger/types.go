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
	// Policy has the caps of a topic: each of its partitions has an even share of MaxBuffered and MaxBytes. Without MaxReleases one
	// transaction releases up to [MaxReleases] events from the gap buffer.
	Policy gate.Policy
	// Latest says that lanes want to know of each action whether its payload is a delta (backlog: latest).
	Latest bool
	// Window is how long dedupe remembers; 0 means for ever.
	Window time.Duration
	// Done and Dead are how long actions that are done and dead ones stay readable, with their attempts, and rejected records with
	// them; longer if dedupe needs the same tables. 0 is as SweepConfig says.
	Done, Dead time.Duration
	// MaxAge bounds how long an event waits in gaps, over all the gaps it stands behind; 0 is no bound.
	MaxAge time.Duration
	// Forget is after how long without an event a version line is deleted, counted from the end of the dedupe window in which the last
	// event came; 0 is never. The next event then begins it, so it needs Policy.Start any.
	Forget time.Duration
	// CacheLines bounds the version lines that each claim keeps in memory, and four times as many events that wait on them; 0 means 32768.
	CacheLines int
}

// ActionSpec is one action of a subscription, in listed order.
type ActionSpec struct {
	Name        string
	Destination string // its full name: "<team>/<destination>", or "<destination>" where teams share it
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
	Unclean   bool     // the owner before did not release: its calls may be in flight
	// DoubtTo is the lane_seq below which the first open action of each entity may have been attempted by an unclean owner that
	// recorded nothing; 0: none. DoubtAt is when that owner's claim ended: its last call began before. An unclean claim sets both,
	// and they go from claim to claim, until lanes that have recorded something of all these actions set DoubtTo to 0 and release.
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
	// Accepted is the id of the stop whose acceptance this start uses; 0: none.
	Accepted int64
}

// ClaimRequest asks for a partition's fence.
type ClaimRequest struct {
	Partition Partition
	// Partitions is the topic's partition count; another count than recorded is refused.
	Partitions int32
	// Standing, if not nil, is called under the lock, before Confirm, with what else the ledger knows of the partition.
	Standing func(Standing)
	// Confirm is called while the fence row is locked: it proves membership with a heartbeat and decides where to start, given the
	// stored position (nil on the first claim). An error rolls the claim back. It runs on a goroutine of its own and must return when
	// ctx ends. If the connection hung or somebody else held the fence for too long, it is called again, after the first call returned.
	Confirm func(ctx context.Context, stored *Position) (Start, error)
}

// Pointer says where an event's bytes are in the log, and what they must be.
type Pointer struct {
	TopicID     TopicID
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Key         schemas.EventKey
	Hash        schemas.BodyHash
}

// Record is one record of a batch: what the gate needs of it, and what only the ledger does. Its Size is the length of what Packed
// returns, because that is what the gap buffer keeps.
type Record struct {
	gate.Record
	LeaderEpoch int32
	Source, ID  string
	Type        string
	ReceivedAt  time.Time // intake time
	// Packed returns the record in the form of schemas/record.Pack, to be kept beside the log. It is called only for records that wait,
	// are held, dead letters at once, in conflict or quarantined. nil: there are no bytes to keep.
	Packed func() []byte
	// Error says in words why a Broken record is not decodable.
	Error string
}

// Slice is one partition's part of a batch, in offset order: all that the log has between From and Next.
type Slice struct {
	Claim *Claim
	// From is the offset from which the slice was read. It must be the ledger's next offset: offsets have holes, but ranges that were
	// read must not.
	From    int64
	Records []Record
	// Next is where to read on after the slice: behind the last record, control records included.
	Next Position
}

// Applied is what became of one slice.
type Applied struct {
	Claim  *Claim
	Fenced bool // somebody else holds the fence: nothing of the slice was written
	// Refused is why the ledger does not take the slice, however often it is tried: a *[ContinuityError], or an error with which the
	// database refuses it for good. Of a slice that was bisected the beginning may have been written; the claim must not be used any more.
	Refused  error
	Outcomes []gate.Outcome
	// Actions are the new open actions in lane_seq order. Those of events that came out of the gap buffer have a copy
	// (Action.HasCopy); for the others Action.Record is the index into Slice.Records.
	Actions []Action
	// Quarantined are the indices of records whose data the database refused, and that were quarantined.
	Quarantined []int
	// BackfillRequested says that the slice asked for a backfill.
	BackfillRequested bool
	// ReplayEnded says of a step of a replay that it was cancelled, or has ended otherwise: nothing more of the slice was written.
	ReplayEnded bool
	// Waiting says that events of the partition wait with a deadline: the owner calls NextDeadline again.
	Waiting bool
}

// Status is an action's state.
type Status string

const (
	Pending    Status = "pending" // never tried
	Failed     Status = "failed"  // tried, will be retried at NextAt
	Done       Status = "done"
	Dead       Status = "dead_letter" // given up
	Parked     Status = "parked"      // behind a dead or unknown head
	Unknown    Status = "unknown"     // an unsafe attempt whose outcome nobody knows
	Processing Status = "processing"  // its destination has accepted it and reports the result later
	// Superseded has ended because a newer version came behind it: untried, see Spec.Latest, or cancelled while its destination was at work
	// (its class is sink.Newer).
	Superseded Status = "superseded"
	// Skipped has ended, as have Dropped and Denied, by the word of a guard, whose reason is their class; see stream/policy.
	Skipped Status = "skipped"
	Dropped Status = "dropped"
	Denied  Status = "denied"
	// WaitingApproval waits for a person's word, WaitingBudget until its budget has room.
	WaitingApproval Status = "waiting_approval"
	WaitingBudget   Status = "waiting_budget"
	// Stale and Discarded have ended without being done: an action that was to run again was not, because its entity had a newer version
	// meanwhile (P4); an operator gave one up.
	Stale     Status = "stale"
	Discarded Status = "discarded"
)

// Closed reports whether an action with the status is not open any more: it has come to its end, and no lane waits for it.
func (s Status) Closed() bool {
	switch s {
	case Done, Superseded, Skipped, Dropped, Denied, Stale, Discarded:
		return true
	}
	return false
}

// Waits reports whether an action with the status waits for what a guard asks for.
func (s Status) Waits() bool { return s == WaitingApproval || s == WaitingBudget }

// ByGuard reports whether a guard ends an action with the status.
func (s Status) ByGuard() bool { return s == Skipped || s == Dropped || s == Denied }

// Action is one effect of one event, as the ledger holds it.
type Action struct {
	Claim       int32 // fence row
	LaneSeq     int64
	ID          schemas.ActionID
	Generation  int32 // the subscription's own, or the number of the replay that runs its event again
	Name        string
	Destination string
	OnDead      OnDead
	Entity      schemas.EntityKey
	Version     schemas.Version
	Late        bool
	Payload     schemas.PayloadKind // empty unless Spec.Latest
	Reason      gate.Reason
	Pointer     Pointer
	Source      string
	EventID     string
	EventType   string
	Status      Status
	Attempts    int
	// AttemptEpoch is the epoch of the owner that made the last of Attempts; 0: there is none.
	AttemptEpoch int64
	Spent        int            // attempts that the retry policy does not count: before it was last run again, or while its destination was away
	FirstAt      time.Time      // of the first attempt, by our clock; zero before
	Since        time.Time      // since when it is to run, by our clock: its event was decided or released, or an operator asked again; zero: just now
	NextIn       time.Duration  // until the next attempt, by the database's clock; 0 now
	DoubtEnd     time.Time      // an unclean owner may have made an attempt that is not recorded; it was over by then. Zero: none
	Replay       *ReplayRequest // nil: nobody has asked to run it again
	Record       int            // see Applied.Actions; -1 elsewhere
	// Of a Processing action: Left is how long the result is still waited for, SilenceLeft how long its destination may still be without
	// a heartbeat; 0: that time is over. Silence is how long it may be between two heartbeats; 0: heartbeats are not asked for.
	Left, SilenceLeft, Silence time.Duration
	// Likewise: CancelURL is where its destination is still to be told that the result is not wanted any more; empty: nowhere, or it was told.
	// Newer says that it is not, because the entity has a newer version; see [Namespace.Cancel].
	CancelURL string
	Newer     bool
	// HasCopy says that the ledger has a payload copy. Packed is that copy, if the page had room for it; Open of this action alone
	// always has.
	HasCopy bool
	Packed  []byte
}

// ReplayRequest says that an operator has asked to run an action again which was dead or whose outcome was unknown.
type ReplayRequest struct {
	At time.Time // the retry policy counts from here; by our clock
	// Force lets the action run although its entity may have a newer version: the operator wants it so, or the action has parked its
	// lane, and none was started.
	Force bool
	// Twice says that the operator knows that the action may be done twice.
	Twice bool
	// Tried says that an attempt has ended since, and is recorded: not all of [Action.Spent] are of runs before.
	Tried bool
}

// Result is the end of one attempt, or a change of an action's status, to be recorded under the fence.
type Result struct {
	Claim    *Claim
	LaneSeq  int64
	ID       schemas.ActionID // kept in the action's row, by which it is found then; may be empty
	Status   Status           // Done, Failed, Dead, Unknown, Processing, Superseded, or one that a guard gives
	Attempt  int              // 1 for the first; 0 when no attempt was made
	Epoch    int64            // of the owner that made the attempt; 0: that of Claim. A report may be on an attempt of an earlier owner
	Spent    int              // as in [Action]; what is kept never becomes less
	Class    string           // closed list of sink.Class, or a guard's reason
	Code     int              // HTTP status or 0
	Latency  time.Duration
	Began    time.Time // when the attempt began, by this process's clock; zero: Latency before it is recorded
	Error    string
	Response []byte        // the first 4 KiB of the answer
	Trace    [16]byte      // the trace id that the call was part of; zero: none
	NextIn   time.Duration // for Failed, and for what waits for a guard: when it is asked again
	// Guarded says that a guard has decided: a Dead action parks its lane whatever on_dead says.
	Guarded bool
	// Left and Silence are for Processing: how long the result is waited for, and how long the destination may be without a heartbeat (0:
	// for ever).
	Left, Silence time.Duration
	// CancelURL is for Processing, too: where the destination wants to be told that the result is not wanted any more.
	CancelURL string
	// Marked says that the attempt was recorded before its call, as an Unknown without a class: this result replaces that row of the
	// attempt.
	Marked bool
	// Reported says that the destination has reported this result later, see Report: the report ends as applied with it.
	Reported bool
	// Cost is that of the report. The ledger does not keep it.
	Cost int64
	// DoubtEnd is that of the [Action], if this is the first attempt that is recorded.
	DoubtEnd time.Time
	// Packed is a payload copy to keep, with an action's first failure; nil: none.
	Packed []byte
}
