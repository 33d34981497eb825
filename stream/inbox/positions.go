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
	Fence     int32      // 0: never claimed
	Recorded  int32      // how many partitions the topic had when it was recorded; 0: never claimed
	Next      *int64     // the position; nil: never claimed
	High      *int64     // the highest that the position ever was
	Begin     *int64     // where a new subscription begins; nil: not in there, as of a topic that was added later
	Processed *time.Time // the append time up to which records were decided
	Owner     string     // who has claimed the partition; empty: nobody has
	ClaimedAt *time.Time
	// Skipped are the offsets that moves forward have passed over before they were ever decided. All are below High.
	Skipped [][2]int64
	Counts  *Counts `db:"-"` // of CountOpen; nil: not counted
}

// Counts are how much is open in a partition.
type Counts struct {
	Open    int64 // actions that were not tried yet
	Tried   int64 // actions that were tried, and are open still
	Dead    int64 // of those tried, the dead, the unknown and what is parked behind them: they do not go on by themselves
	Waiting int64 // events that wait for a gap or are held
}

// Going is how many actions are open and go on without an operator.
func (n *Counts) Going() int64 { return n.Open + n.Tried - n.Dead }

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
       p.next_offset AS next, p.high_offset AS high, g.log_offset AS begin, CASE WHEN isfinite(p.processed_at) THEN p.processed_at END AS processed,
       CASE WHEN f.released THEN '' ELSE coalesce(f.owner, '') END AS owner, f.claimed_at,
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

// CountOpen sets Counts of those standings that were ever claimed. What is not counted within countWithin stays as
// it is.
func (b *Inbox) CountOpen(ctx context.Context, standings []*Standing) error {
	of, fences := map[int32]*Standing{}, []int32{}
	for _, s := range standings {
		if s.Fence != 0 {
			of[s.Fence], fences = s, append(fences, s.Fence)
		}
	}
	err := within(ctx, b.slow, countWithin, func(tx pgx.Tx) error {
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
