package gate

// Decisions lists every decision in the order of declaration. A metric's label and a column have no other values.
func Decisions() []Decision {
	return []Decision{Applied, Duplicate, Stale, Late, Conflict, Buffered, Parked, Filtered, Quarantined}
}

// QuarantineReasons lists the reasons of [Quarantined].
func QuarantineReasons() []Reason {
	return []Reason{ReasonUndecodable, ReasonDataRejected, ReasonMisplaced, ReasonTooLarge, ReasonExpression}
}
