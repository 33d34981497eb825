package gate

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Decision is what the gate said.
type Decision string

const (
	Applied     Decision = "applied"     // its actions run
	Duplicate   Decision = "duplicate"   // the same event was decided before
	Stale       Decision = "stale"       // a snapshot strictly lower than its line
	Late        Decision = "late"        // a delta, or a filler after a skip, behind its line: runs, marked
	Conflict    Decision = "conflict"    // same id, other body: kept, alerted, not run
	Buffered    Decision = "buffered"    // waits for the events before it
	Parked      Decision = "parked"      // held until its filler or a person comes
	Filtered    Decision = "filtered"    // the subscription does not want it
	Quarantined Decision = "quarantined" // not decodable
)

// Runs reports whether actions follow from d.
func (d Decision) Runs() bool { return d == Applied || d == Late }

// Reason is the closed list of why. It is a metric label and a column.
type Reason string

const (
	ReasonFirst        Reason = "first"         // first event of the entity's line
	ReasonNext         Reason = "next"          // newer than the line
	ReasonEqual        Reason = "equal"         // the line's own version, other id
	ReasonArrival      Reason = "arrival"       // no version, or order: arrival
	ReasonReleased     Reason = "released"      // was buffered; its filler came
	ReasonGapSkipped   Reason = "gap_skipped"   // was buffered; the wait ended and the gap was skipped
	ReasonSeen         Reason = "seen"          // same id, same body
	ReasonBodyDiffers  Reason = "body_differs"  // same id, other body
	ReasonOlder        Reason = "older"         // below the line
	ReasonOlderDelta   Reason = "older_delta"   // below the line, but news
	ReasonFiller       Reason = "filler"        // fills a place that was skipped
	ReasonEqualFirst   Reason = "equal_first"   // equal: first, and one of this version came before
	ReasonEqualLast    Reason = "equal_last"    // equal: last, and a later one of this version waited too
	ReasonGap          Reason = "gap"           // waits for a filler
	ReasonStartGap     Reason = "start_gap"     // start: first, and this is not the first
	ReasonOverflow     Reason = "overflow"      // the entity's or subscription's buffer is full
	ReasonGapExpired   Reason = "gap_expired"   // the wait ended, then: park
	ReasonBehindPark   Reason = "behind_park"   // the entity is parked for a gap
	ReasonType         Reason = "type"          // filtered by type
	ReasonUndecodable  Reason = "undecodable"   // not a CloudEvent of ours
	ReasonDataRejected Reason = "data_rejected" // the database refused the row's data
)

// Record is what the gate needs to know of one record of a partition.
type Record struct {
	Offset     int64
	AppendTime time.Time // the broker's; future timestamps are clamped against it
	Key        schemas.EventKey
	Hash       schemas.BodyHash
	Entity     schemas.EntityKey
	Version    schemas.Version
	First      *int64
	Payload    schemas.PayloadKind
	Deleted    bool
	Filtered   bool   // the subscription's filter said no
	Broken     Reason // not empty: undecodable, nothing else is set
}

// Seen is what is known of an event that was decided before. Filtered ones are not remembered: an entry that says
// Filtered counts as none. A conflict never replaces the event that came first.
type Seen struct {
	Hash     schemas.BodyHash
	Decision Decision
}

// Line is the newest version of one of an entity's clocks. Deletions keep it.
type Line struct {
	At       schemas.Version
	Key      schemas.EventKey // the event that brought the line to At
	Filtered bool             // that event was filtered: its twin by version is not stale (kind sequence only)
	Skipped  []Span           // places skipped by a gap policy and not filled since, ascending, bounded by MaxSpans
	Parked   Reason           // gap_expired or overflow while events are parked on it; only their filler advances it
}

// Span is a closed range of sequence values.
type Span struct{ From, To int64 }

// MaxSpans bounds Line.Skipped; beyond it the oldest is forgotten, and a filler of it is then a plain late or stale.
const MaxSpans = 16

