// Package batch runs a subscription's batches: [Loop] fills them from the reader, hands them to the ledger, which decides and
// writes them in one transaction, and gives what follows to the lanes. Between two batches it ends the waits for gaps, applies
// what operators ask for, and tells the ledger of partitions that are idle.
//
// Who claims partitions attaches them as a [Partition] each, and hears from it why its run ended.
//
// Each slice of a batch says from where to where it was read. One that does not begin where the ledger stands is a fault of
// ours: it is refused, counted (forebay_stream_discontinuities_total), logged as an error, and the partition is read again
// from the stored offset. So is a batch whose parts do not join.
//
// # A topic that grows while it is read
//
// The reader finds that out by a record that is not where its key belongs. Idle topics are asked every 10 s, and no wait for a
// gap ends before its topic was asked. Where the number of partitions has changed, all claims of the topic end with a report.
// The partitions that were there before are then claimed for their lanes alone, by the recorded number, so that what is open
// still runs and `topics rekey` does not wait for it for ever. What waits for a gap waits on, past its deadline, since its filler
// may be in a new partition; `topics rekey` takes it along.
package batch
