// Package ledger is the one Postgres lineage of Forebay and its transactions: fences, progress, dedupe, version lines,
// gap buffer, actions.
//
//	Claim   lock the fence, confirm membership, decide where to start          (one transaction)
//	Apply   fence, dedupe, gate, buffer, actions, next offset                  (one transaction of two round trips)
//	Expire  the same for gaps whose wait has ended
//	Record  results of attempts, in groups across lanes, under the fence
//	Open    read open actions back after a claim
//
// It is the only package besides sinks/postgres that knows pgx. Lock order, everywhere: fences, events, lines, actions, each sorted.
package ledger