// Waiting is a record in the gap buffer, with all fields that it came with (First and Filtered included). All that
// waits on a line is Buffered, with a deadline that the ledger keeps, or all of it is Parked, without one.
//
// Filtered is set on an event of kind sequence that the subscription does not want and that came before its turn: it
// waits only to fill its place, its release is `filtered`, and it is not in State.Seen.
type Waiting struct {
	Record
	Decision Decision // Buffered or Parked
}

// LineKey names a line inside a partition.
type LineKey struct {
	Entity schemas.EntityKey
	Clock  string
}

// State is what the gate knows of the entities of one partition that a call touches. Decide and Expire advance it in
// place. Every LineKey of the call's records is present in Lines if a line exists, with all of its Waiting.
type State struct {
	Seen    map[schemas.EventKey]Seen
	Lines   map[LineKey]*Line
	Waiting map[LineKey][]Waiting // ascending by version, then offset; never an empty list
	// Buffered is how many events of the subscription wait with a deadline in this partition, for Policy.MaxBuffered.
	// Parked ones do not count: a parked entity takes no room from the others.
	Buffered int
}

// Waits gives the lowest event of a line that waits with a deadline, and whether there is one. After Decide and Expire
// it tells which lines need a deadline: none where nothing waits or all of it is parked.
func (st *State) Waits(k LineKey) (lowest *Waiting, ok bool) {
	w := st.Waiting[k]
	if len(w) == 0 || w[0].Decision == Parked {
		return nil, false
	}
	return &w[0], true
}

// NewState is an empty state.
func NewState() *State {
	return &State{
		Seen: map[schemas.EventKey]Seen{}, Lines: map[LineKey]*Line{}, Waiting: map[LineKey][]Waiting{},
	}
}

// A subscription's choices; their values are the configuration's words.
type (
	// Order is what actions of an entity follow.
	Order string
	// Start is what the first event of an unknown entity may be.
	Start string
	// Equal is what becomes of an event that is no newer than the line.
	Equal string
	// Then is what follows a gap's wait.
	Then string
)

const (
	OrderVersion Order = "version"
	OrderArrival Order = "arrival"

	StartAny   Start = "any"
	StartFirst Start = "first"

	EqualApply Equal = "apply" // all of one version run
	EqualFirst Equal = "first" // the first of one version runs, snapshots after it do not
	EqualLast  Equal = "last"  // as apply, but of snapshots of one version that wait together only the last runs

	ThenSkip Then = "skip"
	ThenPark Then = "park"
)

// Policy is how a subscription wants its events ordered. Empty words mean version, any, apply and skip.
type Policy struct {
	Order Order
	Start Start
	Equal Equal
	// GapWait is how long a gap is waited for; 0 acts at once. Then says what follows.
	GapWait time.Duration
	Then    Then
	// MaxPerEntity caps how many events wait on one line, MaxBuffered how many in the partition; 0 is no cap. The event
	// that would be over a cap parks its line and everything that waits on it. Nothing is ever dropped: the caps bound
	// what waits with a deadline, and what is parked is the ledger's to keep.
	MaxPerEntity, MaxBuffered int
	// FutureSkew is how far a timestamp may lie ahead of the record's append time; one beyond is clamped to that limit.
	FutureSkew time.Duration
}

// Outcome is one decision. Outcomes come in the order in which their actions run: a filler before what it releases.
//
// An event enters the gap buffer with Buffered or Parked and a Record >= 0. It leaves it with Record -1 and any other
// decision; Record -1 with Parked means that it stays, parked from now on. One key may leave and enter in one call,
// with the same offset even: a filtered event that waited is `filtered` and its redelivery decided anew (take removals
// before entries).
type Outcome struct {
	// Record is the index into the call's records, or -1 for one that came out of the gap buffer.
	Record int
	// Released is set when Record is -1: the event as it waited.
	Released *Waiting
	Decision Decision
	Reason   Reason
	// Version is the event's version as the line took it (epoch given, future clamped).
	Version schemas.Version
}
