// Package replay plans replays: which part of the log, what is in it, and whether that still holds when the plan is started.
//
//	Bounds  the range in each partition, by time or offset; what cannot be replayed is refused
//	Count   what the ledger knows of the records there, in steps of some seconds
//	Check   whether the topics are still those of the plan
//
// It changes nothing. Plans are stored by stream/inbox, which also starts and cancels them; the owners of the partitions run them
// (stream/batch).
package replay
