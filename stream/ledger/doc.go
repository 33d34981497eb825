// Package ledger is the one Postgres schema of Forebay and its transactions: fences, progress, dedupe, version lines,
// gap buffer, actions. What each table is for, and who reads it, stands in internal/migrate/migrations.
//
//	Claim   lock the fence, confirm membership, decide where to start          (one transaction)
//	Apply   fence, dedupe, gate, buffer, actions, next offset                  (one transaction of two round trips)
//	Expire  the same for gaps whose wait has ended
//	Record  results of attempts, in groups across lanes, under the fence
//	Open    read open actions back after a claim
//
// Beside it, and importing nothing of it: internal/pg speaks to the server, internal/window is the tables that rotate,
// internal/retention opens and drops them, internal/marks is which actions of a claim have ended, internal/pauses is which destinations
// are paused, internal/access is the tokens of operators and the audit, internal/alerts is which alerts were sent and which are silenced,
// internal/deciders is what each process decides by.
//
// It knows pgx, as do stream/inbox, stream/subscriber and sinks/postgres. What operators read and ask for is in stream/inbox, which has
// door.go and this package's types to work with. Lock order, everywhere: fences, events, version lines,
// actions, each sorted; events of one batch are written in record order.
//
// # What has no row
//
// An action that ends by its first attempt is told by two rows of others: its event's (lane_seq, actions, plan: it is wanted)
// and one of completions (it is done). A claim reads the completions above progress.lane_low into a bitmap and asks the
// events for what is not in it. A row in actions is written for what goes another way: a failure, a payload copy, a release
// from the gap buffer, a dead letter, and what keeps lane_low back for too long.
//
// A version line that only moves on is written later (dirtylines.go). The current window is not asked for keys that are most
// probably new (recent.go). Each of the three (internal/marks is the first) has one page, which says what it saves, the calls that lead in,
// and what goes with it; a claim or a repeated batch puts right what it left.
//
// # Dedupe windows
//
// Seen events are remembered in tables that are written for a while, then closed, then dropped whole. A window goes only when every partition has
// processed past its end plus the time for which providers repeat, what is in it has been kept as long as retention says, and no open action,
// waiting event or unwritten version line needs it. Idle partitions report every ten minutes, or one of them would keep every window.
//
// A closed window is asked for every event that may be a repetition of one in it: until the time has passed for which dedupe remembers, by when the
// repetition was appended. A dead letter may keep it for months after that. The current window is asked only for keys that this process has seen lately: for a new key, its own
// insert is the question, because the unique index refuses it where it is there. The whole batch is then tried again with all keys asked for
// (recent.go). Postgres' log then says that a key of events_w.._key exists already: nothing is wrong.
//
// # When a batch fails
//
// A batch may fail, never for ever. Data errors are bisected down to the record, which is quarantined. Deadlocks,
// serialization failures and lost connections are tried again. After a COMMIT whose answer was lost the fence's row is locked,
// which waits until that transaction has ended, and then read. What is too slow is tried in parts and at last refused to its
// partition, never quarantined. A write that misses a row refuses its batch, and the partitions are claimed again; a
// claim that finds a version line gone makes it again from its events. The deadlines all follow from Config.TxTimeout, see
// [pg.Deadlines].
//
// # Pools
//
//	hot      MaxConns (8)        batches, claims, results; claims hold half of it at most
//	read     2, 25 s a statement operators' lists and counts: stream/inbox
//	look     2, 5 s a statement  what operators look at by key, their commands, sessions, tokens, and the audit
//	quick    4, 5 s a statement  what runs waits for, or is read every second: heartbeats, results of long work,
//	                             pauses, exports, readiness
//	sink     StatementConns      actions' own statements (Commit)
//	         1                   listens for commands
//
// # How long things are kept
//
// What has ended is kept as long as the subscription's retention says (done, dead), with its attempts and rejected records,
// by whole windows: never shorter than dedupe needs the same tables. What was asked of owners (commands, results, backfills)
// has a row a question and is deleted by an index on its end.
//
// # Commands
//
// Only a partition's owner writes its gate and lanes. What anybody else wants is a row in commands, or in results for what
// a destination said of long work; the owner applies it under its fence in one transaction with the note that it is done. The
// one exception is the time of the last heartbeat of long work, a column that whichever process took it updates in place.
//
// # Logs that were cut, topics that were created again
//
// After a cut, other records come into old places. What the ledger keeps with its bytes, waiting events and rejected records,
// then gets places outside of the log (negative offsets) in its old order, so that neither is taken for the other.
//
// When a topic that was created again is accepted, the first claim in the new topic makes a partition's fence that of the
// partition of the same number there, and all that hangs on it comes along: actions, parked lanes, dead letters, waiting
// and held events, and what was asked of them. lane_seqs and epochs go on. The position and the version lines do not, but for
// those on which events wait. Payloads are the copies that the ledger has; what has none is payload_lost, since its pointer
// names the old topic's id. With another number of partitions an entity's newer events may run first, which the stop says;
// too few for what is open are refused.
//
// # Topics that were copied
//
// `topics rekey` hands a subscription over to a copy of its topic with another number of partitions. Version lines go to
// their entities' new partitions, and the subscription goes on at the first record that it had not read. What waits for a
// gap goes along in order, with its deadline, its bytes and what was asked about it, in places outside of the log: with the
// first claim of each new partition, not with the hand-over, because until somebody switches the subscription may go on in the
// old topic. Rejected records stay listed under the old topic, where their places are. Open actions do not go along: the plan
// is blocked until they have run, or they are left behind.
//
// A subscription goes on in the old topic or in the copy, never in both. The hand-over fences the owners of the old partitions.
// A claim of one of them, before the copy is claimed, makes the hand-over void: the copy lacks what the subscription does from
// then on. The copy's claims are refused then, and say to run `topics rekey` again. Once the copy is claimed, the old topic's
// claims are refused, and say to switch. See checkcopies.go.
package ledger
