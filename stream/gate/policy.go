package gate

import (
	"fmt"
	"slices"
	"time"
)

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

// Validate refuses values that this gate does not know. Decide and Expire take them for the default.
func (p Policy) Validate() error {
	switch {
	case !known(p.Order, "", OrderVersion, OrderArrival):
		return fmt.Errorf("order %q is not one of version, arrival", p.Order)
	case !known(p.Start, "", StartAny, StartFirst):
		return fmt.Errorf("start %q is not one of any, first", p.Start)
	case !known(p.Equal, "", EqualApply, EqualFirst, EqualLast):
		return fmt.Errorf("equal %q is not one of apply, first, last", p.Equal)
	case !known(p.Then, "", ThenSkip, ThenPark):
		return fmt.Errorf("then %q is not one of skip, park", p.Then)
	case p.GapWait < 0:
		return fmt.Errorf("gap wait %s is negative", p.GapWait)
	case p.FutureSkew < 0:
		return fmt.Errorf("future skew %s is negative", p.FutureSkew)
	case p.MaxPerEntity < 0 || p.MaxBuffered < 0:
		return fmt.Errorf("a cap is negative: %d per entity, %d in all", p.MaxPerEntity, p.MaxBuffered)
	}
	return nil
}

func known[T comparable](v T, of ...T) bool { return slices.Contains(of, v) }
