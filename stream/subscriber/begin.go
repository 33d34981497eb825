package subscriber

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// firstStarts notes where the group begins in each topic, once for all of its members and restarts. It is asked before the group is joined:
// a partition or a topic that comes later has no end there, and is read from its start. It tries until it is done.
func (m *session) firstStarts(ctx context.Context) error {
	for _, topic := range m.Topics {
		for wait := firstPause; ; wait = longer(wait) {
			err := m.firstStart(ctx, topic)
			if err == nil {
				break
			}
			if hopeless(err) {
				return withAdvice(err)
			}
			m.Logger.Warn("not begun; trying again", "group", m.Group, "topic", topic, "error", err)
			if !pause(ctx.Done(), wait) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// firstStart writes a topic's row of forebay_begins, if there is none: with BeginNow it has the ends of the partitions that exist.
func (m *session) firstStart(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout+queueForRow)
	defer cancel()
	if _, _, err := m.begun(ctx, topic); !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	id, err := m.topicID(ctx, topic)
	ends := []int64{}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition): // all of it comes later
	case err != nil:
		return err
	case m.Begin == BeginNow:
		if ends, err = offsetsOf(ctx, m.adm.ListCommittedOffsets, topic); err != nil {
			return err
		}
	}
	_, err = m.Pool.Exec(ctx, `INSERT INTO forebay_begins (consumer_group, topic, topic_id, ends) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		m.Group, topic, id[:], ends)
	if err != nil {
		return fmt.Errorf("write where %s begins in %s to forebay_begins: %w", m.Group, topic, err)
	}
	return nil
}

// begun is what firstStart has noted; pgx.ErrNoRows if nothing.
func (m *session) begun(ctx context.Context, topic string) (id kadm.TopicID, ends []int64, err error) {
	var stored []byte
	err = m.Pool.QueryRow(ctx, `SELECT topic_id, ends FROM forebay_begins WHERE consumer_group = $1 AND topic = $2`, m.Group, topic).Scan(&stored, &ends)
	if err != nil {
		return id, nil, fmt.Errorf("read where %s begins in %s from forebay_begins: %w", m.Group, topic, err)
	}
	copy(id[:], stored)
	return id, ends, nil
}

// begin is where a partition begins for which the group has no position in Postgres. A commit in Kafka to a topic that is not the one of the
// first start may mean the offsets of that one.
func (m *session) begin(ctx context.Context, at place, id kadm.TopicID, committed int64) (int64, error) {
	first, ends, err := m.begun(ctx, at.topic)
	switch {
	case err != nil:
		return 0, err
	case first == id && committed >= 0:
		return committed, nil
	case first == id && int(at.partition) < len(ends):
		return ends[at.partition], nil
	}
	return offsetOf(ctx, m.adm.ListStartOffsets, at)
}

// topicID asks Kafka for a topic's id.
func (m *session) topicID(ctx context.Context, topic string) (kadm.TopicID, error) {
	topics, err := m.adm.ListTopics(ctx, topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return kadm.TopicID{}, fmt.Errorf("read metadata of %s: %w", topic, err)
	}
	return topics[topic].ID, nil
}

// lister lists an offset of every partition of topics.
type lister = func(context.Context, ...string) (kadm.ListedOffsets, error)

// offsetOf is one partition's of what list lists.
func offsetOf(ctx context.Context, list lister, at place) (int64, error) {
	listed, err := list(ctx, at.topic)
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s: %w", at.topic, err)
	}
	o, ok := listed.Lookup(at.topic, at.partition)
	if !ok {
		return 0, fmt.Errorf("list offsets of %s: Kafka did not answer for it", at)
	}
	if o.Err != nil {
		return 0, fmt.Errorf("list offsets of %s: %w", at, o.Err)
	}
	return o.Offset, nil
}

// offsetsOf is what list lists of all partitions, in their order.
func offsetsOf(ctx context.Context, list lister, topic string) ([]int64, error) {
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	all := make([]int64, len(listed[topic]))
	for partition := range all {
		o, ok := listed.Lookup(topic, int32(partition))
		if !ok {
			return nil, fmt.Errorf("list offsets of %s: Kafka answered for %d partitions, and not for %d", topic, len(all), partition)
		}
		all[partition] = o.Offset
	}
	return all, nil
}
