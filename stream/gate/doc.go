// Package gate decides what becomes of every record: applied, duplicate, stale, late, conflict, buffered, parked,
// filtered or quarantined, always with a reason.
//
// It is pure: no I/O, no clock, no randomness. The ledger gives it the state of the entities that a batch touches, it
// gives back the outcomes and has advanced that state in place. Whoever rolls back throws the state away.
package gate
