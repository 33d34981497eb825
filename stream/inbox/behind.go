package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Behind is how many events stand still behind the head of a parked lane.
type Behind struct {
	Events int64
	More   bool // the count was not carried to its end: there are at least as many
}

// Told is the count as operators read it: exact, or how far it came, or neither where nobody has counted.
func (b *Behind) Told() (exact, atLeast *int64) {
	switch {
	case b == nil:
		return nil, nil
	case b.More:
		return nil, &b.Events
	}
	return &b.Events, nil
}

// Bounds of counting the events behind the heads of a page. There is no index on entities, so all events of the partition are read.
const (
	behindWalk   = 100_000 // events, over all partitions of a page; 1,000 of each at least
	behindWithin = 1500 * time.Millisecond
)

// behindCount counts the events of entities behind their heads. For each partition it reads once what came after the first head: events
// that were applied at once by the index on lane_seq, and events that left the gap buffer by their actions' rows.
const behindCount = `-- behind
WITH h AS (SELECT unnest($1::int[]) AS fence, unnest($2::bigint[]) AS lane_seq, unnest($3::text[]) AS entity),
     lowest AS (SELECT fence, min(lane_seq) AS lane_seq FROM h GROUP BY fence),
     own AS (SELECT e.* FROM lowest CROSS JOIN LATERAL (SELECT fence, lane_seq, entity FROM events
           WHERE fence = lowest.fence AND lane_seq > lowest.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL ORDER BY fence, lane_seq LIMIT $4) e),
     with_row AS (SELECT a.* FROM lowest CROSS JOIN LATERAL (SELECT fence, lane_seq, class, event_window, event_key FROM actions
           WHERE fence = lowest.fence AND lane_seq > lowest.lane_seq AND open ORDER BY fence, lane_seq LIMIT $4) a),
     e AS (SELECT * FROM own UNION ALL SELECT e.fence, e.lane_seq, e.entity FROM with_row a
           JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key AND e.lane_window IS NOT NULL
           WHERE a.class IS DISTINCT FROM '` + ledger.DeadClass + `'),
     more AS (SELECT fence FROM own GROUP BY fence HAVING count(*) >= $4 UNION SELECT fence FROM with_row GROUP BY fence HAVING count(*) >= $4)
SELECT h.fence, h.lane_seq, count(DISTINCT e.lane_seq), h.fence IN (SELECT fence FROM more)
FROM h LEFT JOIN e ON e.fence = h.fence AND e.entity = h.entity AND e.lane_seq > h.lane_seq GROUP BY h.fence, h.lane_seq`

// heads are the heads of parked lanes.
type heads struct {
	fences   []int32
	lanes    []int64
	entities []string
}

func (h *heads) add(fence int32, laneSeq int64, entity schemas.EntityKey) {
	h.fences, h.lanes, h.entities = append(h.fences, fence), append(h.lanes, laneSeq), append(h.entities, string(entity))
}

// partitions returns in how many partitions the heads are.
func (h *heads) partitions() int {
	distinct := map[int32]bool{}
	for _, f := range h.fences {
		distinct[f] = true
	}
	return len(distinct)
}

// countBehind returns how many events are behind each head, as far as they can be counted in time.
func (b *Inbox) countBehind(ctx context.Context, h heads) (map[ActionRef]*Behind, error) {
	at := make(map[ActionRef]*Behind, len(h.fences))
	for i := range h.fences {
		at[ActionRef{Fence: h.fences[i], LaneSeq: h.lanes[i]}] = &Behind{More: true}
	}
	if len(at) == 0 {
		return at, nil
	}
	err := within(ctx, b.read, behindWithin, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, behindCount, h.fences, h.lanes, h.entities, max(b.behindWalk/h.partitions(), b.behindWalk/100))
		if err != nil {
			return err
		}
		var ref ActionRef
		var b Behind
		_, err = pgx.ForEachRow(rows, []any{&ref.Fence, &ref.LaneSeq, &b.Events, &b.More}, func() error { *at[ref] = b; return nil })
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" && ctx.Err() == nil {
		return at, nil
	}
	return at, err
}

// within calls ask with a transaction in which the server cancels each statement that takes longer than limit (SQLSTATE 57014).
func within(ctx context.Context, from pool, limit time.Duration, ask func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, from, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1::bigint::text, true)`, limit.Milliseconds()); err != nil {
			return err
		}
		return ask(tx)
	})
}

// deadBehind counts the events behind those of items that park their entity.
func (b *Inbox) deadBehind(ctx context.Context, items []DeadLetter) error {
	var h heads
	for i := range items {
		if d := &items[i]; d.Parks {
			h.add(d.Fence, d.LaneSeq, d.Entity)
		}
	}
	at, err := b.countBehind(ctx, h)
	for i := range items {
		items[i].Behind = at[ActionRef{Fence: items[i].Fence, LaneSeq: items[i].LaneSeq}]
	}
	return err
}

// inboxBehind counts the events behind those of a page that park their entity.
func (b *Inbox) inboxBehind(ctx context.Context, items []Item) error {
	var fences, counts []int32
	var lanes []int64
	of := map[ActionRef]*Item{}
	for n := range items {
		if i := &items[n]; i.laneSeq != nil && (i.Status == string(ledger.Dead) || i.Status == string(ledger.Unknown)) {
			fences, lanes, counts = append(fences, i.Fence), append(lanes, *i.laneSeq), append(counts, i.laneCount)
			of[ActionRef{Fence: i.Fence, LaneSeq: *i.laneSeq}] = i
		}
	}
	if len(fences) == 0 {
		return nil
	}
	rows, err := b.read.Query(ctx, `SELECT DISTINCT h.fence, h.lane_seq FROM unnest($1::int[], $2::bigint[], $3::int[]) AS h(fence, lane_seq, n)
		JOIN actions a ON a.fence = h.fence AND a.lane_seq >= h.lane_seq AND a.lane_seq < h.lane_seq + h.n JOIN effects x ON x.id = a.effect
		WHERE a.status IN ('dead_letter', 'unknown') AND `+ledger.ParksLane, fences, lanes, counts)
	if err != nil {
		return err
	}
	var h heads
	var ref ActionRef
	_, err = pgx.ForEachRow(rows, []any{&ref.Fence, &ref.LaneSeq}, func() error {
		h.add(ref.Fence, ref.LaneSeq, schemas.EntityKey(of[ref].Entity))
		return nil
	})
	if err != nil {
		return err
	}
	at, err := b.countBehind(ctx, h)
	for ref, b := range at {
		of[ref].Behind, of[ref].BehindAtLeast = b.Told()
	}
	return err
}
