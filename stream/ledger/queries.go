package ledger

import (
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// The hot path's statements. Those on rotated tables name the children of the live windows and are built once per
// rotation; the others are the same for ever. They run under generic plans (see Config.settings), which plans_test.go
// holds to index scans by whole keys. A generic plan made while a table was tiny may walk the table and probe the batch;
// reads say LATERAL ... OFFSET 0, which leaves the planner no such choice, and rare writes are planned each time.

// Not counted (see [pg.NewCounted]) is what
//
//   - makes a row of every element, or an error: linesInsert, bufferInsert, eventsInsert, rejectedInsert, rejectedReplace, actionsDead;
//   - gives a row to what has none and leaves what is done: actionsInsert, actionsUpdate, copyInsert. actionsStand and actionsKnown
//     ask for the rows instead. attemptsInsert keeps what stands there, and copyUpdate a copy: there the row is what is wanted;
//   - takes away, or ends, what may be there: rejectedDelete, linesForget, moveOutOfLog, backfillsReplace, the stops that a claim ends;
//   - says again what was said, and is asked again until it is: resultEnd, commandEnd of what was not found, staleWrite, lateWrite,
//     beatWrite, the end of a backfill, exportedWrite (see there), topics.left_at.
var (
	// fenceCheck locks fences first, sorted. After the wait for a lock it checks the row again, so it sees a claim made meanwhile.
	fenceCheck = pg.NewStatement(`-- fenceCheck: nested loop over fences_pkey, sorted before it locks
SELECT f.id FROM ` + fencesOf().from(1, "c") + `
JOIN fences f ON f.id = c.id AND f.epoch = c.epoch AND f.token = c.token
ORDER BY f.id FOR KEY SHARE OF f`)

	// notBehind fails if the ledger has less of a claim's partition than the claim knows of: it was restored to an earlier state, or failed over
	// to a server that lacks the last seconds. What the claim remembers is worth nothing then, and its lane_seqs are given again.
	notBehind = pg.NewStatement(`-- notBehind: one probe of progress_pkey per claim
SELECT 1 / (count(*) = 0)::int FROM unnest($1::int[], $2::bigint[]) AS c(id, revision)
CROSS JOIN LATERAL (SELECT FROM progress WHERE fence = c.id AND revision < c.revision OFFSET 0) p`).Counting("notBehind")

	progressRead = pg.NewStatement(`-- progressRead
SELECT p.fence, p.next_offset, p.high_offset, p.revision FROM unnest($1::int[]) AS c(id)
CROSS JOIN LATERAL (SELECT fence, next_offset, high_offset, revision FROM progress WHERE fence = c.id OFFSET 0) p`)

	windowsRead = pg.NewStatement(`-- windowsRead
SELECT id, closed_at FROM windows WHERE subscription = $1 AND state <> 'ahead' ORDER BY id`)

	linesRead = pg.NewStatement(`-- linesRead
SELECT l.fence, l.entity, l.clock, l.kind, l.epoch, l.value, l.version_text, l.sub, l.event_key, l.filtered, l.parked, l.skipped
FROM ` + newLineKeyRows().from(1, "k") + `
CROSS JOIN LATERAL (SELECT fence, entity, clock, kind, epoch, value, version_text, sub, event_key, filtered, parked, skipped FROM version_lines
    WHERE fence = k.fence AND entity = k.entity AND clock = k.clock OFFSET 0) l`)

	// bufferRead reads at most $4 rows of a line. Its order is that of buffer_by_line, and not the gate's, which is not one of the columns alone: without
	// it, where one entity has nearly all rows, Postgres takes the whole partition's to find that another entity has none.
	bufferRead = pg.NewFresh(`-- bufferRead
SELECT b.* FROM ` + newLineKeyRows().from(1, "k") + `
CROSS JOIN LATERAL (SELECT ` + waitingColumns + ` FROM buffer b
    WHERE b.fence = k.fence AND b.entity = k.entity AND b.clock = k.clock AND b.decision <> 'held' ORDER BY b.value LIMIT $4) b`)

	// bufferedRowsRead reads the columns of waiting events that the gate does not need, for events that leave the buffer or change in
	// it. It reads payload copies only up to $3 bytes: a line may release a thousand large ones at once.
	bufferedRowsRead = pg.NewFresh(`-- bufferedRowsRead
SELECT b.fence, b.log_offset, b.window_id, b.leader_epoch, b.source, b.event_id, b.type, octet_length(b.packed),
       CASE WHEN sum(octet_length(b.packed)) OVER (ORDER BY b.epoch, b.value, b.version_text, b.sub, b.log_offset, b.fence) <= $3 THEN b.packed END
FROM ` + newPlaceRows().from(1, "k") + `
JOIN buffer b ON b.fence = k.fence AND b.log_offset = k.log_offset`)

	// overdueRead finds the lines with overdue events. $2 is the time that NextDeadline last returned, or infinity: what became overdue
	// since then is found by a later read.
	overdueRead = pg.NewStatement(`-- overdueRead
SELECT entity, clock FROM buffer WHERE fence = $1 AND deadline <= least(now(), $2::timestamptz)
GROUP BY entity, clock HAVING ` + notReplayed("$1", "buffer.entity", "buffer.clock") + ` ORDER BY min(deadline), entity, clock LIMIT 500`)

	linesAdvance = pg.NewCounted(`-- linesAdvance: one probe of version_lines_pkey per line
UPDATE version_lines l SET epoch = u.epoch, value = u.value, sub = u.sub, event_key = u.event_key, seen_in = $1, as_of = u.as_of
FROM `+newMovedLineRows().zip(2)+`
WHERE l.fence = u.fence AND l.entity = u.entity AND l.clock = u.clock`, "$2::int[]")

	// linesUpdate updates lines that are known to exist: ON CONFLICT would lock its row first, which costs a second WAL record each.
	linesUpdate = pg.NewCounted(`-- linesUpdate: one probe of version_lines_pkey per line
UPDATE version_lines l SET kind = u.kind, epoch = u.epoch, value = u.value, version_text = u.version_text, sub = u.sub, event_key = u.event_key, seen_in = $1, as_of = u.as_of,
       filtered = u.filtered, parked = u.parked, skipped = CASE WHEN u.skipped IS NOT NULL THEN u.skipped::bigint[] END
FROM `+newLineRows().zip(2)+`
WHERE l.fence = u.fence AND l.entity = u.entity AND l.clock = u.clock`, "$2::int[]")

	linesInsert = pg.NewStatement(`-- linesInsert
INSERT INTO version_lines (seen_in, fence, entity, clock, kind, epoch, value, version_text, sub, event_key, filtered, parked, as_of, skipped)
SELECT $1, u.fence, u.entity, u.clock, u.kind, u.epoch, u.value, u.version_text, u.sub, u.event_key, u.filtered, u.parked, u.as_of,
       CASE WHEN u.skipped IS NOT NULL THEN u.skipped::bigint[] END
FROM ` + newLineRows().zip(2))

	// bufferInsert inserts waiting events. $1 to $3 are the lengths of the waits, in microseconds: for a filler, for a backfill, and
	// for both together (by age).
	bufferInsert = pg.NewStatement(`-- bufferInsert
INSERT INTO buffer (fence, log_offset, window_id, leader_epoch, append_time, received_at, deadline, event_key, hash,
    epoch, value, version_text, sub, first, deleted, filtered, unmatched, backfill, repeats, decision, stage, payload, kind, entity, clock, source,
    event_id, type, packed)
SELECT u.fence, u.log_offset, $4, u.leader_epoch, u.append_time, u.received_at,
       ` + deadline("now()") + `,
       u.event_key, u.hash, u.epoch, u.value, u.version_text, u.sub, u.first, u.deleted, u.filtered, u.unmatched, u.backfill, u.repeats, u.decision, u.stage,
       u.payload, u.kind, u.entity, u.clock, u.source, u.event_id, u.type, u.packed
FROM ` + newBufferRows().zip(5))

	bufferUpdate = pg.NewCounted(`-- bufferUpdate
UPDATE buffer b SET decision = u.decision, stage = u.stage,
       deadline = `+deadline("b.buffered_at")+`
FROM `+newBufferChangeRows().zip(4)+`
WHERE b.fence = u.fence AND b.log_offset = u.log_offset`, "$4::int[]").Planned()

	bufferDelete = pg.NewCounted(`-- bufferDelete
DELETE FROM buffer b USING `+newPlaceRows().from(1, "u")+`
WHERE b.fence = u.fence AND b.log_offset = u.log_offset`, "$1::int[]").Planned()

	progressWrite = pg.NewCounted(`-- progressWrite
UPDATE progress p SET next_offset = u.next_offset, leader_epoch = u.leader_epoch,
       high_offset = greatest(p.high_offset, u.next_offset), next_lane_seq = u.next_lane_seq, dirty_lines_from = u.dirty_lines_from,
       processed_at = greatest(p.processed_at, least(u.processed_at, now())), revision = p.revision + 1, updated_at = now()
FROM `+newProgressRows().from(1, "u")+`
WHERE p.fence = u.fence`, "$1::int[]")
)

// waitingColumns are what the gate needs of a waiting event, of the buffer's row b; see waitingOf.
const waitingColumns = `b.fence, b.entity, b.clock, b.log_offset, b.append_time, b.event_key, b.hash, b.kind, b.epoch, b.value, b.version_text, b.sub,
       b.first, b.payload, b.deleted, b.filtered, b.unmatched, b.backfill, b.repeats, b.decision, b.stage, octet_length(b.packed)`

// deadline returns the expression for when the wait in u.stage ends, of an event that was first buffered at since; null if it is parked. $1 and
// $2 are the waits for a filler and for a backfill, $3 the bound of both together, null for none (least ignores null).
func deadline(since string) string {
	return `CASE WHEN u.stage = 'releasing' THEN now() WHEN u.decision = 'buffered' THEN
           least(now() + CASE u.stage WHEN 'backfilling' THEN $2::bigint ELSE $1::bigint END * interval '1 microsecond',
           ` + since + ` + $3::bigint * interval '1 microsecond') END`
}

// windowQueries are the statements on rotated tables, for one set of live windows.
type windowQueries struct {
	lock            pg.Statement
	eventsInsert    pg.Statement
	eventsText      pg.Statement // the same for events whose version is a text
	actionsDead     pg.Statement
	rejectedInsert  pg.Statement
	rejectedReplace pg.Statement
	bufferedActions pg.Statement
	// By window: events in any live one may have duplicates, be decided after a wait, and so on.
	seen       map[int32]pg.Statement
	duplicates map[int32]pg.Statement
	decided    map[int32]pg.Statement
	forget     map[int32]pg.Statement
	complete   map[int32]pg.Statement
	update     map[int32]pg.Statement
	insert     map[int32]pg.Statement
	attempt    map[int32]pg.Statement
	standing   map[int32]pg.Statement
	known      map[int32]pg.Statement
	laneFirst  pg.Statement
}

// newWindowQueries makes the statements for a current window and all live ones, among them the current.
func newWindowQueries(current int32, live []int32) windowQueries {
	q := windowQueries{
		seen: map[int32]pg.Statement{}, duplicates: map[int32]pg.Statement{}, decided: map[int32]pg.Statement{}, forget: map[int32]pg.Statement{},
		complete: map[int32]pg.Statement{}, update: map[int32]pg.Statement{}, insert: map[int32]pg.Statement{}, attempt: map[int32]pg.Statement{}, standing: map[int32]pg.Statement{}, known: map[int32]pg.Statement{},
	}
	of := func(w int32, sql string) pg.Statement { return pg.NewStatement(OfWindow(w, sql)) }
	fresh := func(w int32, sql string) pg.Statement { return pg.NewFresh(OfWindow(w, sql)) }
	// Rotation takes SHARE on the current window's events: it waits for the batches that hold this, and the batches
	// that come later see the windows it left.
	q.lock = of(current, `LOCK TABLE events_w{w} IN ROW EXCLUSIVE MODE`)
	q.eventsInsert, q.eventsText = of(current, eventsInsert("eventsInsert", false)), of(current, eventsInsert("eventsText", true))
	q.actionsDead = fresh(current, actionsDead)
	q.rejectedInsert, q.rejectedReplace = of(current, rejectedInsert), fresh(current, rejectedReplace(live))
	q.bufferedActions = pg.NewCounted(OfWindow(current, bufferedActionsInsert), "$1::int[]").Planned()
	var first []string
	for _, l := range live {
		first = append(first, OfWindow(l, `SELECT {w} AS w, least(
    (SELECT lane_seq FROM events_w{w} WHERE fence = $1 AND lane_seq IS NOT NULL AND lane_window IS NULL ORDER BY fence, lane_seq LIMIT 1),
    (SELECT lane_seq FROM actions_w{w} WHERE fence = $1 ORDER BY fence, lane_seq LIMIT 1)) AS lane_seq`))
	}
	q.laneFirst = pg.NewStatement("-- laneFirst\nSELECT w, lane_seq FROM (" + strings.Join(first, "\nUNION ALL ") +
		") f WHERE lane_seq IS NOT NULL ORDER BY lane_seq")
	for _, w := range live {
		q.seen[w] = of(w, "-- seen: one probe of an unique index per key\nSELECT event_key, window_id, hash, decision FROM events_w{w} WHERE event_key = ANY ($1::uuid[])")
		q.duplicates[w] = pg.NewCounted(OfWindow(w, duplicatesUpdate), "$1::uuid[]")
		q.decided[w] = pg.NewCounted(OfWindow(w, decidedUpdate), "$3::uuid[]").Planned()
		q.forget[w] = fresh(w, rejectedDelete)
		q.complete[w], q.attempt[w] = pg.NewCountedAs(OfWindow(w, completionInsert), fenceHeld), of(w, attemptsInsert)
		q.update[w], q.insert[w] = fresh(w, actionsUpdate), fresh(w, actionsInsert)
		q.standing[w] = pg.NewFresh(OfWindow(w, actionsStand)).Counting("actionsStand")
		q.known[w] = pg.NewFresh(OfWindow(w, actionsKnown)).Counting("actionsKnown")
	}
	return q
}

// eventsInsert is the statement of an eventSet; name is eventsInsert, or eventsText where the versions are texts.
func eventsInsert(name string, text bool) string {
	classes, rows := newClassRows().columns, newEventRows(text).columns
	own := rows[1:] // behind the number of the class
	return "-- " + name + `
INSERT INTO events_w{w} (window_id, decided_at, plan, replay, ` + classes.names("") + ", " + own.names("") + `)
SELECT {w}, now(), $1::int, $2::int, ` + classes.picked(3, "u.class") + ", " + own.names("u.") + `
FROM ` + rows.zip(3+len(classes))
}

var rejectedInsert = `-- rejectedInsert
INSERT INTO rejected_records_w{w} (window_id, decided_at, ` + newRejectedRows().names("") + `)
SELECT {w}, now(), ` + newRejectedRows().names("u.") + `
FROM ` + newRejectedRows().from(1, "u")

// bufferedActionsInsert inserts the actions of events that leave the buffer, and runs before bufferDelete: the payload copies go from
// row to row inside the database. Events behind a gap that ended in dead letters get dead actions; see DeadClass.
var bufferedActionsInsert = `-- bufferedActionsInsert
INSERT INTO actions_w{w} (window_id, created_at, fence, lane_seq, event_key, event_window, effect, action_id, packed, status, class, error, finished_at)
SELECT {w}, now(), u.fence, u.lane_seq, u.event_key, u.event_window, u.effect, u.action_id, nullif(b.packed, ''),
       CASE WHEN u.dead THEN 'dead_letter' ELSE 'pending' END, ` + deadColumns + `
FROM ` + newBufferedActionRows().from(1, "u") + `
JOIN buffer b ON b.fence = u.fence AND b.log_offset = u.log_offset`

// actionsDead inserts dead actions of events of the batch itself.
var actionsDead = `-- actionsDead
INSERT INTO actions_w{w} (window_id, created_at, fence, lane_seq, event_key, event_window, effect, action_id, packed, status, class, error, finished_at)
SELECT {w}, now(), u.fence, u.lane_seq, u.event_key, {w}, u.effect, u.action_id, nullif(u.packed, ''), 'dead_letter', ` + deadColumns + `
FROM (SELECT true AS dead, u.* FROM ` + newDeadActionRows().zip(1) + `) AS u`

const deadColumns = `CASE WHEN u.dead THEN '` + DeadClass + `' END, CASE WHEN u.dead THEN 'stood behind a gap that was given up' END,
       CASE WHEN u.dead THEN now() END`

var duplicatesUpdate = `-- duplicatesUpdate
UPDATE events_w{w} e SET duplicates = e.duplicates + u.n
FROM ` + newDuplicateRows().from(1, "u") + ` WHERE e.event_key = u.event_key`

var decidedUpdate = `-- decidedUpdate
UPDATE events_w{w} e SET decision = u.decision, reason = u.reason, epoch = u.epoch, value = u.value, plan = $2::int,
       lane_seq = u.lane_seq, actions = u.actions, lane_window = CASE WHEN u.actions > 0 THEN $1::int END,
       parked_at = CASE u.decision WHEN 'parked' THEN coalesce(e.parked_at, now()) ELSE e.parked_at END,
       released_at = CASE WHEN u.decision NOT IN ('buffered', 'parked') THEN now() END
FROM ` + newDecidedRows().from(3, "u") + `
WHERE e.event_key = u.event_key`

// rejectedDelete deletes rejected records at offsets that are decided again, after a rewind.
var rejectedDelete = `-- rejectedDelete
DELETE FROM rejected_records_w{w} a USING ` + newPlaceRows().from(1, "u") + `
WHERE a.fence = u.fence AND a.log_offset = u.log_offset`

// rejectedReplace is rejectedInsert for a batch that may replace rejected records, in any window. If one was redriven or discarded, its
// successor has that too. The deleted rows are read by the join: each is deleted before the row with its offset is inserted.
func rejectedReplace(live []int32) string {
	var gone, all []string
	for _, w := range live {
		gone = append(gone, OfWindow(w, `g{w} AS (DELETE FROM rejected_records_w{w} a USING `+newPlaceRows().from(1, "u")+`
    WHERE a.fence = u.fence AND a.log_offset = u.log_offset RETURNING a.fence, a.log_offset, a.decision, a.redriven_at, a.redriven_by, a.redriven_reason, a.discarded)`))
		all = append(all, OfWindow(w, "SELECT * FROM g{w}"))
	}
	return strings.NewReplacer(
		"-- rejectedInsert\n", "-- rejectedReplace\nWITH "+strings.Join(gone, ",\n")+"\n",
		"error, raw)\nSELECT", "error, raw, redriven_at, redriven_by, redriven_reason, discarded)\nSELECT",
		"u.error, u.raw\n", "u.error, u.raw, g.redriven_at, g.redriven_by, g.redriven_reason, coalesce(g.discarded, false)\n",
	).Replace(rejectedInsert) + `
LEFT JOIN (` + strings.Join(all, " UNION ALL ") + `) g
    ON g.fence = u.fence AND g.log_offset = u.log_offset AND g.decision = u.decision`
}

// endedByResult are the statuses with which a result ends an action for good: no later result changes it.
const endedByResult = `'done', 'superseded', 'skipped', 'dropped', 'denied'`

// completionInsert inserts a row of completions: up to 1,024 actions of one claim, in one bucket and with one code, are done, or
// superseded.
const completionInsert = `-- completionInsert
INSERT INTO completions_w{w} (window_id, finished_at, fence, bucket, code, lanes, latency_us, response, superseded)
SELECT {w}, now(), f.id, $4, $5, $6, $7, $8, $9 FROM fences f WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3`

// actionsUpdate writes results. The results of claims that have lost their fence are left out; fenceCheck has locked the other fences.
// It checks the fences in a subquery of its own: joined in, they let the planner find actions by fence alone (4 s for a thousand
// results when tried).
var actionsUpdate = `-- actionsUpdate
UPDATE actions_w{w} a SET status = u.status, open = u.status NOT IN (` + endedByResult + `), attempts = greatest(a.attempts, u.attempt),
       attempt_epoch = CASE WHEN u.attempt > a.attempts THEN u.epoch ELSE a.attempt_epoch END,
       spent = greatest(a.spent, u.spent), first_at = CASE WHEN u.attempt > 0 THEN coalesce(a.first_at, ` + firstAt + `) ELSE a.first_at END,
       next_at = CASE WHEN u.status IN ('failed', 'waiting_approval', 'waiting_budget') THEN now() + u.next_in * interval '1 microsecond' END,
       finished_at = CASE WHEN u.status = 'dead_letter' OR u.status IN (` + endedByResult + `) THEN now() END,
       action_id = coalesce(a.action_id, u.action_id), doubt_end = coalesce(a.doubt_end, ` + doubtEnd + `),
       code = u.code, latency_us = u.latency_us, class = nullif(u.class, ''), error = nullif(u.error, ''),
       response = u.response, guarded = u.guarded, packed = CASE WHEN u.status NOT IN (` + endedByResult + `) THEN coalesce(a.packed, u.packed) END,
       ` + processingSet + `
FROM ` + newResultRows().zip(4) + `
WHERE a.fence = u.fence AND a.lane_seq = u.lane_seq AND a.status NOT IN (` + endedByResult + `) AND u.fence = ANY (ARRAY(` + fencesHeld + `))`

// actionsInsert gives a row to actions that had none, from the result and the event. If the row was made meanwhile (for a payload copy), it
// is updated to the result.
var actionsInsert = `-- actionsInsert: one probe of events_w{w}_lane per action
INSERT INTO actions_w{w} AS a (window_id, action_id, fence, lane_seq, event_key, event_window, effect, created_at, status, open, attempts,
    attempt_epoch, spent, first_at, next_at, finished_at, code, latency_us, class, error, response, packed, result_by, beat_at, silence_us, cancel_url,
    doubt_end, guarded)
SELECT {w}, u.action_id, u.fence, u.lane_seq, e.event_key, {w}, p.effects[u.lane_seq - e.lane_seq + 1], e.decided_at, u.status, u.status NOT IN (` + endedByResult + `),
       u.attempt, CASE WHEN u.attempt > 0 THEN u.epoch ELSE 0 END, u.spent, CASE WHEN u.attempt > 0 THEN ` + firstAt + ` END,
       CASE WHEN u.status IN ('failed', 'waiting_approval', 'waiting_budget') THEN now() + u.next_in * interval '1 microsecond' END,
       CASE WHEN u.status = 'dead_letter' OR u.status IN (` + endedByResult + `) THEN now() END, u.code, u.latency_us, nullif(u.class, ''), nullif(u.error, ''),
       u.response, CASE WHEN u.status NOT IN (` + endedByResult + `) THEN u.packed END, ` + resultBy + `, ` + beatAt + `, nullif(u.silence_us, 0), nullif(u.cancel_url, ''),
       ` + doubtEnd + `, u.guarded
FROM ` + newResultRows().zip(4) + ` CROSS JOIN LATERAL (` + eventOfLane + `) e JOIN plans p ON p.id = e.plan
WHERE u.fence = ANY (ARRAY(` + fencesHeld + `))
ON CONFLICT (fence, lane_seq) DO UPDATE SET action_id = coalesce(a.action_id, EXCLUDED.action_id), status = EXCLUDED.status, open = EXCLUDED.open,
    attempts = greatest(a.attempts, EXCLUDED.attempts),
    attempt_epoch = CASE WHEN EXCLUDED.attempts > a.attempts THEN EXCLUDED.attempt_epoch ELSE a.attempt_epoch END,
    spent = greatest(a.spent, EXCLUDED.spent), first_at = coalesce(a.first_at, EXCLUDED.first_at), next_at = EXCLUDED.next_at,
    finished_at = EXCLUDED.finished_at, code = EXCLUDED.code, latency_us = EXCLUDED.latency_us, class = EXCLUDED.class,
    error = EXCLUDED.error, response = EXCLUDED.response, guarded = EXCLUDED.guarded,
    packed = CASE WHEN EXCLUDED.open THEN coalesce(a.packed, EXCLUDED.packed) END,
    result_by = EXCLUDED.result_by, beat_at = EXCLUDED.beat_at, silence_us = EXCLUDED.silence_us,
    cancel_url = EXCLUDED.cancel_url, newer_at = NULL, doubt_end = coalesce(a.doubt_end, EXCLUDED.doubt_end)
WHERE a.status NOT IN (` + endedByResult + `) AND EXCLUDED.status <> 'pending'`

// actionsStand fails if an action has no row that must have one: it had one before, or actionsInsert or copyInsert was to make it and has not
// found its event. Those statements cannot be counted, because they leave out actions that are done.
var actionsStand = `-- actionsStand: one probe of actions_w{w}_lane per action` + actionsMissing

// actionsKnown fails if an action below lane_low neither has a row nor is done: its result would be written nowhere.
var actionsKnown = `-- actionsKnown: beside, one probe of completions_w{w} by fence and bucket` + actionsMissing + `
  AND NOT EXISTS (SELECT FROM completions_w{w} c WHERE c.fence = u.fence AND c.bucket = u.lane_seq >> 10
                     AND (u.lane_seq & 1023)::smallint = ANY (c.lanes))`

var actionsMissing = `
SELECT 1 / (count(*) = 0)::int FROM ` + newActionRows().from(1, "u") + `
WHERE u.fence IN (` + fencesHeldIn + `) AND NOT EXISTS (SELECT FROM actions_w{w} a WHERE a.fence = u.fence AND a.lane_seq = u.lane_seq)`

// The columns of a row for long work; see Result.Left.
const (
	resultBy      = `CASE u.status WHEN 'processing' THEN now() + u.left_us * interval '1 microsecond' END`
	beatAt        = `CASE u.status WHEN 'processing' THEN now() END`
	processingSet = `result_by = ` + resultBy + `, beat_at = ` + beatAt + `, silence_us = nullif(u.silence_us, 0),
       cancel_url = nullif(u.cancel_url, ''), newer_at = NULL`
)

// firstAt is when an attempt began by the database's clock. The results may have waited for the ledger, in this process since the
// write was decided (the parameter behind resultRows) and before.
var firstAt = fmt.Sprintf(`now() - (u.since_us + $%d::bigint) * interval '1 microsecond'`, 4+len(newResultRows().columns))

// doubtEnd is Result.DoubtEnd by the database's clock.
const doubtEnd = `now() - u.doubt_us * interval '1 microsecond'`

// eventOfLane finds the event whose actions u.lane_seq is among, for an action without a row.
const eventOfLane = `SELECT event_key, lane_seq, plan, decided_at FROM events_w{w}
    WHERE fence = u.fence AND lane_seq <= u.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL
    ORDER BY fence DESC, lane_seq DESC LIMIT 1`

var laneLowWrite = pg.NewCountedAs(`-- laneLowWrite
UPDATE progress p SET lane_low = greatest(p.lane_low, $4) FROM fences f
WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND p.fence = f.id`, fenceHeld)

// fenceHeld is 1 if the claim of $1 to $3 holds its fence, and 0 if it is fenced: nothing is written for it then.
const fenceHeld = `(SELECT count(*) FROM fences WHERE id = $1 AND epoch = $2 AND token = $3)`

var fencesHeldIn = `SELECT f.id FROM ` + fencesOf().from(3, "c") + `
    JOIN fences f ON f.id = c.id AND f.epoch = c.epoch AND f.token = c.token`

var fencesHeld = `SELECT f.id FROM ` + fencesOf().from(1, "c") + `
    JOIN fences f ON f.id = c.id AND f.epoch = c.epoch AND f.token = c.token`

// attemptsInsert inserts attempts. If an attempt has a row already, that stays as it is, unless it is the mark from before the call: then it
// is updated to the attempt's end.
var attemptsInsert = `-- attemptsInsert
INSERT INTO attempts_w{w} AS a (window_id, fence, lane_seq, attempt, ended_at, status, class, code, latency_us, error, response, trace)
SELECT {w}, u.fence, u.lane_seq, u.attempt, now(), u.status, u.class, u.code, u.latency_us, u.error, u.response, u.trace
FROM ` + newAttemptRows().from(4, "u") + `
WHERE u.fence = ANY (ARRAY(` + fencesHeld + `))
ON CONFLICT (fence, lane_seq, attempt) DO UPDATE SET ended_at = EXCLUDED.ended_at, status = EXCLUDED.status, class = EXCLUDED.class,
    code = EXCLUDED.code, latency_us = EXCLUDED.latency_us, error = EXCLUDED.error, response = EXCLUDED.response, trace = EXCLUDED.trace
WHERE a.status = 'unknown' AND a.class = ''`
