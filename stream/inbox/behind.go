package inbox

import (
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Behind is how many events wait behind the head of a parked lane.
type Behind struct {
	Events int64
	More   bool // the count was cut off: there are at least as many
}

// Counts returns the count as operators read it: as exact if all events were counted, as atLeast if the count was cut off. Both are
// nil of a nil Behind: nobody has counted.
func (b *Behind) Counts() (exact, atLeast *int64) {
	switch {
	case b == nil:
		return nil, nil
	case b.More:
		return nil, &b.Events
	}
	return &b.Events, nil
}

// Bounds of counting the events behind the heads of a page. There is no index on entities, so the events of all entities of a partition
// are read, from its first head on.
const (
	behindReads  = 100_000 // rows that are read through each of the two indexes, divided among the page's partitions; 1,000 for each at least
	behindWithin = 1500 * time.Millisecond
)

// behindCount counts, for each head, the events of its entity behind it. It reads each partition once, from the lowest lane_seq of its
// heads on: events that never waited for a gap through the index on (fence, lane_seq) of events, the others through the rows of their
// actions. $4 limits the rows of each read; the last column is true where a limit was reached: then more events may be behind.
const behindCount = `-- behind
WITH h AS (SELECT unnest($1::int[]) AS fence, unnest($2::bigint[]) AS lane_seq, unnest($3::text[]) AS entity),
     lowest AS (SELECT fence, min(lane_seq) AS lane_seq FROM h GROUP BY fence),
     own AS (SELECT e.* FROM lowest CROSS JOIN LATERAL (SELECT fence, lane_seq, entity FROM {events} v
           WHERE fence = lowest.fence AND lane_seq > lowest.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL ORDER BY fence, lane_seq LIMIT $4) e),
     with_row AS (SELECT a.* FROM lowest CROSS JOIN LATERAL (SELECT fence, lane_seq, class, event_window, event_key FROM {actions} v
           WHERE fence = lowest.fence AND lane_seq > lowest.lane_seq AND open ORDER BY fence, lane_seq LIMIT $4) a),
     e AS (SELECT * FROM own UNION ALL SELECT e.* FROM with_row a
           CROSS JOIN LATERAL (SELECT fence, lane_seq, entity FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key AND v.lane_window IS NOT NULL OFFSET 0) e
           WHERE a.class IS DISTINCT FROM '` + ledger.DeadClass + `'),
     more AS (SELECT fence FROM own GROUP BY fence HAVING count(*) >= $4 UNION SELECT fence FROM with_row GROUP BY fence HAVING count(*) >= $4)
SELECT h.fence, h.lane_seq, count(DISTINCT e.lane_seq), h.fence IN (SELECT fence FROM more)
FROM h LEFT JOIN e ON e.fence = h.fence AND e.entity = h.entity AND e.lane_seq > h.lane_seq GROUP BY h.fence, h.lane_seq`

// heads are the heads of parked lanes, as parameters of behindCount.
type heads struct {
	fences   []int32
	laneSeqs []int64
	entities []string
}

func (h *heads) add(fence int32, laneSeq int64, entity schemas.EntityKey) {
	h.fences, h.laneSeqs, h.entities = append(h.fences, fence), append(h.laneSeqs, laneSeq), append(h.entities, string(entity))
}

// of returns those of the heads that are of some fences.
func (h *heads) of(fences []int32) (own heads) {
	for i, fence := range h.fences {
		if slices.Contains(fences, fence) {
			own.add(fence, h.laneSeqs[i], schemas.EntityKey(h.entities[i]))
		}
	}
	return own
}

// partitions returns in how many partitions the heads are.
func (h *heads) partitions() int {
	distinct := map[int32]bool{}
	for _, fence := range h.fences {
		distinct[fence] = true
	}
	return len(distinct)
}

// countBehind returns how many events are behind each head. Where counting takes longer than behindWithin, that is no error: the counts
// that are left are "at least 0".
func (b *Inbox) countBehind(ctx context.Context, h heads) (map[ActionRef]*Behind, error) {
	counts := make(map[ActionRef]*Behind, len(h.fences))
	for i := range h.fences {
		counts[ActionRef{Fence: h.fences[i], LaneSeq: h.laneSeqs[i]}] = &Behind{More: true}
	}
	if len(counts) == 0 {
		return counts, nil
	}
	err := within(ctx, b.slow, behindWithin, byIndex(ctx, func(tx pgx.Tx) error {
		began := time.Now()
		return bySubscription(ctx, tx, "", "", h.fences, func(s subscriptionWindows) error {
			if time.Since(began) > behindWithin {
				return nil
			}
			own := h.of(s.Fences)
			rows, err := tx.Query(ctx, s.Scope.sql(behindCount), own.fences, own.laneSeqs, own.entities, max(b.behindReads/h.partitions(), b.behindReads/100))
			if err != nil {
				return err
			}
			var head ActionRef
			var count Behind
			_, err = pgx.ForEachRow(rows, []any{&head.Fence, &head.LaneSeq, &count.Events, &count.More}, func() error {
				*counts[head] = count
				return nil
			})
			return err
		})
	}))
	if tooSlow(ctx, err) {
		return counts, nil
	}
	return counts, err
}

// within calls query with a transaction in which the server cancels each statement that takes longer than limit (SQLSTATE 57014).
func within(ctx context.Context, from pool, limit time.Duration, query func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, from, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1::bigint::text, true)`, limit.Milliseconds()); err != nil {
			return err
		}
		return query(tx)
	})
}

// countBehindDead sets Behind of those dead letters that park their entity.
func (b *Inbox) countBehindDead(ctx context.Context, items []DeadLetter) error {
	var h heads
	for i := range items {
		if d := &items[i]; d.Parks {
			h.add(d.Fence, d.LaneSeq, d.Entity)
		}
	}
	counts, err := b.countBehind(ctx, h)
	for i := range items {
		items[i].Behind = counts[ActionRef{Fence: items[i].Fence, LaneSeq: items[i].LaneSeq}]
	}
	return err
}

// parkedHeads are those of events, by the fence, the first lane_seq and the number of their actions, that have an action that parks its lane.
const parkedHeads = `-- parkedHeads
SELECT DISTINCT h.fence, h.lane_seq FROM unnest($1::int[], $2::bigint[], $3::int[]) AS h(fence, lane_seq, n)
JOIN {actions} a ON a.fence = h.fence AND a.lane_seq >= h.lane_seq AND a.lane_seq < h.lane_seq + h.n JOIN effects x ON x.id = a.effect
WHERE h.fence = ANY ($4) AND a.status IN ('dead_letter', 'unknown') AND ` + ledger.ParksLane

// countBehindItems sets Behind or BehindAtLeast of those events whose actions park their entity. An event's actions have its laneSeq
// and the next ones; any of them may be the one that parks.
func (b *Inbox) countBehindItems(ctx context.Context, items []Item) error {
	var fences, actions []int32
	var laneSeqs []int64
	events := map[ActionRef]*Item{}
	for i := range items {
		if e := &items[i]; e.laneSeq != nil && (e.Status == string(ledger.Dead) || e.Status == string(ledger.Unknown)) {
			fences, laneSeqs, actions = append(fences, e.Fence), append(laneSeqs, *e.laneSeq), append(actions, e.actions)
			events[ActionRef{Fence: e.Fence, LaneSeq: *e.laneSeq}] = e
		}
	}
	if len(fences) == 0 {
		return nil
	}
	var parked heads
	err := inOrder(ctx, b.slow, func(tx pgx.Tx) error {
		return bySubscription(ctx, tx, "", "", fences, func(s subscriptionWindows) error {
			rows, err := tx.Query(ctx, s.Scope.sql(parkedHeads), fences, laneSeqs, actions, s.Fences)
			if err != nil {
				return err
			}
			var first ActionRef // of the event
			_, err = pgx.ForEachRow(rows, []any{&first.Fence, &first.LaneSeq}, func() error {
				parked.add(first.Fence, first.LaneSeq, schemas.EntityKey(events[first].Entity))
				return nil
			})
			return err
		})
	})
	if err != nil {
		return err
	}
	counts, err := b.countBehind(ctx, parked)
	for event, count := range counts {
		events[event].Behind, events[event].BehindAtLeast = count.Counts()
	}
	return err
}
