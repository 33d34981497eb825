package gate

import "github.com/forebay-io/forebay/schemas"

// VersionLine is the newest version of one of an entity's clocks. Deletions keep it.
type VersionLine struct {
	At       schemas.Version  // the newest version
	Key      schemas.EventKey // the event that brought the line to At
	Filtered bool             // that event was filtered: a wanted event of the same version still runs (kind sequence only)
	Skipped  []Span           // values skipped by a gap policy and not filled since, ascending, bounded by MaxSpans
	Parked   Reason           // gap_expired or overflow while events are parked on it; only their filler advances it
}

// Span is a range of sequence values, both ends included.
type Span struct{ From, To int64 }

// MaxSpans bounds VersionLine.Skipped. Beyond it the oldest span is dropped, and a filler of that is then late or stale like any older
// event.
const MaxSpans = 16

// Waiting is a record in the gap buffer with all its fields. Its epoch is given, and its timestamp is clamped. The events that wait on one
// version line are either all Buffered, with one stage and deadlines that the ledger keeps, or all Parked, without.
//
// Filtered is set on an event of kind sequence that the subscription does not want and that came before its turn: it
// waits only to fill its place, its release is `filtered`, and it is not in State.Seen.
type Waiting struct {
	Record
	Decision Decision // Buffered or Parked
	Stage    Stage
}

// Stage is what an event with a deadline waits for. When the events behind the first gap have left, the others are behind another gap,
// and their stage is Filling again.
type Stage string

const (
	Filling     Stage = ""            // its filler, for Policy.GapWait
	Backfilling Stage = "backfilling" // the answer to a Request, for Policy.BackfillWait
	// Releasing is the stage of the lowest event on a version line that has reached it, also of one that is parked: it waits for the
	// next step of a release, see Policy.MaxReleases. Its deadline is now.
	Releasing Stage = "releasing"
)

// VersionLineKey names a version line inside a partition.
type VersionLineKey struct {
	Entity schemas.EntityKey
	Clock  string
}

// State is what the gate knows of the entities of one partition that a call touches. Decide and Expire advance it in place: a version line
// that is there keeps its pointer. The caller fills in, for every VersionLineKey of its records, the version line if there is one and all
// that waits there, or a part of that (First). Seen may lack an event that was decided before if the caller notices that afterwards (see the ledger's possible
// duplicates).
type State struct {
	Seen    map[schemas.EventKey]Seen
	Also    map[Also]Said // of the records' second keys, those that are known; may be nil where Policy.Also is 0
	Lines   map[VersionLineKey]*VersionLine
	Waiting map[VersionLineKey][]Waiting // ascending by version, then offset, another kind than the line's last; see Sort. Never an empty list
	// First has the lines of which Waiting is a part: how many of its events, at least one, are the lowest that wait there. Behind them the
	// highest one must be there, and those that have the key of a record. Only parked events may be given so, and only if they are all of
	// one kind, sequence or timestamp. A line that is in Short after a call must be given whole, and everything else as it was before.
	First map[VersionLineKey]int
	Short map[VersionLineKey]bool
	// Buffered is how many events of the subscription wait with a deadline in this partition, for Policy.MaxBuffered, and
	// BufferedBytes the sum of their sizes, for Policy.MaxBytes. Parked ones do not count: a parked entity takes no room
	// from the others.
	Buffered      int
	BufferedBytes int64
	// Requests are the backfills that Decide and Expire asked for, in order; they only append. See State.Wanted.
	Requests []Request
}

// Waits returns the lowest event of a version line that waits with a deadline, or for the next step of a release, and whether there is one.
// After Decide and Expire, the caller finds out by it which version lines need a deadline, and by its Stage how long they wait.
func (st *State) Waits(k VersionLineKey) (lowest *Waiting, ok bool) {
	w := st.Waiting[k]
	if len(w) == 0 || w[0].Decision == Parked && w[0].Stage != Releasing {
		return nil, false
	}
	return &w[0], true
}

// NewState returns an empty state.
func NewState() *State {
	return &State{
		Seen: map[schemas.EventKey]Seen{}, Also: map[Also]Said{}, Lines: map[VersionLineKey]*VersionLine{}, Waiting: map[VersionLineKey][]Waiting{},
	}
}
