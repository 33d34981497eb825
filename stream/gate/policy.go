package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// A subscription's choices; their values are the configuration's words.
type (
	// Order is by what the actions of an entity are ordered.
	Order string
	// Start is which event may begin the version line of an unknown entity.
	Start string
	// Equal is what becomes of an event of its version line's own version, under another id.
	Equal string
	// StaleDo is what becomes of an event that is older than its version line.
	StaleDo string
	// Then is what follows when a wait for a gap ends.
	Then string
)

const (
	OrderVersion Order = "version"
	OrderArrival Order = "arrival" // the order of the log

	StartAny      Start = "any"
	StartFirst    Start = "first"    // the first value that the provider promises, where it does
	StartBackfill Start = "backfill" // a synthetic event, which is asked for when the first event comes

	EqualApply Equal = "apply" // all of one version run
	EqualFirst Equal = "first" // the first of one version runs, those after it are dealt with as if they were older
	EqualHold  Equal = "hold"  // the first of one version runs, an operator decides about those after it
	EqualLast  Equal = "last"  // as apply, but of snapshots of one version that wait together only the last runs

	StaleDrop    StaleDo = "drop"           // stale, with a record
	StaleDeliver StaleDo = "deliver_marked" // late: runs, marked
	StaleHold    StaleDo = "hold"           // held: kept alone for an operator

	ThenSkip       Then = "skip"        // go on with what stands behind the gap
	ThenPark       Then = "park"        // park what waits until its filler or an operator comes
	ThenBackfill   Then = "backfill"    // ask for what is missing, and wait for the answer
	ThenDeadLetter Then = "dead_letter" // as skip, and give up what stands behind the gap: its actions are dead letters
)

// OnStale says what becomes of an event that is older than its version line, by the kind of its body; a body of unknown kind counts as a
// delta. Empty means drop for a snapshot and deliver_marked for a delta.
type OnStale struct{ Snapshot, Delta StaleDo }

// of returns what s says for a kind of body, and the default if s says nothing that the gate knows.
func (s OnStale) of(kind schemas.PayloadKind) StaleDo {
	do, byDefault := s.Delta, StaleDeliver
	if kind == schemas.Snapshot {
		do, byDefault = s.Snapshot, StaleDrop
	}
	if do == StaleDrop || do == StaleDeliver || do == StaleHold {
		return do
	}
	return byDefault
}

// Policy is how a subscription wants its events ordered. Empty words mean version, any, apply and skip.
type Policy struct {
	Order Order
	Start Start
	Equal Equal
	Stale OnStale
	// GapWait is how long a gap is waited for; 0 acts at once. Then says what follows.
	GapWait time.Duration
	Then    Then
	// LateSnapshots lets a snapshot that fills a skipped place run, marked; otherwise Stale says what becomes of it.
	LateSnapshots bool
	// BackfillWait is how long the answer to a Request is waited for, with Then or Start backfill. Otherwise says what
	// follows: skip, park or dead_letter; empty is park. On a version line that has not begun, skip has the lowest event begin
	// it, as Start any does.
	BackfillWait time.Duration
	Otherwise    Then
	// MaxPerEntity caps how many events wait on one version line, MaxBuffered how many in the partition (see Share), and
	// MaxBytesPerEntity and MaxBytes how many bytes of payload they have; 0 is no cap. The event that would be over a cap parks
	// its version line and all events that wait there. Nothing is ever dropped: the caps bound what waits with a deadline, and
	// the ledger keeps what is parked.
	MaxPerEntity, MaxBuffered   int
	MaxBytesPerEntity, MaxBytes int64
	// MaxReleases is how many events one call lets go from the gap buffer, where their filler or an operator releases them; 0 is no bound.
	// Those beyond go in later calls, in order; see Releasing. Not bounded are those that have waited for a gap which ends without a wait
	// now, or which is none any more since Order is arrival, those behind one that ends in dead letters, which the caps bound, and those of a version line that values of a third kind come to
	// while it begins again with those of another.
	MaxReleases int
	// Also is for how long a second key is that of the event which came first with it: since that was decided, and around the time at which it
	// was appended, so that a rewind decides as before. 0: there are no second keys.
	Also time.Duration
	// FutureSkew is how far a timestamp may lie ahead of the record's append time; one beyond is clamped to that limit.
	FutureSkew time.Duration
}

// Share returns p for one of n partitions: MaxBuffered and MaxBytes are divided evenly among them, and are at least one
// event and one byte.
func (p Policy) Share(n int) Policy {
	if p.MaxBuffered > 0 {
		p.MaxBuffered = max(1, p.MaxBuffered/n)
	}
	if p.MaxBytes > 0 {
		p.MaxBytes = max(1, p.MaxBytes/int64(n))
	}
	return p
}

// otherwise returns what follows when the wait for a backfill's answer ends.
func (p Policy) otherwise() Then {
	if p.Otherwise == ThenSkip || p.Otherwise == ThenDeadLetter {
		return p.Otherwise
	}
	return ThenPark
}

// Validate refuses values that this gate does not know. Decide and Expire take them for the default.
func (p Policy) Validate() error {
	switch {
	case !known(p.Order, "", OrderVersion, OrderArrival):
		return fmt.Errorf("order %q is not one of version, arrival", p.Order)
	case !known(p.Start, "", StartAny, StartFirst, StartBackfill):
		return fmt.Errorf("start %q is not one of any, first, backfill", p.Start)
	case !known(p.Equal, "", EqualApply, EqualFirst, EqualLast, EqualHold):
		return fmt.Errorf("equal %q is not one of apply, first, last, hold", p.Equal)
	case !known(p.Stale.Snapshot, "", StaleDrop, StaleDeliver, StaleHold):
		return fmt.Errorf("stale %q for snapshots is not one of drop, deliver_marked, hold", p.Stale.Snapshot)
	case !known(p.Stale.Delta, "", StaleDrop, StaleDeliver, StaleHold):
		return fmt.Errorf("stale %q for deltas is not one of drop, deliver_marked, hold", p.Stale.Delta)
	case !known(p.Then, "", ThenSkip, ThenPark, ThenBackfill, ThenDeadLetter):
		return fmt.Errorf("then %q is not one of skip, park, backfill, dead_letter", p.Then)
	case !known(p.Otherwise, "", ThenSkip, ThenPark, ThenDeadLetter):
		return fmt.Errorf("otherwise %q is not one of skip, park, dead_letter", p.Otherwise)
	case (p.Then == ThenBackfill || p.Start == StartBackfill) && p.BackfillWait <= 0:
		return fmt.Errorf("backfill wait %s leaves no time for an answer", p.BackfillWait)
	case p.GapWait < 0:
		return fmt.Errorf("gap wait %s is negative", p.GapWait)
	case p.Also < 0:
		return fmt.Errorf("the window of second keys %s is negative", p.Also)
	case p.FutureSkew < 0:
		return fmt.Errorf("future skew %s is negative", p.FutureSkew)
	case p.MaxReleases < 0:
		return fmt.Errorf("%d releases at once are negative", p.MaxReleases)
	case p.MaxPerEntity < 0 || p.MaxBuffered < 0:
		return fmt.Errorf("a cap is negative: %d events per entity, %d in all", p.MaxPerEntity, p.MaxBuffered)
	case p.MaxBytesPerEntity < 0 || p.MaxBytes < 0:
		return fmt.Errorf("a cap is negative: %d bytes per entity, %d in all", p.MaxBytesPerEntity, p.MaxBytes)
	}
	return nil
}

func known[T comparable](value T, values ...T) bool { return slices.Contains(values, value) }
