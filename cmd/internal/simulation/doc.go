// Package simulation runs the whole system in one process on virtual time and breaks it where a seed says so.
//
//	provider ──HTTP──▶ intake ──▶ kfake ──▶ stream processes ──HTTP──▶ agent
//	   └─ told ─┐                              └ ledger in memory        └─ saw ─┐
//	            └───────────────────────── judge ────────────────────────────────┘
//
// Everything between provider and agent is the product's own code: the ingest handler, the producer, the subscription with
// reader, owner, loop and gate, the lanes, the HTTP sink. The broker is kfake on a network in memory, the ledger is the double
// of package ledgertest, which passes the ledger's own conformance suite.
//
// The judge reads what the provider was told, what the agent saw, what was configured, which faults there were, and which records
// they deleted: each fault keeps a list of its own. It hears the product for two ends:
//
//   - To demand more. A log line that says "a fault of forebay", or that a delivery is quarantined, is a finding. An event that the
//     product says it has decided must act, though its record be gone and a stop say so.
//
//   - To allow an event to be missing if a fault has deleted its record. The product must have reported that as well: by a stop that
//     covers the record, or by payload_lost. A stop or a payload_lost without such a fault excuses nothing. The same holds for
//     a topic that stands still because it has grown: a fault must have grown it.
//
//     go test ./... -run Simulation                                a hundred seeds; a thousand where CI is set
//     go test ./cmd/internal/simulation -run Simulation -seeds=N   the first N
//     go test ./cmd/internal/simulation -run Simulation -seed=N    one of them; -v shows all that was logged in it
//     make mutants                                                 small changes of the product, each of which has to be caught
//
// A seed fixes the world, the faults and when they come. What goroutines do in one moment is Go's scheduler's business, so a
// seed that fails once may need some runs to fail again: -count.
package simulation
