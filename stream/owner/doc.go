// Package owner is a subscription's member of its Kafka group, and owns the partitions that the group assigns to it. Of each it
// claims the fence, decides where to read on, runs the claim on a [batch.Loop] and the lanes, mirrors the position to Kafka, and
// in the end releases or drops the claim. A partition that must not go on without an operator's word stops, with a report that says why
// ([StopError]).
//
//	Kafka ─▶ member (group) ─▶ claimer: claim, run, give up ─▶ batch.Loop, Lanes
//	          └ pulse: is this process still a member?
//
// # Claims
//
// A claim locks the fence's row, sends a heartbeat with the member id and generation of the assignment while it holds the
// lock, reads the group's commit, decides where to start (see decideStart) and commits a new epoch and token. If the assignment
// is no longer current, the heartbeat is answered ILLEGAL_GENERATION and the claim rolls back.
//
// A claim is clean if the claim before it drained its lanes and released its fence. A claim does not release if it was cut off,
// if it never opened its lanes, or if it followed an unclean one within the destinations' timeout. The next claim is unclean
// then: its lanes wait for that timeout before they run actions that may be in flight.
//
// A lost fence is found by the next write: of a batch, of the end of a wait, or of a result. Lanes report it with
// [Owner.Fenced], because an idle partition has no batches. The owner claims again as long as the partition is assigned to it.
//
// A member that was expelled and joins again under another id gets no callback from kgo for the partitions that it had. The
// owner gives up all of them and claims them again: the group may have been empty for a while, and an operator may have moved it.
//
// A process that has lost the ledger, and not Kafka, is taken out of the group by the others. It joins again when the ledger answers. Where kgo has
// joined for it before that, nobody knows of the new member, and it leaves by itself.
//
// # Where a subscription begins
//
// begin is resolved to offsets once, and stored. A topic that is added later begins as begin says if it has records from before
// the subscription began, otherwise at its log's start.
//
// # Seeks
//
// A live group is moved without Kafka: forebay subscriptions seek writes a request a partition into the ledger. The owner hears of it, ends the
// partition's run and claims it again, and the claim moves the position and ends the request in one transaction, or refuses it; the mirror
// follows before the first batch. A stopped partition and one that nobody has take it up with their next claim, so that it outlives whoever
// asked. A loss that the claim finds first (deleted unread, cut) is reported as a stop before the seek leads away from it.
//
// # Stops
//
// A stop is a row with its kind, topic id and offsets. An acceptance is for exactly that row: if more is lost later, that is
// another stop. The owner looks for acceptances every 5 s, and a claim that uses one marks it as used. A stop stays, over
// restarts and changes of owner, until it is accepted or an operator moves the group: a log that was cut grows on and then looks
// whole.
//
// A partition that cannot be read for too long, or whose rows the ledger refuses for good, also stops with a report. It is tried
// again every 5 s, and goes on by itself once that works.
//
// A topic that was created again needs new Kafka clients, since kgo holds on to the id that it saw first. The subscription
// makes them itself; the intake's producer answers 503 until its process is started again.
//
// If an owner dies after a claim that used an acceptance, but before it has mirrored its position, the operator's commit is still
// in Kafka. The next claim takes it for a seek, and records it. After a seek the leader epoch is unknown until the first batch.
package owner
