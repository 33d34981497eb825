// Package subscriber is for a team that reads its topics of events with a program of its own, and keeps what it makes of them in Postgres.
// A [Subscriber] is a member of a Kafka group. It decides about every event as a managed subscription does, by the rules of stream/gate,
// and calls the team's handler for those that are to run, in the team's own transaction:
//
//	BEGIN
//	  lock the partition's position           another member has claimed it since: nothing is written
//	  read what is known of these events      decided before? their entities' version lines, and what waits on them
//	  decide                                  stream/gate
//	  handler(ctx, tx, event), once for each  the team's statements
//	  write decisions and the next offset
//	COMMIT
//
// So what the handler writes through its tx is there exactly once for every event, and in version order per entity, whatever is delivered
// twice, comes late, or is killed on the way. What the handler does elsewhere (a call, a mail) is done at least once: a transaction that
// failed is run again.
//
// # Versions and gaps
//
// An event of kind sequence that is ahead of its turn waits in Postgres until its predecessors come, for [gate.Policy].GapWait at most. The
// wait ends when that has passed by the database's clock and the partition has been read to an end that was observed after it: a program
// that was down for an hour does not skip what it has not read yet. Then the event runs without them (reason gap_skipped), and a
// predecessor that comes after all is late (reason filler). An older snapshot is stale, and not handed on; an older delta is
// handed on as late. [Event].Decision and Reason say so.
//
// What waits behind a gap may be more than a transaction can run. Then it runs in several, each of them whole: of one entity, as many waiting
// events as [Config].Batch in each, and fewer if their handlers fail or take too long together.
//
// # Errors
//
// A handler's error, or panic, rolls the transaction back. Events are decided in batches, so the batch is divided until the event is alone; it
// is tried again after a pause that grows to half a minute, and holds its partition meanwhile, no other. With [Config].Attempts it is set
// aside after so many attempts that its handler, and not the database, has failed: its row in forebay_set_aside has the record and the error,
// its version line has moved, and later events of its entity run. A record that is no CloudEvent, and an event whose id was there before with
// another body (a conflict), are set aside at once.
//
// While Postgres or Kafka is away, everything is tried again. [Subscriber.Run] returns an error only where waiting does not help, and the
// error says what to do: a position that the log does not have any more, a log that was cut, a topic that was created again, a batch that is
// too large when unpacked, rights or tables of [SQL] that are missing. A table or right that a handler lacks does not end it: that is tried
// until it is there.
//
// # Tables and positions
//
// [SQL] creates five tables in the team's schema, and alters those of an older version of this package: execute it before a newer one starts;
// the older one works with them, too. forebay_positions says where a group is, and Kafka's commit only mirrors it, so that tools show the lag:
// to read again, stop the program, set next_offset and, where events are to run again, delete their rows in forebay_events and forebay_lines.
// CONTRACT.md has the statements for a source that goes on in another topic. To begin again as [Config].Begin says, delete all rows of the
// group, and the group in Kafka. Events that were decided longer ago than [Config].Dedupe are forgotten.
//
// A member that Kafka believes gone may wake up inside its transaction. It holds the position's row then, and the next owner waits for it;
// Postgres ends it after [Config].Timeout without a statement. Once the next owner has claimed the position, the old one's transaction
// fails at its first statement.
//
// # Other languages
//
// CONTRACT.md beside this file says the same rules for a consumer in any language, with test vectors in testdata/vectors.json.
package subscriber
