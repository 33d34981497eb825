package subscriber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// queueForRow is how long a statement may wait for a row, beyond the time of the transaction that has it.
const queueForRow = 10 * time.Second

// claimUntilDone claims a partition for this member: whoever had it before writes nothing from then on. It tries again until it has it, ctx
// ends, or another try would fail, too.
func (m *session) claimUntilDone(ctx context.Context, at place, committed int64) (*worker, error) {
	for wait := firstPause; ; wait = longer(wait) {
		w, err := m.claim(ctx, at, committed)
		if err == nil {
			return w, nil
		}
		if hopeless(err) {
			m.fail(withAdvice(err))
			return nil, err
		}
		m.Logger.Warn("partition not claimed; trying again", "topic", at.topic, "partition", at.partition, "error", err)
		if !pause(ctx.Done(), wait) {
			return nil, context.Cause(ctx)
		}
	}
}

var (
	errFenced         = errors.New("fenced")
	errTopicRecreated = errors.New("the topic was deleted and created again, so its offsets mean other events")
)

// claim takes the next epoch of a position, and stores where it begins if it is new. It waits for a transaction that holds the row.
func (m *session) claim(ctx context.Context, at place, committed int64) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout+queueForRow)
	defer cancel()
	id, err := m.topicID(ctx, at.topic)
	if err != nil {
		return nil, err
	}
	w := newWorker(m, at)
	var stored []byte
	const advance = `UPDATE forebay_positions SET epoch = epoch + 1 WHERE consumer_group = $1 AND topic = $2 AND partition = $3
		RETURNING epoch, next_offset, topic_id, CASE WHEN leader_epoch_of = next_offset THEN leader_epoch ELSE -1 END`
	err = m.Pool.QueryRow(ctx, advance, m.Group, at.topic, at.partition).Scan(&w.epoch, &w.next, &stored, &w.readIn)
	if errors.Is(err, pgx.ErrNoRows) {
		var begin int64
		if begin, err = m.begin(ctx, at, id, committed); err != nil {
			return nil, err
		}
		err = m.Pool.QueryRow(ctx, `INSERT INTO forebay_positions (consumer_group, topic, partition, topic_id, epoch, next_offset)
			VALUES ($1, $2, $3, $4, 1, $5) ON CONFLICT (consumer_group, topic, partition) DO UPDATE SET epoch = forebay_positions.epoch + 1
			RETURNING epoch, next_offset, topic_id`, m.Group, at.topic, at.partition, id[:], begin).Scan(&w.epoch, &w.next, &stored)
	}
	if err != nil {
		return nil, fmt.Errorf("claim %s in forebay_positions: %w", at, err)
	}
	if string(stored) != string(id[:]) {
		return nil, fmt.Errorf("%w (%s, group %s)", errTopicRecreated, at.topic, m.Group)
	}
	w.sent = w.next
	return w, nil
}
