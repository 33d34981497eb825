package gate

// Decisions lists every decision in the order of declaration. A metric's label and a column have no other values.
func Decisions() []Decision {
	return []Decision{Applied, Duplicate, Stale, Late, Conflict, Buffered, Parked, Filtered, Quarantined}
}

// Reasons lists every reason in the order of declaration. A metric's label and a column have no other values.
func Reasons() []Reason {
	return []Reason{
		ReasonFirst, ReasonNewEpoch, ReasonNext, ReasonEqual, ReasonArrival, ReasonBackfilled, ReasonReleased, ReasonGapSkipped, ReasonGapDead,
		ReasonSeen, ReasonBodyDiffers, ReasonOlder, ReasonOlderDelta, ReasonOlderHeld, ReasonFiller, ReasonEqualFirst,
		ReasonEqualLast, ReasonEqualHeld, ReasonGap, ReasonStartGap, ReasonStartBackfill, ReasonOverflow, ReasonGapExpired,
		ReasonBehindPark, ReasonType, ReasonMatch, ReasonExpression, ReasonUndecodable, ReasonDataRejected,
		ReasonMisplaced, ReasonTooLarge, ReasonRedriven, ReasonDiscarded, ReasonReprocess, ReasonKey,
	}
}
