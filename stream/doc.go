// Package stream wires the parts of a [Subscription]. An owner claims the partitions that the Kafka group assigns. A reader reads
// their records. A loop has the ledger decide and write them batch by batch, and hands the new actions to the lanes. An exporter
// copies dead letters to their topic.
//
//	Kafka ─▶ owner (membership, claim, fence) ─▶ batch (gate + ledger) ─▶ Lanes
//	  └────▶ reader (reads from the ledger's offsets) ──────┘
//
// Each of them has a package, whose documentation says what is not obvious about it.
//
// # Stopping
//
// After a revoke, reading stops, the batch finishes, the lanes drain within half of the rebalance timeout, the position is mirrored and
// the fence released. After a loss everything is dropped and nothing written. [Subscription.Run] ends within its drain timeout even if
// brokers or the database do not answer; the last fourth of it is kept to mirror, release and leave the group.
package stream
