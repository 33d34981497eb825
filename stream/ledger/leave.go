package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// quietFor is for how long nobody may have worked on a topic that is left: a process that was not started anew yet still
// listens to what the configuration no longer names.
const quietFor = time.Hour

// topicsGone are topics that a subscription has and does not listen to, whose partitions nobody works on and which were not
// left before, or were returned to since. Plan: topics and fences are small.
const topicsGone = `-- topicsGone
SELECT t.topic_id FROM topics t WHERE t.subscription = $1 AND t.topic <> ALL ($2::text[])
  AND NOT EXISTS (SELECT FROM fences f LEFT JOIN progress p ON p.fence = f.id WHERE f.subscription = t.subscription AND f.topic_id = t.topic_id
                   AND NOT f.released AND greatest(f.claimed_at, p.processed_at) > now() - $3::interval)
  AND (t.left_at IS NULL OR EXISTS (SELECT FROM fences f WHERE f.subscription = t.subscription AND f.topic_id = t.topic_id AND f.claimed_at > t.left_at))
ORDER BY t.topic_id`

// copiesGone are the fences of copies of a topic that the subscription was handed over to and never read: it does not listen to
// them, and has run since, for a while. That is a claim which still holds: who started the old configuration by mistake, and
// stopped it, decided nothing.
const copiesGone = `-- copiesGone
SELECT unnest(array_agg(c.id ORDER BY c.id)) FROM fences c WHERE c.subscription = $1 AND c.topic <> ALL ($2::text[])
  AND EXISTS (SELECT FROM fences u WHERE u.subscription = $1 AND u.topic = ANY ($2::text[]) AND NOT u.released
               AND u.claimed_at > (SELECT max(left_at) FROM topics WHERE subscription = $1) AND u.claimed_at < now() - $3::interval)
GROUP BY c.topic_id HAVING max(c.epoch) = 0`

// Leave notes that the subscription listens to these topics and no others: the partitions of others, once nobody has worked on
// them for an hour, keep no dedupe window any more. What is open in them does, and whoever claims one of them returns to its
// topic. Copies of a topic that it was handed over to and never read are forgotten with their lines: only a new hand-over leads
// to them.
func (n *Namespace) Leave(ctx context.Context, topics []string) error {
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		if err := forgetCopies(ctx, tx, copiesGone, n.id, topics, quietFor); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, topicsGone, n.id, topics, quietFor)
		if err != nil {
			return err
		}
		gone, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return err
		}
		for _, id := range gone {
			if err := n.leave(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "leave topics of " + n.spec.Name, Err: redact(err)}
	}
	return nil
}

// leave writes what the owners of a topic's partitions left to the next claim, lines and the mark below which all is settled,
// and notes that there will be none.
func (n *Namespace) leave(ctx context.Context, tx pgx.Tx, topicID [16]byte) error {
	fences, err := ints(ctx, tx, `SELECT id FROM fences WHERE subscription = $1 AND topic_id = $2 ORDER BY id FOR UPDATE`, n.id, topicID)
	if err != nil {
		return err
	}
	if err := n.readWindows(ctx, tx); err != nil {
		return err
	}
	for _, fence := range fences {
		if err := fold(ctx, tx, fence); err != nil {
			return err
		}
		if err := markLow(ctx, tx, n.windows.Load(), fence); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `UPDATE topics SET left_at = now() WHERE subscription = $1 AND topic_id = $2`, n.id, topicID)
	return err
}

// markLow moves a fence's lane_low to the first action that is neither done nor has a row. The caller has locked the fence.
func markLow(ctx context.Context, tx pgx.Tx, win *windowSet, fence int32) error {
	c := &Claim{ID: fence}
	err := tx.QueryRow(ctx, `SELECT next_lane_seq FROM progress WHERE fence = $1`, fence).Scan(&c.laneSeq)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = loadMarks(ctx, tx, win, c)
	}
	if err == nil {
		err = exactly(tx.Exec(ctx, `UPDATE progress SET lane_low = greatest(lane_low, $2) WHERE fence = $1`, fence, c.marks.low))
	}
	return err
}
