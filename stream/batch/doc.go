// Package batch runs a subscription's batches. [Loop] fills a batch from the reader, has the ledger decide and write it in one
// transaction, and hands the new actions to the lanes. Between two batches it ends waits for gaps, applies operators' commands,
// and tells the ledger which partitions are idle.
//
// The owner attaches each claimed partition as a [Partition]. If the loop ends the partition's run, [Partition.Ended] says why.
//
// Each slice of a batch says from which offset to which it was read. A slice that does not begin at the ledger's next offset is the
// fault of Forebay itself: it is refused, counted (forebay_stream_discontinuities_total) and logged as an error, and the partition is read
// again from the ledger's offset. The same happens if two parts of one partition in a batch do not join.
//
// # When a gap's wait ends
//
// The deadline has passed by the database's clock, and the partition has been read to the end that was observed after that. So downtime never
// turns an unread filler into a loss, and a long catch-up never ends a wait whose filler lies before it in the log. Both are asked for in series
// with the batches, on idle partitions too (gaps.go).
//
// # A topic that grows while it is read
//
// The reader notices that a topic has grown by a record in another partition than its key's. The loop also asks the brokers for the
// number of partitions every 10 s, and before it ends a wait for a gap. If the number has changed, all claims of the topic end with a
// report. The partitions that were there before are then claimed for their lanes alone: no records are read, but open actions still
// run, because `topics rekey` waits for them. Events that wait for a gap wait on, past their deadlines, since the filler may be in a
// new partition; `topics rekey` moves them to its copy.
package batch
