package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AttentionKind is the closed list of what waits for an operator in the ledger. It is a metric label.
type AttentionKind string

const (
	AttentionParked      AttentionKind = "parked"             // an entity stands still behind a gap whose wait is over, or over a cap
	AttentionHeld        AttentionKind = "held"               // an event is kept for an operator; its entity goes on
	AttentionOverdue     AttentionKind = "overdue_gap"        // a gap's deadline is over and the wait is not: its partition is not read to the end
	AttentionConflict    AttentionKind = "conflict"           // another body came under the id of an event
	AttentionQuarantined AttentionKind = "quarantined_record" // a record cannot be decided
	AttentionDead        AttentionKind = "dead_letter"        // an action was given up, or its outcome is unknown; those of loops are not counted here
	AttentionLoop        AttentionKind = "loop"               // an action was given up, for agents answer one another
)

// AttentionKinds lists them all.
func AttentionKinds() []AttentionKind {
	return []AttentionKind{AttentionParked, AttentionHeld, AttentionOverdue, AttentionConflict, AttentionQuarantined, AttentionDead, AttentionLoop}
}

// Attention is one thing in the ledger that waits for an operator.
type Attention struct {
	Kind               AttentionKind
	Team, Subscription string
	Source             string // "/<team>/<source>"; empty if the record has none that can be read
	EventID            string
	Type               string
	Entity             schemas.EntityKey
	Topic              string
	Partition          int32
	Offset             int64
	Reason             gate.Reason // of the decision
	Detail             string      // the error of what is quarantined or dead
	Since              time.Time   // from when on: the oldest of what waits on the version line was received, or it was decided or died
	Events             int64       // of a parked or overdue version line: how many events wait on it
	Dead               *DeadLetter // of a dead letter, a loop's too
}

// AttentionCount is how much of a kind waits in a subscription.
type AttentionCount struct {
	Team, Subscription string
	Kind               AttentionKind
	Count              int64
	More               bool // the count was cut off: there are at least as many
}

// MostCounted is how much of one kind is counted of a subscription: where more waits, that is what is known of it.
const MostCounted = 10_000

// Bounds of the questions. No part of a question reads more index entries of a subscription than attentionReads, however much has been
// done or waits, and every statement is cancelled by the server after attentionWithin.
const (
	attentionReads  = MostCounted
	attentionWithin = 2 * time.Second
	// overdueAfter is how long after its deadline a gap is overdue: an owner that has read the partition ends the wait within a second.
	overdueAfter = 10 * time.Second
)

// The parts of the questions. Each begins at the fences of a subscription ($1) and probes an index that has what waits and nothing else,
// by its whole key. $2 limits the rows that are read.
const (
	standingOf = `FROM fences f CROSS JOIN LATERAL (SELECT fence, log_offset, entity, clock, filtered, buffered_at FROM buffer
    WHERE fence = f.id AND decision = '%s' AND decision <> 'buffered' ORDER BY decision, fence, log_offset LIMIT $2) b WHERE f.subscription = $1 LIMIT $2`
	overdueOf = `FROM fences f CROSS JOIN LATERAL (SELECT fence, log_offset, entity, clock, filtered, buffered_at FROM buffer
    WHERE fence = f.id AND deadline < now() - $3::bigint * interval '1 microsecond' ORDER BY fence, deadline LIMIT $2) b WHERE f.subscription = $1 LIMIT $2`
	rejectedOf = `FROM fences f CROSS JOIN LATERAL (SELECT fence, log_offset FROM {rejected_records} r
    WHERE fence = f.id AND decision = '%s' AND decision IN ('conflict', 'quarantined') AND redriven_at IS NULL LIMIT $2) b WHERE f.subscription = $1 LIMIT $2`
	deadOf = `FROM fences f CROSS JOIN LATERAL (SELECT fence, lane_seq, status = 'dead_letter' AND coalesce(class, '') = 'loop' AS loop FROM {actions} r -- policy.Loop
    WHERE fence = f.id AND status IN ('dead_letter', 'unknown') LIMIT $2) b WHERE f.subscription = $1 LIMIT $2`
)

// attentionCount is a line for each kind: its number in [AttentionKinds], how much there is, and how many rows were read for that. Events
// on one version line count once.
var attentionCount = `-- attentionCount
SELECT 0, count(DISTINCT (fence, entity, clock)), count(*) FROM (SELECT b.fence, b.entity, b.clock ` + fmt.Sprintf(standingOf, gate.Parked) + `) x
UNION ALL SELECT 1, count(*), count(*) FROM (SELECT ` + fmt.Sprintf(standingOf, "held") + `) x
UNION ALL SELECT 2, count(DISTINCT (fence, entity, clock)), count(*) FROM (SELECT b.fence, b.entity, b.clock ` + overdueOf + `) x
UNION ALL SELECT 3, count(*), count(*) FROM (SELECT ` + fmt.Sprintf(rejectedOf, gate.Conflict) + `) x
UNION ALL SELECT 4, count(*), count(*) FROM (SELECT ` + fmt.Sprintf(rejectedOf, gate.Quarantined) + `) x
UNION ALL SELECT 5, count(*) FILTER (WHERE NOT loop), count(*) FROM (SELECT b.loop ` + deadOf + `) x
UNION ALL SELECT 6, count(*) FILTER (WHERE loop), count(*) FROM (SELECT b.loop ` + deadOf + `) x`

