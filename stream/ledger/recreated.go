package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// A topic that was created again has another id. Positions and version lines of the old topic mean nothing in it. What is
// open, dead, parked, waiting or held goes on: the first claim of a partition makes its old fence that of the new topic's
// partition of the same number, with all that belongs to the fence. New actions come behind the old ones. All of it is part of the claim's
// transaction (claim.go).
//
//	read    the ids that the subscription has read, an accepted stop, a hand-over; what is open or waits in the former topic
//	decide  whether the topic is taken over, or the claim refused (adoptRecreatedTopic)
//	lock    the former fence of the partition (inherit)
//	write   the topic's id; the fence as that of the new topic's partition, its position 0, without version lines (startAtZero)

// adoptRecreatedTopic makes a topic that was created again, so that its id is not the one on record, the topic that the subscription reads:
//
//   - not if the id is one that the subscription has read before: then a broker is behind. The error is of kind Unavailable.
//   - at once if the subscription was handed over to it as a copy: the hand-over took along what goes on.
//   - if an operator has accepted the stop that says so, or another stop of the new topic has taken its place since: its log may start above 0.
//   - Otherwise the error is e, completed by what is open, waits and was read in the former topic.
func (t *claimTx) adoptRecreatedTopic(ctx context.Context, e *TopicError) error {
	var readBefore, accepted, handedOver bool
	err := t.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM fences WHERE subscription = $1 AND (topic_id = $3 AND epoch > 0 OR former = $3)), -- epoch 0: made by a hand-over, never claimed
		EXISTS (SELECT FROM stops WHERE subscription = $1 AND topic = $2 AND topic_id = $3 AND (kind <> $4 OR accepted_at IS NOT NULL) AND ended_at IS NULL),
		EXISTS (SELECT FROM fences WHERE subscription = $1 AND topic_id = $3 AND copy_of IS NOT NULL)`,
		t.n.id, e.Topic, [16]byte(e.ID), recreated).Scan(&readBefore, &accepted, &handedOver)
	switch {
	case err != nil:
		return err
	case readBefore:
		// Brokers do not learn of a new topic all at once.
		return schemas.Errorf(schemas.Unavailable, t.op, "a broker still gives topic %s its former id %x", e.Topic, e.ID[:])
	case handedOver:
		return t.adoptTopic(ctx, e)
	}
	if err := t.countOpen(ctx, e); err != nil {
		return err
	}
	if accepted {
		return t.adoptTopic(ctx, e)
	}
	if e.Next, e.ProcessedAt, err = t.formerPosition(ctx, e.Known); err != nil {
		return err
	}
	return &schemas.Error{Kind: schemas.Conflict, Op: t.op, Err: e}
}

// adoptTopic makes the topic of e the one that the subscription reads under its name.
func (t *claimTx) adoptTopic(ctx context.Context, e *TopicError) error {
	return exactly(t.tx.Exec(ctx, `UPDATE topics SET topic_id = $3, partitions = $4, seen_at = now(), left_at = NULL WHERE subscription = $1 AND topic = $2`,
		t.n.id, e.Topic, [16]byte(e.ID), t.req.Partitions))
}

// countOpen sets in e how many actions are open and how many events wait in the partition. It refuses a topic with fewer partitions than
// the former one if a missing partition still has some. Of each partition, the fence that was claimed last counts.
func (t *claimTx) countOpen(ctx context.Context, e *TopicError) error {
	win, err := t.n.windows.read(ctx, t.tx)
	if err != nil {
		return err
	}
	var lost, waits int64
	err = t.tx.QueryRow(ctx, win.own(`SELECT coalesce(sum(open) FILTER (WHERE partition = $3), 0)::bigint, coalesce(sum(waits) FILTER (WHERE partition = $3), 0)::bigint,
		coalesce(sum(open) FILTER (WHERE partition >= $4), 0)::bigint, coalesce(sum(waits) FILTER (WHERE partition >= $4), 0)::bigint
		FROM (SELECT f.partition, `+OpenCount+` + `+TriedCount+` AS open, `+WaitCount+` AS waits FROM fences f JOIN progress p ON p.fence = f.id
		      WHERE f.subscription = $1 AND f.topic = $2 AND (f.partition = $3 OR f.partition >= $4) AND f.epoch > 0 AND NOT EXISTS (SELECT FROM fences u
		          WHERE u.subscription = f.subscription AND u.topic = f.topic AND u.partition = f.partition AND u.epoch > 0 AND u.id > f.id)) o`),
		t.n.id, e.Topic, t.req.Partition.Number, t.req.Partitions).Scan(&e.Open, &e.Waiting, &lost, &waits)
	if err == nil && lost+waits > 0 {
		return schemas.Errorf(schemas.Conflict, t.op, "topic %s was created again with %d partitions, it had %d, and those that are missing hold %d actions "+
			"that are open and %d events that wait: give it %d (kafka-topics --alter --topic %s --partitions %d), then they go on",
			e.Topic, e.Partitions, e.KnownPartitions, lost, waits, e.KnownPartitions, e.Topic, e.KnownPartitions)
	}
	return err
}

// formerPosition returns the next offset of the partition in the former topic, -1 if it was never claimed, and the append time up to which
// it was processed.
func (t *claimTx) formerPosition(ctx context.Context, id TopicID) (next int64, at time.Time, err error) {
	var fence int32
	err = t.tx.QueryRow(ctx, `SELECT f.id, p.next_offset FROM fences f JOIN progress p ON p.fence = f.id
		WHERE f.subscription = $1 AND f.topic_id = $2 AND f.partition = $3`, t.n.id, [16]byte(id), t.req.Partition.Number).Scan(&fence, &next)
	if errors.Is(err, pgx.ErrNoRows) {
		return -1, at, nil
	}
	if err == nil {
		_, at, err = processed(ctx, t.tx, fence)
	}
	return next, at, err
}

// inherit is for a topic that was deleted and created again, with another id. If the partition has no fence yet, it gets the fence that
// its namesake had (former), and inherit returns true. Actions of before (below lanes_from) keep their pointers into the former topic,
// and so do rejected records, which are below the offset places; see claimState. A fence of epoch 0 was never claimed and has neither.
func (t *claimTx) inherit(ctx context.Context) (bool, error) {
	p := t.c.Partition
	var fence int32
	err := t.tx.QueryRow(ctx, `SELECT id FROM fences WHERE subscription = $1 AND topic = $2 AND partition = $3 AND topic_id <> $4 AND epoch > 0
		AND NOT EXISTS (SELECT FROM fences WHERE subscription = $1 AND topic_id = $4 AND partition = $3)
		ORDER BY id DESC LIMIT 1 FOR UPDATE`, t.n.id, p.Topic, p.Number, [16]byte(p.TopicID)).Scan(&fence)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = exactly(t.tx.Exec(ctx, `UPDATE fences f SET topic_id = $2, former = f.topic_id, lanes_from = p.next_lane_seq, places = greatest(f.places, p.high_offset)
			FROM progress p WHERE f.id = $1 AND p.fence = f.id`, fence, [16]byte(p.TopicID)))
	}
	return err == nil, err
}

// startAtZero resets the position of an inherited fence and deletes its version lines, except those on which events wait.
// These events get offsets outside of the log.
func (t *claimTx) startAtZero(ctx context.Context) error {
	tx, c := t.tx, t.c
	if err := tx.Unbounded(ctx); err != nil {
		return err
	}
	if err := foldLines(ctx, tx, c.ID); err != nil {
		return err
	}
	if err := moveOutOfLog(ctx, tx, c, 0); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM version_lines l WHERE fence = $1 AND NOT EXISTS (
		SELECT FROM buffer b WHERE b.fence = l.fence AND b.entity = l.entity AND b.clock = l.clock AND b.decision <> 'held')`, c.ID)
	if err != nil {
		return err
	}
	return exactly(tx.Exec(ctx, `UPDATE progress SET next_offset = 0, high_offset = 0, leader_epoch = -1, processed_at = '-infinity' WHERE fence = $1`, c.ID))
}

// usedPlaces is one above the highest offset below a claim's places that has a rejected record; 0: none. Plan: the end of
// one index range per window.
const usedPlaces = `-- placesTaken
SELECT coalesce((SELECT log_offset + 1 FROM {rejected_records} d WHERE fence = $1 AND log_offset >= 0 AND log_offset < $2 ORDER BY log_offset DESC LIMIT 1), 0)`

// lowerPlaces lowers c.rejectedBelow to what the former topic's rejected records that still exist need: filtered ones, until their window is
// dropped. Below that offset, each batch looks for rejected records that it replaces.
func lowerPlaces(ctx context.Context, from querier, win *windowSet, c *Claim) error {
	if c.rejectedBelow == 0 {
		return nil
	}
	return from.QueryRow(ctx, win.own(usedPlaces), c.ID, c.rejectedBelow).Scan(&c.rejectedBelow)
}

// TopicAtLaneSeq returns Claim.topicOf as an expression in SQL, for a fence f and a lane_seq.
func TopicAtLaneSeq(laneSeq string) string {
	return fmt.Sprintf(`CASE WHEN %s < f.lanes_from THEN coalesce(f.former, f.topic_id) ELSE f.topic_id END AS topic_id`, laneSeq)
}
