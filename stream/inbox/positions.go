package inbox

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Standing is where a subscription stands in one partition, by the ledger alone: it is there whoever has the partition, and when nobody has.
type Standing struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
	Fence     int32  // 0: never claimed
	Recorded  int32  // how many partitions the topic had when it was recorded; 0: never claimed
	Next      *int64 // the position; nil: never claimed
	High      *int64 // the highest that the position ever was
	Begin     *int64 // where a new subscription begins; nil: not in there, as of a topic that was added later
	Owner     string // who has claimed the partition; empty: nobody has
	// Skipped are the offsets that moves forward have passed over before they were ever decided. All are below High.
	Skipped [][2]int64
	Counts  *Counts `db:"-"` // of CountOpen; nil: not counted
	// Oldest is since when the first open action is to run that goes on without an operator and was not taken for later: of OldestOpen. Zero: there
	// is none, nil: not known.
	Oldest *time.Time `db:"-"`
}

// Counts are how much is open in a partition.
type Counts struct {
	Open    int64 // actions that were not tried yet
	Tried   int64 // actions that were tried, and are open still
	Dead    int64 // of those tried, the dead, the unknown and what is parked behind them: they do not go on by themselves
	Waiting int64 // events that wait for a gap or are held
}

const (
	standingsWithin = 8 * time.Second
	countWithin     = 4 * time.Second // a subscription that is far behind has much to count
)

// Standings returns where a subscription stands, in the topics as the ledger knows them, without Counts. A topic that was created again and
// not accepted yet is there with its former id. Plan: fences and begins of one subscription are few.
func (b *Inbox) Standings(ctx context.Context, subscription string) (out []Standing, err error) {
	err = within(ctx, b.slow, standingsWithin, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `-- standings
SELECT coalesce(f.topic, g.topic) AS topic, coalesce(f.topic_id, g.topic_id) AS topic_id, coalesce(f.partition, g.partition) AS partition, coalesce(f.id, 0) AS fence, coalesce(f.partitions, 0) AS recorded,
       p.next_offset AS next, p.high_offset AS high, g.log_offset AS begin,
       CASE WHEN f.released THEN '' ELSE coalesce(f.owner, '') END AS owner,
       coalesce((SELECT jsonb_agg(jsonb_build_array(greatest(k.from_offset, k.before), k.to_offset))
                 FROM (SELECT k.*, max(greatest(k.from_offset, k.to_offset)) OVER (ORDER BY k.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                       FROM seeks k WHERE k.fence = f.id) k
                 WHERE k.to_offset > greatest(k.from_offset, k.before)), '[]') AS skipped
FROM (SELECT f.*, t.partitions FROM subscriptions s JOIN topics t ON t.subscription = s.id JOIN fences f ON f.subscription = s.id AND f.topic_id = t.topic_id
      WHERE s.name = $1 AND s.generation = 0) f
FULL JOIN (SELECT g.* FROM subscriptions s JOIN begins g ON g.subscription = s.id WHERE s.name = $1 AND s.generation = 0) g
      ON g.topic_id = f.topic_id AND g.partition = f.partition
LEFT JOIN progress p ON p.fence = f.id
ORDER BY 1, 3, 4`, subscription)
		if err == nil {
			out, err = pgx.CollectRows(rows, pgx.RowToStructByName[Standing])
		}
		return err
	})
	if err != nil {
		return nil, ledger.Unavailable("read where "+subscription+" stands", err)
	}
	return out, nil
}

// claimed returns those of the standings that were ever claimed, by their fences.
func claimed(standings []*Standing) (of map[int32]*Standing, fences []int32) {
	of, fences = map[int32]*Standing{}, []int32{}
	for _, s := range standings {
		if s.Fence != 0 {
			of[s.Fence], fences = s, append(fences, s.Fence)
		}
	}
	return of, fences
}

// CountOpen sets Counts of those standings that were ever claimed. What is not counted within countWithin, or half of what ctx has left, stays as
// it is.
func (b *Inbox) CountOpen(ctx context.Context, standings []*Standing) error {
	of, fences := claimed(standings)
	limit := countWithin
	if until, ok := ctx.Deadline(); ok { // the caller goes on without the count
		limit = max(time.Millisecond, min(limit, time.Until(until)/2))
	}
	err := within(ctx, b.slow, limit, func(tx pgx.Tx) error {
		return bySubscription(ctx, tx, "", "", fences, func(s subscriptionWindows) error {
			rows, err := tx.Query(ctx, s.Scope.sql(`-- countOpen
SELECT f.id, coalesce(`+ledger.OpenCount+`, 0), `+ledger.TriedCount+`, (SELECT count(*) FROM {actions} a WHERE a.fence = f.id AND a.open AND a.status IN ('dead_letter', 'unknown', 'parked')), `+ledger.WaitCount+`
FROM fences f LEFT JOIN progress p ON p.fence = f.id WHERE f.id = ANY ($1)`), s.Fences)
			if err != nil {
				return err
			}
			var fence int32
			var n Counts
			_, err = pgx.ForEachRow(rows, []any{&fence, &n.Open, &n.Tried, &n.Dead, &n.Waiting}, func() error {
				of[fence].Counts = new(n)
				return nil
			})
			return err
		})
	})
	if err != nil && !tooSlow(ctx, err) {
		return ledger.Unavailable("count what is open", err)
	}
	return nil
}