// linesOf is, of the version lines of events in the buffer, the first event of each that is wanted, how many wait and since when: the
// oldest lines, as many as the parameter limit says. $2 is about events: one line may have any number of them.
func linesOf(waiting, limit string) string {
	return `SELECT (array_agg(x.log_offset ORDER BY x.filtered, x.log_offset))[1] AS log_offset, x.fence, count(*) AS events, min(x.buffered_at) AS since
    FROM (SELECT b.* ` + waiting + `) x GROUP BY x.fence, x.entity, x.clock ORDER BY since, fence, log_offset LIMIT ` + limit
}

const attentionColumns = `source, event_id, type, entity, topic, partition, log_offset, reason, detail, since, events`

// bufferedRows reads events in the buffer, of rows with fence, log_offset, events and since.
func bufferedRows(of string) string {
	return `SELECT b.source, b.event_id, b.type, b.entity, f.topic, f.partition, b.log_offset, coalesce(e.reason, '') AS reason, '' AS detail, w.since, w.events
FROM (` + of + `) w JOIN fences f ON f.id = w.fence JOIN buffer b ON b.fence = w.fence AND b.log_offset = w.log_offset
LEFT JOIN LATERAL (SELECT reason FROM {events} v WHERE v.window_id = b.window_id AND v.event_key = b.event_key OFFSET 0) e ON true
ORDER BY w.since, w.fence, w.log_offset`
}

func rejectedRows(decision gate.Decision) string {
	return `SELECT r.source, r.event_id, r.type, r.entity, f.topic, f.partition, r.log_offset, r.reason, coalesce(r.error, '') AS detail, r.decided_at AS since, 1::bigint AS events
FROM (SELECT b.* ` + fmt.Sprintf(rejectedOf, decision) + `) w JOIN fences f ON f.id = w.fence
JOIN LATERAL (SELECT * FROM {rejected_records} v WHERE v.fence = w.fence AND v.log_offset = w.log_offset OFFSET 0) r ON true
ORDER BY r.decided_at, w.fence, w.log_offset`
}

// attentionRows are the questions for what there is of a kind, with attentionColumns; dead letters have columns of their own.
var attentionRows = map[AttentionKind]string{
	AttentionParked:      bufferedRows(linesOf(fmt.Sprintf(standingOf, gate.Parked), "$3")),
	AttentionHeld:        bufferedRows(`SELECT b.fence, b.log_offset, 1::bigint AS events, b.buffered_at AS since ` + fmt.Sprintf(standingOf, "held")),
	AttentionOverdue:     bufferedRows(linesOf(overdueOf, "$4")),
	AttentionConflict:    rejectedRows(gate.Conflict),
	AttentionQuarantined: rejectedRows(gate.Quarantined),
}

// attentionDead is DeadSelect of the first dead letters of a subscription: of loops ($3), or of all else. $4 limits them.
var attentionDead = ledger.DeadSelect + ` JOIN (SELECT * FROM (SELECT b.* ` + deadOf + `) x WHERE x.loop = $3 LIMIT $4) w ON w.fence = a.fence AND w.lane_seq = a.lane_seq
    WHERE a.status IN ('dead_letter', 'unknown')) d ORDER BY died_at, fence, lane_seq`

// attended is a subscription with its windows.
type attended struct {
	ID      int32
	Name    string
	Windows []int32
}

// Attention lists what the counts are about: at most limit of each kind, of each subscription, the oldest of what was found first. Where
// there is more than that, the first of each partition are found. With an error, it has what was found of the subscriptions that can be read.
func (b *Inbox) Attention(ctx context.Context, counts []AttentionCount, limit int) (out []Attention, err error) {
	wanted := map[string][]AttentionKind{}
	for _, c := range counts {
		name := c.Team + "." + c.Subscription
		if !slices.Contains(wanted[name], c.Kind) {
			wanted[name] = append(wanted[name], c.Kind)
		}
	}
	err = attendance{b.slow}.each(ctx, "list what waits for an operator", wanted, func(tx pgx.Tx, s attended) error {
		var mine []Attention
		for _, kind := range wanted[s.Name] {
			found, err := s.read(ctx, tx, kind, limit)
			if err != nil {
				return err
			}
			mine = append(mine, found...)
		}
		out = append(out, mine...)
		return nil
	})
	return out, err
}

