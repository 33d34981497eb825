package ledger

// A subscription leaves the topics that it no longer reads, in one transaction.
//
//	copies  fences of void hand-overs: locked; what was handed over is deleted (version_lines, begins)
//	read    which topics have had no owner for leftAfter
//	topic   its fences, ascending: locked, so that no claim begins; dirty version lines and lane_low are written; topics.left_at
//	held    topics of these that were marked as left meanwhile count again
//	replays the parts of replays there end: replay_parts

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// leftAfter is how long a topic must have had no owner before it counts as left: a process that was not restarted yet still
// reads what the configuration no longer names.
const leftAfter = time.Hour

// topicsGone are topics of a subscription that it no longer reads, whose partitions have no owner, and which are not marked
// as left, or were claimed since. Plan: topics and fences are small.
const topicsGone = `-- topicsGone
SELECT t.topic_id FROM topics t WHERE t.subscription = $1 AND t.topic <> ALL ($2::text[])
  AND NOT EXISTS (SELECT FROM fences f LEFT JOIN progress p ON p.fence = f.id WHERE f.subscription = t.subscription AND f.topic_id = t.topic_id
                   AND NOT f.released AND greatest(f.claimed_at, p.processed_at) > now() - $3::interval)
  AND (t.left_at IS NULL OR EXISTS (SELECT FROM fences f WHERE f.subscription = t.subscription AND f.topic_id = t.topic_id AND f.claimed_at > t.left_at))
ORDER BY t.topic_id`

// copiesVoid are partitions of copies whose hand-over is void and of which something is left.
const copiesVoid = `-- copiesVoid
SELECT f.id FROM fences f WHERE f.subscription = $1 AND f.copy_void AND (EXISTS (SELECT FROM version_lines l WHERE l.fence = f.id)
    OR EXISTS (SELECT FROM begins b WHERE b.subscription = f.subscription AND b.topic_id = f.topic_id AND b.partition = f.partition))
ORDER BY f.id FOR UPDATE`

// replaysLeft ends the replays in partitions of topics that are left.
const replaysLeft = `UPDATE replay_parts p SET ended_at = now(), failure = $3, detail = $4 FROM fences f JOIN topics t ON t.subscription = f.subscription AND t.topic_id = f.topic_id
WHERE p.fence = f.id AND p.ended_at IS NULL AND f.subscription = $1 AND t.topic <> ALL ($2::text[]) AND t.left_at >= coalesce(f.claimed_at, '-infinity')`

// topicsHeld takes back that topics are left of which somebody holds a claim, as who asks reads them: a process with a newer file may have taken a
// subscription that is behind, or paused, for gone. A hand-over to a copy takes the tokens of the claims.
const topicsHeld = `UPDATE topics t SET left_at = NULL WHERE t.subscription = $1 AND t.topic = ANY ($2::text[]) AND t.left_at IS NOT NULL
  AND EXISTS (SELECT FROM fences f WHERE f.subscription = t.subscription AND f.topic_id = t.topic_id AND NOT f.released AND f.token IS NOT NULL)`

// Leave stores that the subscription reads these topics and no others. Partitions of other topics that have had no owner for
// an hour no longer keep dedupe windows from being dropped, except for what is open in them, and replays of them end. If one of them is claimed again, or is one of these, its topic
// counts again. Leave also deletes what was handed over to copies whose hand-over is void; their fences stay, and refuse claims.
func (n *Namespace) Leave(ctx context.Context, topics []string) error {
	return n.ledger.leave(ctx, n.spec.Name, func(tx pgx.Tx) error {
		if err := leaveOthers(ctx, tx, &n.windows, topics); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, topicsHeld, n.id, topics); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, replaysLeft, n.id, topics, string(ReplayLeft), "the subscription does not read this topic any more, so nobody replays it")
		return err
	})
}

// LeaveAll is [Namespace.Leave] of all topics for a subscription that no process runs any more, but for its replays: see the inbox's EndReplaysAlone.
// One that is being moved stays as it is, and one that a process decides for.
func (l *Ledger) LeaveAll(ctx context.Context, name string) error {
	return l.leave(ctx, name, func(tx pgx.Tx) error {
		ids, err := ints(ctx, tx, `SELECT id FROM subscriptions s WHERE name = $1 AND NOT EXISTS (SELECT FROM moves m WHERE m.subscription = s.name)
			AND NOT EXISTS (SELECT FROM deciders d WHERE d.counts_until > now() AND d.decides ? s.name) ORDER BY id`, name)
		for _, id := range ids {
			if err == nil {
				err = leaveOthers(ctx, tx, &liveWindows{subscription: id}, []string{})
			}
		}
		return err
	})
}

func (l *Ledger) leave(ctx context.Context, name string, f func(pgx.Tx) error) error {
	if err := l.transact(ctx, f); err != nil {
		return pg.Unavailable("leave topics of "+name, err)
	}
	return nil
}

// leaveOthers marks the topics of a subscription that are none of these and have no owner as left, and forgets copies that are void.
func leaveOthers(ctx context.Context, tx pgx.Tx, windows *liveWindows, topics []string) error {
	void, err := ints(ctx, tx, copiesVoid, windows.subscription)
	if err != nil {
		return err
	}
	if err := forgetHandedOver(ctx, tx, void); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, topicsGone, windows.subscription, topics, leftAfter)
	if err != nil {
		return err
	}
	gone, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	for _, id := range gone {
		if err == nil {
			err = leaveTopic(ctx, tx, windows, id)
		}
	}
	return err
}

// leaveTopic writes what the last owners of a topic's partitions left to the next claim, version lines and lane_low, and marks the topic as
// left.
func leaveTopic(ctx context.Context, tx pgx.Tx, windows *liveWindows, topicID [16]byte) error {
	fences, err := ints(ctx, tx, `SELECT id FROM fences WHERE subscription = $1 AND topic_id = $2 ORDER BY id FOR UPDATE`, windows.subscription, topicID)
	if err != nil {
		return err
	}
	win, err := windows.read(ctx, tx) // under the lock: an owner may have written into a window that was opened meanwhile
	if err != nil {
		return err
	}
	for _, fence := range fences {
		if err := foldLines(ctx, tx, fence); err != nil {
			return err
		}
		if err := markLow(ctx, tx, win, fence); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `UPDATE topics SET left_at = now() WHERE subscription = $1 AND topic_id = $2`, windows.subscription, topicID)
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
		err = exactly(tx.Exec(ctx, `UPDATE progress SET lane_low = greatest(lane_low, $2) WHERE fence = $1`, fence, c.marks.Low))
	}
	return err
}
