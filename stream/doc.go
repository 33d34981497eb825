// Package stream owns partitions and runs batches: it joins the subscription's Kafka group, claims each assigned
// partition's fence, feeds records through the gate into the ledger, and hands the actions that follow to the lanes.
//
// It also owns the contract of a [Sink], one attempt at one kind of destination.
//
//	Kafka ─▶ Group (membership) ─▶ owner (claim, fence) ─▶ batch (gate + ledger) ─▶ Lanes ─▶ Sink
package stream