// oldestOpen is since when the first action of each fence of $1 is to run: of those that have a row, and of those of which only the event says so.
// What waits for a guard, or stands behind that or a dead head, is left out. One statement has them all: to plan it over many windows takes as
// long as to run it for a fence.
const oldestOpen = `-- oldestOpen: the rows through actions_w*_open; the others are what is left of the lane_seqs from lane_low up. Heads are looked up by key, not searched.
SELECT f.fence, o.since FROM unnest($1::int[]) AS f(fence) CROSS JOIN LATERAL (
WITH parks AS MATERIALIZED (SELECT jsonb_object_agg(h.entity, h.lane_seq) AS heads FROM (SELECT e.entity, min(a.lane_seq) AS lane_seq FROM {actions} a JOIN effects x ON x.id = a.effect
    JOIN LATERAL (SELECT entity FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e ON true
    WHERE a.fence = f.fence AND a.open AND a.status IN ('dead_letter', 'unknown', 'waiting_approval', 'waiting_budget') AND ` + ledger.ParksLane + ` GROUP BY e.entity) h),
with_row AS (SELECT coalesce(a.replayed_at, a.created_at) AS since FROM {actions} a
    JOIN LATERAL (SELECT entity FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e ON true
    WHERE a.fence = f.fence AND a.open AND a.status IN ('pending', 'failed') AND coalesce(((SELECT heads FROM parks) ->> e.entity)::bigint >= a.lane_seq, true)
    ORDER BY a.lane_seq LIMIT 1),
bare AS MATERIALIZED (SELECT generate_series(p.lane_low, p.next_lane_seq - 1) AS lane_seq FROM progress p WHERE p.fence = f.fence
    EXCEPT SELECT c.bucket << 10 | n.lane FROM progress p JOIN {completions} c ON c.fence = p.fence CROSS JOIN unnest(c.lanes) AS n(lane)
        WHERE p.fence = f.fence AND c.bucket >= p.lane_low >> 10
    EXCEPT SELECT a.lane_seq FROM progress p JOIN {actions} a ON a.fence = p.fence WHERE p.fence = f.fence AND a.lane_seq >= p.lane_low),
without AS (SELECT e.decided_at AS since FROM (SELECT lane_seq FROM bare ORDER BY lane_seq) b
    JOIN LATERAL (SELECT entity, decided_at FROM {events} v WHERE v.fence = f.fence AND v.lane_seq <= b.lane_seq AND v.lane_seq IS NOT NULL AND v.lane_window IS NULL
        ORDER BY v.fence DESC, v.lane_seq DESC LIMIT 1) e ON true
    WHERE coalesce(((SELECT heads FROM parks) ->> e.entity)::bigint >= b.lane_seq, true) ORDER BY b.lane_seq LIMIT 1)
SELECT min(since) AS since FROM (SELECT since FROM with_row UNION ALL SELECT since FROM without) x) o`

// OldestOpen sets Oldest of those standings that were ever claimed. What is not found within countWithin stays as it is.
func (b *Inbox) OldestOpen(ctx context.Context, standings []*Standing) error {
	of, fences := claimed(standings)
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	err := within(ctx, b.slow, countWithin, func(tx pgx.Tx) error {
		return bySubscription(ctx, tx, "", "", fences, func(s subscriptionWindows) error {
			rows, err := tx.Query(ctx, s.Scope.sql(oldestOpen), s.Fences)
			if err != nil {
				return err
			}
			var fence int32
			var since *time.Time
			_, err = pgx.ForEachRow(rows, []any{&fence, &since}, func() error {
				if of[fence].Oldest = new(time.Time); since != nil {
					*of[fence].Oldest = since.UTC()
				}
				return nil
			})
			return err
		})
	})
	if err != nil && !tooSlow(ctx, err) && ctx.Err() == nil {
		return ledger.Unavailable("look for the oldest open action", err)
	}
	return nil
}
