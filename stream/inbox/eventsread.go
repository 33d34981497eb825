package inbox

import (
	"context"
	"errors"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// inboxSelect is one row per event and per record set aside. Plan: per window the page ranges of a slice of time;
// the actions of a row are probes of its window. What is untried behind a dead or unknown head of its
// lane is told as parked: nobody writes that into its row, since the lane stands still by its head alone.
var inboxSelect = inboxHead + inboxEvents + inboxUnion + inboxAsides + inboxTail

const (
	inboxHead = `-- inbox
SELECT subscription, generation, source, event_id, type, entity, kind, clock, epoch, value, word, sub, status, decision, reason,
       duplicates, attempts, next_at, last_error, topic, topic_id, partition, log_offset, leader_epoch, event_key, hash,
       owner, received_at, decided_at, redriven_at, redriven_by, redriven_reason, fence, window_id, lane_seq, actions
FROM (`
	inboxUnion = `
    UNION ALL`
	inboxTail = `
) i`
)

var inboxEvents = `
    SELECT s.name AS subscription, s.generation, e.source, e.event_id, e.type, e.entity, e.kind, e.clock, e.epoch, e.value, e.word, e.sub,
           coalesce(CASE WHEN a.status IN ('received', 'processing') AND EXISTS (
               SELECT FROM actions h JOIN effects x ON x.id = h.effect
               JOIN events he ON he.window_id = h.event_window AND he.event_key = h.event_key
               WHERE h.fence = e.fence AND h.open AND h.lane_seq < e.lane_seq AND he.entity = e.entity
                 AND (h.status = 'unknown' OR h.status = 'dead_letter' AND x.on_dead = 'park' AND h.class IS DISTINCT FROM '` + ledger.DeadClass + `')
           ) THEN 'parked' ELSE a.status END, CASE WHEN e.decision IN ('applied', 'late') THEN 'done' ELSE e.decision END) AS status,
           e.decision, e.reason, e.duplicates, coalesce(a.attempts, 0) AS attempts,
           coalesce(a.next_at, b.deadline) AS next_at, coalesce(a.last_error, '') AS last_error,
           f.topic, ` + ledger.TopicThen("e.lane_seq") + `, f.partition, e.log_offset, e.leader_epoch, e.event_key, e.hash, f.owner, e.received_at,
           e.decided_at, NULL::timestamptz AS redriven_at, NULL::text AS redriven_by, NULL::text AS redriven_reason,
           e.fence, e.window_id, e.lane_seq, e.actions::int AS actions
    FROM events e JOIN fences f ON f.id = e.fence JOIN subscriptions s ON s.id = f.subscription
    ` + inboxBuffer + `b.fence = e.fence AND b.log_offset = e.log_offset AND e.decision IN ('buffered', 'parked')
    LEFT JOIN LATERAL (
        SELECT CASE WHEN count(*) = 0 THEN NULL WHEN bool_or(x.status = 'parked') THEN 'parked' WHEN bool_or(x.status = 'unknown') THEN 'unknown'
                    WHEN bool_or(x.status = 'dead_letter') THEN 'dead_letter' WHEN bool_or(x.status = 'failed') THEN 'failed'
                    WHEN bool_or(x.status = 'processing') THEN 'processing'
                    WHEN bool_and(coalesce(x.status = 'superseded', c.superseded, false)) THEN 'superseded'
                    WHEN bool_and(coalesce(NOT x.open, c.at IS NOT NULL)) THEN CASE WHEN bool_or(x.status = 'discarded') THEN 'discarded'
                         WHEN bool_or(x.status = 'stale') THEN 'stale' ELSE 'done' END
                    WHEN bool_or(coalesce(NOT x.open, c.at IS NOT NULL)) THEN 'processing'
                    ELSE 'received' END AS status,
               sum(coalesce(x.attempts, (NOT c.superseded)::int, 0))::int AS attempts, min(coalesce(x.next_at, x.result_by)) AS next_at,
               (array_agg(x.error ORDER BY x.lane_seq DESC) FILTER (WHERE x.error IS NOT NULL))[1] AS last_error
        FROM ` + ledger.OfAll(ledger.ActionStates) + `
    ) a ON e.lane_seq IS NOT NULL`

const inboxBuffer = `LEFT JOIN buffer b ON `

const inboxAsides = `
    SELECT s.name AS subscription, s.generation, d.source, d.event_id, d.type, d.entity, d.kind, d.clock, d.epoch, d.value, d.word, d.sub,
           CASE WHEN d.redriven_at IS NULL THEN d.decision ELSE 'redriven' END AS status, d.decision, d.reason,
           0 AS duplicates, 0 AS attempts, NULL::timestamptz AS next_at, coalesce(d.error, '') AS last_error,
           f.topic, f.topic_id, f.partition, d.log_offset, d.leader_epoch, d.event_key, d.hash, f.owner, d.received_at,
           d.decided_at, d.redriven_at, d.redriven_by, d.redriven_reason, d.fence, d.window_id, NULL::bigint AS lane_seq, 0 AS actions
    FROM asides d JOIN fences f ON f.id = d.fence JOIN subscriptions s ON s.id = f.subscription`

// inboxWaiting is inboxEvents of what waits or is held, found by its rows in the buffer.
var inboxWaiting = strings.Replace(inboxEvents, inboxBuffer, "JOIN buffer b ON b.window_id = e.window_id AND b.event_key = e.event_key AND ", 1)

// from is inboxSelect without the parts in which nothing of the kind asked for can be.
func (q Query) from() string {
	switch {
	case q.Decision == gate.Buffered || q.Decision == gate.Parked:
		return inboxHead + inboxWaiting + inboxTail
	case q.Decision == gate.Quarantined || q.Decision == gate.Conflict || q.Decision == gate.Filtered:
		return inboxHead + inboxAsides + inboxTail
	case q.Decision != "":
		return inboxHead + inboxEvents + inboxTail
	}
	return inboxSelect
}

// Item finds what became of an event in a subscription, its actions and attempts included. The newest generation
// that knows the event answers. Kind NotFound where none does.
func (b *Inbox) Item(ctx context.Context, team, subscription, source, eventID string) (Item, error) {
	const op = "read the inbox"
	items, err := b.inboxItems(ctx, inboxSelect+` WHERE subscription = $1 AND event_key = $2 AND source = $3 AND event_id = $4
		ORDER BY generation DESC, (decision = 'conflict'), decided_at DESC LIMIT 1`,
		[]any{team + "." + subscription, [16]byte(schemas.NewEventKey(source, eventID)), ledger.Clean(source, 4096), ledger.Clean(eventID, 4096)})
	if err == nil && len(items) == 0 {
		return Item{}, schemas.Errorf(schemas.NotFound, op, "subscription %s.%s knows no event %s %s", team, subscription, source, eventID)
	}
	if err == nil && items[0].laneSeq != nil {
		items[0].Actions, err = b.inboxActions(ctx, &items[0])
	}
	if err != nil {
		return Item{}, ledger.Unavailable(op, err)
	}
	return items[0], nil
}

// Place finds what was set aside at a place in the log: a record that could not be decoded has no other name. The newest
// generation that knows it answers. Kind NotFound where none does.
func (b *Inbox) Place(ctx context.Context, team, subscription, topic string, partition int32, offset int64) (Item, error) {
	const op = "read the inbox"
	items, err := b.inboxItems(ctx, inboxHead+inboxAsides+inboxTail+` WHERE subscription = $1 AND topic = $2 AND partition = $3 AND log_offset = $4
		ORDER BY generation DESC, decided_at DESC LIMIT 1`, []any{team + "." + subscription, ledger.Clean(topic, 249), partition, offset})
	if err != nil {
		return Item{}, ledger.Unavailable(op, err)
	}
	if len(items) == 0 {
		return Item{}, schemas.Errorf(schemas.NotFound, op, "subscription %s.%s has set nothing aside at %s/%d@%d", team, subscription, topic, partition, offset)
	}
	return items[0], nil
}

func (b *Inbox) inboxActions(ctx context.Context, item *Item) ([]Action, error) {
	rows, err := b.read.Query(ctx, ledger.OfAll(`SELECT e.lane_seq + n.i, f.name, f.destination,
		coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' WHEN c.superseded THEN 'superseded' ELSE 'done' END),
		coalesce(x.attempts, (NOT c.superseded)::int, 0),
		coalesce(x.class, ''), coalesce(x.code, c.code, 0), coalesce(x.error, ''), coalesce(x.response, c.response[c.at]),
		coalesce(x.latency_us, c.latency_us[c.at], 0), coalesce(x.created_at, e.decided_at), coalesce(x.next_at, x.result_by), coalesce(x.finished_at, c.finished_at)
		FROM events e LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL `+ledger.ActionStates+`
		JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
		WHERE e.window_id = $1 AND e.event_key = $2 ORDER BY n.i`), item.window, [16]byte(item.Pointer.Key))
	if err != nil {
		return nil, err
	}
	actions, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Action, error) {
		var (
			a  Action
			us int32
		)
		err := r.Scan(&a.LaneSeq, &a.Name, &a.Destination, &a.Status, &a.Attempts, &a.Class, &a.Code, &a.Error, &a.Response, &us,
			&a.CreatedAt, &a.NextAt, &a.FinishedAt)
		a.LatencyMS = float64(us) / 1000
		a.ID = schemas.NewActionID(item.Team+"."+item.Subscription, item.Generation, item.Source, item.EventID, a.Name)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return actions, b.inboxHistory(ctx, item, actions)
}

// traceText is an attempt's trace id as traces are written.
const traceText = `coalesce(replace(trace::text, '-', ''), '')`

func (b *Inbox) inboxHistory(ctx context.Context, item *Item, actions []Action) error {
	rows, err := b.read.Query(ctx, `SELECT lane_seq, attempt, ended_at, status, class, code, latency_us, error, response, `+traceText+` FROM attempts
		WHERE fence = $1 AND lane_seq >= $2 AND lane_seq < $2 + $3 ORDER BY lane_seq, attempt`, item.Fence, *item.laneSeq, int64(item.laneCount))
	if err != nil {
		return err
	}
	var (
		laneSeq int64
		us      int32
		a       Attempt
	)
	scan := []any{&laneSeq, &a.Attempt, &a.EndedAt, &a.Status, &a.Class, &a.Code, &us, &a.Error, &a.Response, &a.TraceID}
	_, err = pgx.ForEachRow(rows, scan, func() error {
		a.LatencyMS = float64(us) / 1000
		if i := laneSeq - *item.laneSeq; i >= 0 && i < int64(len(actions)) {
			actions[i].History = append(actions[i].History, a)
		}
		a.Response = nil
		return nil
	})
	return err
}

// Payload says where the bytes of an item are: in the ledger, packed or raw (never nil then), else at the pointer.
// Quarantined records have their raw bytes here.
func (b *Inbox) Payload(ctx context.Context, item Item) (packed []byte, p ledger.Pointer, err error) {
	err = b.read.QueryRow(ctx, `SELECT packed FROM (
		SELECT b.packed, 1 AS rank FROM buffer b WHERE b.fence = $1 AND b.log_offset = $2 AND b.event_key = $4
		UNION ALL SELECT d.raw, 2 FROM asides d WHERE d.fence = $1 AND d.log_offset = $2 AND d.decision = $5
		UNION ALL SELECT a.packed, 3 FROM actions a WHERE a.fence = $1 AND a.lane_seq = $3) c
		WHERE packed IS NOT NULL ORDER BY rank LIMIT 1`, item.Fence, item.Offset, item.laneSeq, [16]byte(item.Pointer.Key), string(item.Decision)).Scan(&packed)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, ledger.Pointer{}, ledger.Unavailable("read a payload", err)
	}
	return packed, item.Pointer, nil
}
