// Package replay plans replays: which part of the log, what is in it, and whether that still holds when the plan is started.
//
//	Bounds  the range in each partition, by time or offset; what cannot be replayed is refused
//	Count   what the ledger knows of the records there, in steps of some seconds
//	Check   whether the topics are still those of the plan
//
// It changes nothing. Plans are stored by stream/inbox, which also starts and cancels them; the owners of the partitions run them
// (stream/batch).
//
// # What a replay is
//
// Mode fill runs what the subscription never ran: what a seek left out, what was there before it began, what a filter left out that wants it
// now. It is a rewind of that range and nothing else, so what holds for a rewind holds here: what is done is skipped by its key, an older
// snapshot is stale, an older delta is late. It is stricter about snapshots: one that is older than its version line never runs, also as the filler of a
// skipped place or with deliver_marked (gate.Fill).
//
// What runs again (reprocess) is a generation of its own in the dedupe key and in the action's id, so that a destination sees other idempotency
// keys. The live version line is a bound that it never moves: a snapshot strictly below it is stale unless asked for. Mode shadow is the same
// without rows of events and without lanes. Version lines, lanes and fences are the live ones, and nothing of either waits. A generation ends with its
// replay: one that ended halfway goes on as another over what is left, for which replay get has the command, and a plan names the replays that
// ran part of its range.
//
// # From plan to end
//
// Plan: the process that is asked reads the range and asks the ledger for each record. Bounds by partition (topic id, from, to, append time of
// the first record), filter, counts by type, entity and decision are one row of replays. Nothing else is written. A range ends at the
// subscription's next offset at the latest: what lies behind that it reads by itself. Counting goes in steps of some seconds, each of which
// leaves its sums in the row: a question is never longer than its answer may take, and any process goes on with it.
//
// Start compares the plan with the world (below), and inserts a row of replay_parts for each partition, with the offset up to which it has
// come. One part of a partition is open at a time, which a unique index holds.
//
// The owner of the partition runs it, since only it may write gate and lanes. It finds open parts with its commands, by NOTIFY and by sweep,
// reads them with a client of their own (a partition has one place in a client), and leaves out what the filter does not want and what is done:
// that is asked for beside the batches, a thousand keys a question. What is left goes through the gate between two batches, in the transaction
// of a batch (stream/ledger/replays.go): fence, keys (all of them are looked up), version lines, gap buffer, actions with new lane_seqs behind
// what the lanes have. In the place of the subscription's position it moves the part's, under the same rule: it has to be exactly where the slice
// begins. So a replay that is killed anywhere goes on where it was, and no event of it is decided twice.
//
// Rate is in events that run, in all processes together: each owner has the share of its open parts. It also waits while half of the window of a
// partition's lanes is taken: live events never queue behind more than that, and a destination that fails ends the replay early. Each part's
// row has between which lane_seqs it gave its own; the sweep counts the dead letters there that are of its range, and beyond --max-errors the
// replay ends.
//
// Cancel ends the parts' rows. A transaction of an owner locks its part's row first, so cancelling waits for one that is under way and there is
// none after it. What was decided until then is in the lanes like any live event, and runs.
//
// # What may have moved
//
//	what moved                                                   found by                      what happens
//	the topic has another id, or another number of partitions    start; the owner's claim      refused; the part ends
//	the log begins behind from                                   start; the reader             refused; the part ends
//	the subscription was moved back to before to                 start                         refused: it reads that by itself
//	a record of the range cannot be read for                     the reader                    the part ends
//	  kafka.unread_after, although the brokers answer
//	dedupe forgot decisions of the range's time                  plan, start                   refused. While a part is open no
//	                                                                                           window of the subscription is dropped
//	the subscription is not configured, or what decides or runs  start; the owner, by a digest refused; the part ends
//	  (types, order, policies, actions) is another
//	the plan is older than a day                                 start                         refused
//	another replay of the subscription runs                      start; the unique index       refused
//	events have another decision or status than when they were   the owner, step by step       the filter goes by what is true then;
//	  counted                                                                                  the counts stay as they were
//	the topic is not read any more, or the subscription not      the sweeps                    the part ends
//	  configured, and nobody has worked on it for an hour
//
// # Gaps
//
// A gap that a filled-in event shows may have its filler further on in the range, read later than any deadline. So waits of events whose place
// lies in an open part of a fill do not end (P5 says "read to the end"; the end is that of the range here), and neither do those of live events on
// the same version line: a wait that ends takes its version line along. Others are not concerned.
//
// A filter by type, decision or status that leaves out undecided events of a version line whose versions must follow each other would make a gap that
// nothing fills. Counting finds such a version line, and the plan is refused and cancelled.
package replay
