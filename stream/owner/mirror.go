package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// mirror copies the ledger's positions to the group's commits, for lag tools and as the place where an operator's seek
// shows. It is behind the ledger by nature: a commit that fails is only logged, and goes again with the next round, as
// a partition may be idle from then on.
//
// Commits go out through the group client with its own member id and generation, each with its [marker]. A position goes
// out only under the member id that its claim was made under: a process that was expelled and comes back is another
// member, and while the group was empty an operator may have moved it. One runs at a time; of what is dropped before kgo
// has put a member and its generation on a commit, nothing goes out, and later the coordinator refuses that generation as
// soon as it means something else.
type mirror struct {
	cl         *kgo.Client // the group client; set before run
	namespace  string
	generation int32
	interval   time.Duration
	log        *slog.Logger
	metrics    *metrics

	sending chan struct{} // capacity 1, never closed: a lock that is held over a commit; above mu
	mu      sync.Mutex
	dirty   map[reader.TopicPartition]mirrored
	newest  map[reader.TopicPartition]mirrored // the last position noted, until the partition is dropped
}

type mirrored struct {
	id     ledger.TopicID
	at     ledger.Position
	member string // that claimed the partition
}

func newMirror(cfg Config, ms *metrics) *mirror {
	return &mirror{namespace: cfg.Group, generation: cfg.Generation, interval: cfg.MirrorInterval, log: cfg.Logger,
		metrics: ms, sending: make(chan struct{}, 1), dirty: map[reader.TopicPartition]mirrored{}, newest: map[reader.TopicPartition]mirrored{}}
}

// set notes a position, to be committed with the next round.
func (m *mirror) set(tp reader.TopicPartition, at mirrored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty[tp] = at
	m.newest[tp] = at
}

// drop forgets a partition: its position is not ours to commit any more.
func (m *mirror) drop(tp reader.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dirty, tp)
	delete(m.newest, tp)
}

// keepForRetry notes what was not committed, except where a newer position is known or the partition was dropped meanwhile.
func (m *mirror) keepForRetry(batch map[reader.TopicPartition]mirrored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tp, at := range batch {
		if m.newest[tp] == at {
			m.dirty[tp] = at
		}
	}
}

// lock waits for the commit under way, no longer than ctx: brokers may not answer it.
func (m *mirror) lock(ctx context.Context) error {
	select {
	case m.sending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the commit under way: %w", context.Cause(ctx))
	}
}

func (m *mirror) unlock() { <-m.sending }

// commit commits a position now and forgets what was noted for the partition.
func (m *mirror) commit(ctx context.Context, tp reader.TopicPartition, at mirrored) error {
	if err := m.lock(ctx); err != nil {
		m.drop(tp)
		return err
	}
	defer m.unlock()
	m.take(tp, at)
	defer m.drop(tp)
	return m.send(ctx, map[reader.TopicPartition]mirrored{tp: at})
}

// take notes a position that is committed now.
func (m *mirror) take(tp reader.TopicPartition, at mirrored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dirty, tp)
	m.newest[tp] = at
}

// ours reports whether a position may go out as member: its claim has not been dropped, and is that member's.
func (m *mirror) ours(tp reader.TopicPartition, at mirrored, member string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, noted := m.newest[tp]
	return noted && now.member == at.member && at.member == member
}

// run commits what was noted, every interval, until ctx is done.
func (m *mirror) run(ctx context.Context) {
	tick := time.NewTicker(m.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.flush(ctx)
		}
	}
}

func (m *mirror) flush(ctx context.Context) {
	if m.lock(ctx) != nil {
		return
	}
	defer m.unlock()
	m.mu.Lock()
	batch := m.dirty
	m.dirty = make(map[reader.TopicPartition]mirrored, len(batch))
	m.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := m.send(ctx, batch); err != nil && !errors.Is(err, context.Canceled) {
		m.keepForRetry(batch)
		m.log.Warn("positions not mirrored to kafka", "partitions", len(batch), "error", err)
	}
}

func (m *mirror) send(ctx context.Context, batch map[reader.TopicPartition]mirrored) (err error) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for tp, at := range batch {
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Number] = kgo.EpochOffset{Epoch: at.at.LeaderEpoch, Offset: at.at.Offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		return m.mark(req, batch)
	})
	m.cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
		err = commitError(resp, failed)
	})
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.metrics.mirrors.WithLabelValues(result).Inc()
	return err
}

// mark gives each position its marker, and takes out those that are not ours. kgo calls it with the request as
// it goes out, and joins no group before the answer: the member in it is the one that the coordinator will judge.
func (m *mirror) mark(req *kmsg.OffsetCommitRequest, batch map[reader.TopicPartition]mirrored) error {
	ours := 0
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
			tp := reader.TopicPartition{Topic: t.Topic, Number: p.Partition}
			return !m.ours(tp, batch[tp], req.MemberID)
		})
		ours += len(t.Partitions)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			at := batch[reader.TopicPartition{Topic: t.Topic, Number: p.Partition}]
			text := marker{namespace: m.namespace, generation: m.generation, topic: at.id, offset: p.Offset}.String()
			p.Metadata = &text
		}
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
	if ours == 0 {
		return fmt.Errorf("commit as %s: %w: the claims have ended, or were another's", req.MemberID, errNotMember)
	}
	return nil
}

func commitError(resp *kmsg.OffsetCommitResponse, failed error) error {
	if failed != nil || resp == nil {
		return failed
	}
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("commit of %s/%d: %w", t.Topic, p.Partition, err))
			}
		}
	}
	return errors.Join(errs...)
}
