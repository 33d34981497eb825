package gate

import (
	"fmt"
	"slices"
)

// Decisions lists every decision in the order of declaration: the bound of a metric label and of a column.
func Decisions() []Decision {
	return []Decision{Applied, Duplicate, Stale, Late, Conflict, Buffered, Parked, Filtered, Quarantined}
}

// Reasons lists every reason in the order of declaration: the bound of a metric label and of a column.
func Reasons() []Reason {
	return []Reason{
		ReasonFirst, ReasonNext, ReasonEqual, ReasonArrival, ReasonReleased, ReasonGapSkipped, ReasonSeen,
		ReasonBodyDiffers, ReasonOlder, ReasonOlderDelta, ReasonFiller, ReasonEqualFirst, ReasonEqualLast, ReasonGap,
		ReasonStartGap, ReasonOverflow, ReasonGapExpired, ReasonBehindPark, ReasonType, ReasonUndecodable, ReasonDataRejected,
	}
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
