package inbox

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// SubscriptionStatus is the position of one partition of a subscription, and what is open in it.
type SubscriptionStatus struct {
	Team         string
	Subscription string
	Generation   int32
	Topic        string
	Partition    int32
	NextOffset   int64
	OpenActions  int64 // not tried yet
	HeldActions  int64 // tried, and open still
	Buffered     int64 // events that wait for a gap or are held
	Seeks        int64
	Skipped      int64      // offsets that forward seeks passed over
	LastSeeks    []PastSeek // at most five, the newest first
}

// PastSeek is a change of position that a claim has found. Its JSON is a row of the ledger.
type PastSeek struct {
	From    int64     `json:"from_offset"`
	To      int64     `json:"to_offset"` // forward, [From, To) was skipped
	Skipped int64     `json:"skipped"`
	Owner   string    `json:"owner"` // who claimed
	FoundAt time.Time `json:"found_at"`
}

// Subscriptions returns the position of every partition that was ever claimed of a subscription (without its team), of all of a team, or of
// all where both are empty, in the order of their names and generations. Kind Unavailable.
func (b *Inbox) Subscriptions(ctx context.Context, team, subscription string) (out []SubscriptionStatus, err error) {
	err = pgx.BeginFunc(ctx, b.slow, func(tx pgx.Tx) error {
		return bySubscription(ctx, tx, team, subscription, nil, func(s subscriptionWindows) error {
			rows, err := tx.Query(ctx, s.Scope.sql(`-- subscriptions: open actions are counted from lane_low up
SELECT split_part(s.name, '.', 1), substr(s.name, strpos(s.name, '.') + 1), s.generation, f.topic, f.partition, p.next_offset,
       `+ledger.OpenCount+`, `+ledger.TriedCount+`, `+ledger.WaitCount+`,
       (SELECT count(*) FROM seeks k WHERE k.fence = f.id), (SELECT coalesce(sum(k.skipped), 0) FROM seeks k WHERE k.fence = f.id)::bigint,
       coalesce((SELECT jsonb_agg(to_jsonb(k) ORDER BY k.id DESC) FROM
           (SELECT id, from_offset, to_offset, skipped, owner, found_at FROM seeks WHERE fence = f.id ORDER BY id DESC LIMIT 5) k), '[]')
FROM fences f JOIN subscriptions s ON s.id = f.subscription JOIN progress p ON p.fence = f.id
WHERE s.id = $1 ORDER BY f.topic, f.partition, f.id`), s.ID)
			if err != nil {
				return err
			}
			list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SubscriptionStatus])
			out = append(out, list...)
			return err
		})
	})
	if err != nil {
		return nil, ledger.Unavailable("list the subscriptions", err)
	}
	return out, nil
}

// Owned is a partition of a topic that a subscription reads, and whether somebody holds its claim.
type Owned struct {
	Subscription string // "<team>.<subscription>"
	Topic        string
	Partition    int32
	Claimed      bool // an owner has claimed it and not released it; one that was killed has not either
	TopicID      [16]byte
	Fence        int32
	Next         int64      // the position
	Left         *time.Time // the topic was left, and what came before this came while the subscription had it; nil: it was not left, or somebody has come back
	Moved        bool       // the topic was handed over to a copy
}

// leftUntil is until when records of a topic that was left came while the subscription had it, for all that is known: well before anybody last claimed,
// wrote or released a partition of it. When it was found left says nothing of that: nobody may have looked for weeks.
const leftUntil = `max(p.updated_at) OVER topic - interval '30 seconds'`

// Owned returns all partitions that were ever claimed, of the topics as they are now. Plan: topics and fences are small.
func (b *Inbox) Owned(ctx context.Context) (out []Owned, err error) {
	err = within(ctx, b.slow, attentionWithin, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `-- owned
SELECT s.name, f.topic, f.partition, NOT f.released, f.topic_id, f.id, coalesce(p.next_offset, 0),
       CASE WHEN t.left_at >= coalesce(f.claimed_at, '-infinity') THEN coalesce(`+leftUntil+`, t.left_at) END,
       EXISTS (SELECT FROM fences c WHERE c.subscription = f.subscription AND c.copy_of = f.topic_id AND NOT c.copy_void)
FROM subscriptions s JOIN topics t ON t.subscription = s.id
JOIN fences f ON f.subscription = s.id AND f.topic_id = t.topic_id LEFT JOIN progress p ON p.fence = f.id WHERE s.generation = 0
WINDOW topic AS (PARTITION BY s.id, f.topic)`)
		if err == nil {
			out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Owned])
		}
		return err
	})
	if err != nil {
		return nil, ledger.Unavailable("read who owns the partitions", err)
	}
	return out, nil
}
