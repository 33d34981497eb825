// Package stream owns partitions and runs batches: it joins the subscription's Kafka group, claims each assigned
// partition's fence, feeds records through the gate into the ledger, and hands the actions that follow to the lanes.
//
//	Kafka ─▶ group (membership) ─▶ owner (claim, fence) ─▶ loop (batches: gate + ledger) ─▶ Lanes
//	  └────▶ fetcher (reads from the ledger's offsets) ──────┘
//
// # Claims
//
// A claim locks the fence's row, sends a heartbeat with the member id and generation of the assignment while it holds the
// lock, reads the group's commit, decides where to start (see where) and commits a new epoch and token. A claim that comes
// late is told ILLEGAL_GENERATION and rolls back.
//
// A claim is clean where the one before drained its lanes and released its fence. One that was cut off, that never opened
// its lanes, or that followed an unclean one within the destinations' timeout does not release, and the next owner's lanes
// wait for that timeout before they act on what may be in flight.
//
// A lost fence is noticed by whoever writes next: a batch, the end of a wait, or a result. Lanes say so with
// [Subscription.Fenced], because an idle partition has no batch to find out by. The owner claims again for as long as the
// partition is assigned to it.
//
// A member that comes back under another id (expelled before its JoinGroup) is told nothing by kgo of the partitions it
// had. The owner gives up all of them and claims them again: for a while nobody may have been in the group, and an operator
// may have moved it.
//
// # Where a subscription begins
//
// begin is resolved to offsets once, and stored. A topic that is added later begins as begin says where it has records from
// before the subscription began, else at 0.
//
// # Reading
//
// Each slice of a batch says from where to where it was read. One that does not begin where the ledger stands is a fault of
// ours: it is refused, counted (forebay_stream_discontinuities_total), logged as an error, and the partition is read again
// from the stored offset. So is a batch whose parts do not join. After any error of reading, a partition is read again from
// behind what was handed over last, because kgo's own cursor may have moved over records that nobody got. Good records in
// front of a broken batch are taken.
//
// What cannot be read for Config.UnreadAfter, and what the ledger refuses for good, stops its partition with a report. It is
// tried again every 5 s, and goes on by itself.
//
// A record that cannot be decided (no event, no key, too large, in another partition than its key's) goes to the ledger with
// its bytes, and its partition goes on. Of a record that is too large the first 64 KiB are kept; of a batch that decompresses
// to more than is read, or to four times that in memory, the batch as it stands, up to 1 MiB.
//
// # A topic that grows while it is read
//
// A record that is not where its key belongs is decided only after every broker that is up was asked, after the record was
// read, how many partitions there are. Idle topics are asked every 10 s, and no wait for a gap ends before its topic was
// asked. Where the number has changed, all claims of the topic end with a report. The partitions that were there before are
// then claimed for their lanes alone, by the recorded number, so that what is open still runs and `topics rekey` does not
// wait for it for ever. What waits for a gap waits on, past its deadline, since its filler may be in a new partition;
// `topics rekey` takes it along.
//
// # Stops
//
// A stop is a row with its kind, topic id and offsets. An acceptance covers exactly that row: more of the same is another
// stop. The owner looks for acceptances every 5 s, and the claim that rests on one marks it as used. A stop stands, over
// restarts and other owners, until it is accepted or an operator moves the group: a log that was cut grows on and looks whole.
//
// A topic that was created again needs new Kafka clients, since kgo holds on to the id that it saw first. The subscription
// makes them itself; the intake's producer answers 503 until its process is started again.
//
// An owner that dies between the claim that rests on an acceptance and its mirror leaves the operator's commit in Kafka. The
// next claim takes that for a seek, and records it. Behind a seek the leader epoch is unknown until the first batch.
//
// # Stopping
//
// A revoke stops the reading, lets the batch finish, drains the lanes within the rebalance timeout, mirrors, releases. A loss
// drops everything and writes nothing. [Subscription.Run] ends within its drain timeout whatever does not answer; the last
// fourth of it is kept for position, fence and group.
package stream