// read reads what there is of a kind.
func (s attended) read(ctx context.Context, tx pgx.Tx, kind AttentionKind, limit int) (out []Attention, err error) {
	if kind == AttentionDead || kind == AttentionLoop {
		return s.dead(ctx, tx, kind, limit)
	}
	rows, err := tx.Query(ctx, ledger.OfWindows(s.Windows, "-- attention\nSELECT "+attentionColumns+" FROM ("+attentionRows[kind]+") x"), s.args(kind, limit)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (Attention, error) {
		a := Attention{Kind: kind}
		a.Team, a.Subscription, _ = strings.Cut(s.Name, ".")
		err := r.Scan(&a.Source, &a.EventID, &a.Type, &a.Entity, &a.Topic, &a.Partition, &a.Offset, &a.Reason, &a.Detail, &a.Since, &a.Events)
		a.Since = a.Since.UTC()
		return a, err
	})
}

// args are the parameters of a question of attentionRows.
func (s attended) args(kind AttentionKind, limit int) []any {
	switch kind {
	case AttentionParked:
		return []any{s.ID, attentionReads, limit}
	case AttentionOverdue:
		return []any{s.ID, attentionReads, overdueAfter.Microseconds(), limit}
	}
	return []any{s.ID, limit}
}

// dead reads dead letters of a kind.
func (s attended) dead(ctx context.Context, tx pgx.Tx, kind AttentionKind, limit int) (out []Attention, err error) {
	rows, err := tx.Query(ctx, ledger.OfWindows(s.Windows, attentionDead), s.ID, attentionReads, kind == AttentionLoop, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (Attention, error) {
		d, err := ledger.ScanDeadLetter(r)
		return Attention{Kind: kind, Team: d.Team, Subscription: d.Subscription, Source: d.Source, EventID: d.EventID, Type: d.Type, Entity: d.Entity,
			Topic: d.Topic, Partition: d.Partition, Offset: d.Offset, Detail: d.Error, Since: d.DiedAt.UTC(), Events: 1, Dead: &DeadLetter{DeadLetter: d}}, err
	})
}

// attendance goes through the subscriptions of a ledger, to look at each.
type attendance struct{ slow pool }

// each calls ask for each subscription of the ledger that is wanted, as one does. One that cannot be asked holds up no other; the error is of
// the first.
func (a attendance) each(ctx context.Context, op string, wanted map[string][]AttentionKind, ask func(pgx.Tx, attended) error) (failed error) {
	all, err := a.subscriptions(ctx, 0)
	if err != nil {
		return ledger.Unavailable(op, err)
	}
	for _, s := range all {
		if len(wanted[s.Name]) == 0 {
			continue
		}
		if err := a.one(ctx, s, ask); err != nil {
			failed = cmp.Or(failed, ledger.Unavailable(op+" in "+s.Name, err))
			if isOver(ctx, err) {
				break
			}
		}
	}
	return failed
}

// one calls ask for a subscription, in a transaction of its own in which every statement is bounded and planned by indexes alone. If a window
// was dropped meanwhile, it asks once more, with the windows of now. A subscription's windows are named one by one: a question over all windows
// of the ledger is planned over the tables of all subscriptions.
func (a attendance) one(ctx context.Context, s attended, ask func(pgx.Tx, attended) error) error {
	err := a.attend(ctx, s, ask)
	if !isGone(err) {
		return err
	}
	now, err := a.subscriptions(ctx, s.ID)
	if err != nil || len(now) == 0 {
		return err
	}
	return a.attend(ctx, now[0], ask)
}

// isGone reports whether a statement named a table that is not there any more.
func isGone(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}

func (a attendance) attend(ctx context.Context, s attended, ask func(pgx.Tx, attended) error) error {
	return within(ctx, a.slow, attentionWithin, byIndex(ctx, func(tx pgx.Tx) error { return ask(tx, s) }))
}

// byIndex has query's transaction plan by indexes alone.
func byIndex(ctx context.Context, query func(pgx.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, indexesOnly); err != nil {
			return err
		}
		return query(tx)
	}
}

// indexesOnly keeps the planner from reading a table from end to end because its statistics are of a time when it was small.
const indexesOnly = `SELECT set_config('enable_' || m, 'off', true) FROM unnest('{seqscan,bitmapscan,hashjoin,mergejoin}'::text[]) m`

// subscriptions reads those of the ledger, those of replays left out; with an id, that one alone.
func (a attendance) subscriptions(ctx context.Context, id int32) ([]attended, error) {
	rows, err := a.slow.Query(ctx, `SELECT s.id, s.name, array_agg(w.id ORDER BY w.id) AS windows FROM subscriptions s
		JOIN windows w ON w.subscription = s.id AND w.state <> 'ahead' WHERE s.generation = 0 AND ($1 = 0 OR s.id = $1) GROUP BY s.id ORDER BY s.name`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[attended])
}
