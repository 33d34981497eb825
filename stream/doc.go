// Package stream wires a [Subscription]: an owner that claims the partitions which the subscription's Kafka group assigns, a
// reader of their records, a loop that has them decided and written by the ledger, batch by batch, and hands the actions that
// follow to the lanes, and the export of dead letters.
//
//	Kafka ─▶ owner (membership, claim, fence) ─▶ batch (gate + ledger) ─▶ Lanes
//	  └────▶ reader (reads from the ledger's offsets) ──────┘
//
// Each of them has a package of that name, whose documentation says what is not obvious about it.
//
// # Stopping
//
// A revoke stops the reading, lets the batch finish, drains the lanes within the rebalance timeout, mirrors, releases. A loss
// drops everything and writes nothing. [Subscription.Run] ends within its drain timeout whatever does not answer; the last
// fourth of it is kept for position, fence and group.
package stream
