// Package owner holds a subscription's place in its Kafka group and owns the partitions that the group assigns: it claims each
// one's fence, decides where to read on, runs the claim on a [batch.Loop] and the lanes, mirrors its position to Kafka, and gives
// it up the way the reason allows. What must not go on without an operator's word is stopped with a report ([StopError]).
//
//	Kafka ─▶ member (group) ─▶ claimer: claim, run, give up ─▶ batch.Loop, Lanes
//	          └ pulse: is this process still counted in?
//
// # Claims
//
// A claim locks the fence's row, sends a heartbeat with the member id and generation of the assignment while it holds the
// lock, reads the group's commit, decides where to start (see decideStart) and commits a new epoch and token. A claim that comes
// late is told ILLEGAL_GENERATION and rolls back.
//
// A claim is clean where the one before drained its lanes and released its fence. One that was cut off, that never opened
// its lanes, or that followed an unclean one within the destinations' timeout does not release, and the next owner's lanes
// wait for that timeout before they act on what may be in flight.
//
// A lost fence is noticed by whoever writes next: a batch, the end of a wait, or a result. Lanes say so with
// [Owner.Fenced], because an idle partition has no batch to find out by. The owner claims again for as long as the
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
// # Stops
//
// A stop is a row with its kind, topic id and offsets. An acceptance covers exactly that row: more of the same is another
// stop. The owner looks for acceptances every 5 s, and the claim that rests on one marks it as used. A stop stands, over
// restarts and other owners, until it is accepted or an operator moves the group: a log that was cut grows on and looks whole.
//
// What could not be read for too long, and what the ledger refuses for good, stops its partition with a report as well. It is
// tried again every 5 s, and goes on by itself.
//
// A topic that was created again needs new Kafka clients, since kgo holds on to the id that it saw first. The subscription
// makes them itself; the intake's producer answers 503 until its process is started again.
//
// An owner that dies between the claim that rests on an acceptance and its mirror leaves the operator's commit in Kafka. The
// next claim takes that for a seek, and records it. Behind a seek the leader epoch is unknown until the first batch.
package owner
