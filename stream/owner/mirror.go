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

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// mirror commits the ledger's positions to the Kafka group: lag tools read them there, and an operator's seek is recognised by them. The
// commits always lag behind the ledger. A commit that fails is logged and made again in the next round, since its partition may be idle
// from then on.
//
// Commits go through the group client with its member id and generation, each with its [marker]. A position is committed only
// under the member id under which its partition was claimed: a process that was expelled and joins again is another member, and
// an operator may have moved the group while it was empty. One commit runs at a time. A position that is dropped before kgo has
// put member id and generation into the request is left out of it; after that, the coordinator refuses the request as soon as it
// has moved on to another generation.
type mirror struct {
	cl         *kgo.Client // the group client; set before run
	namespace  string
	generation int32
	interval   time.Duration
	log        *slog.Logger
	metrics    *metrics

	sending chan struct{} // capacity 1, never closed: a lock that is held during a commit, and taken before mu
	work    chan struct{} // capacity 1, never closed: has a value when something became dirty
	mu      sync.Mutex
	dirty   map[reader.TopicPartition]mirrorPosition // to be committed in the next round
	newest  map[reader.TopicPartition]mirrorPosition // the last position that was set, until the partition is dropped
}

// mirrorPosition is a position to commit.
type mirrorPosition struct {
	id     ledger.TopicID
	at     ledger.Position
	member string // the member id under which the partition was claimed
}

func newMirror(cfg Config, ms *metrics) *mirror {
	return &mirror{namespace: cfg.Group, generation: cfg.Generation, interval: cfg.MirrorInterval, log: cfg.Logger,
		metrics: ms, sending: make(chan struct{}, 1), work: make(chan struct{}, 1), dirty: map[reader.TopicPartition]mirrorPosition{}, newest: map[reader.TopicPartition]mirrorPosition{}}
}

// set has a position committed in the next round.
func (m *mirror) set(tp reader.TopicPartition, at mirrorPosition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(tp, at)
	m.newest[tp] = at
}

// note has a position committed in the next round, and wakes run for it. The caller holds mu.
func (m *mirror) note(tp reader.TopicPartition, at mirrorPosition) {
	m.dirty[tp] = at
	select {
	case m.work <- struct{}{}:
	default:
	}
}

// drop forgets a partition: its position must not be committed any more.
func (m *mirror) drop(tp reader.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dirty, tp)
	delete(m.newest, tp)
}

// keepForRetry has positions whose commit failed committed again in the next round. It leaves out a position if a newer one was set
// meanwhile or the partition was dropped: then newest does not have it.
func (m *mirror) keepForRetry(batch map[reader.TopicPartition]mirrorPosition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tp, at := range batch {
		if m.newest[tp] == at {
			m.note(tp, at)
		}
	}
}

// lock waits until no commit is under way, or until ctx ends: the brokers may not answer.
func (m *mirror) lock(ctx context.Context) error {
	select {
	case m.sending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the commit under way: %w", context.Cause(ctx))
	}
}

func (m *mirror) unlock() { <-m.sending }

// commit commits a position now. Whether that works or not, it drops the partition: nothing is committed for it until the next set.
func (m *mirror) commit(ctx context.Context, tp reader.TopicPartition, at mirrorPosition) error {
	if err := m.lock(ctx); err != nil {
		m.drop(tp)
		return err
	}
	defer m.unlock()
	m.take(tp, at)
	defer m.drop(tp)
	return m.send(ctx, map[reader.TopicPartition]mirrorPosition{tp: at})
}

// take makes a position the partition's newest, which is being committed now: the next round has nothing to commit.
func (m *mirror) take(tp reader.TopicPartition, at mirrorPosition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dirty, tp)
	m.newest[tp] = at
}

// ours reports whether a position may be committed under a member id: the partition was not dropped, and its claim, now and when the
// position was set, was made under that id.
func (m *mirror) ours(tp reader.TopicPartition, at mirrorPosition, member string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest, known := m.newest[tp]
	return known && newest.member == at.member && at.member == member
}

// run commits the positions that were set, at most once an interval, until ctx is done. While none are set it does nothing.
func (m *mirror) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.work:
		}
		if retry.Sleep(ctx, m.interval) != nil {
			return
		}
		m.flush(ctx)
	}
}

// flush commits the positions that were set. If that fails, they are kept for the next round.
func (m *mirror) flush(ctx context.Context) {
	if m.lock(ctx) != nil {
		return
	}
	defer m.unlock()
	m.mu.Lock()
	batch := m.dirty
	m.dirty = make(map[reader.TopicPartition]mirrorPosition, len(batch))
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

// send commits a batch of positions. The caller holds the lock.
func (m *mirror) send(ctx context.Context, batch map[reader.TopicPartition]mirrorPosition) (err error) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for tp, at := range batch {
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Number] = kgo.EpochOffset{Epoch: at.at.LeaderEpoch, Offset: at.at.Offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		return m.addMarkers(req, batch)
	})
	m.cl.CommitOffsetsSync(ctx, offsets, func(cl *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
		err = commitError(cl, req.Group, resp, failed)
	})
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.metrics.mirrors.WithLabelValues(result).Inc()
	return err
}

// addMarkers adds the marker to each position of a request, and removes the positions that are not ours. If none is left, it returns
// errNotMember, and nothing is sent. kgo calls it right before it sends the request, and does not join again before the answer: the
// member id in the request is the one that the coordinator sees.
func (m *mirror) addMarkers(req *kmsg.OffsetCommitRequest, batch map[reader.TopicPartition]mirrorPosition) error {
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

// commitError returns the error of a whole commit or, from its answer, those of single partitions; nil if there is none.
func commitError(cl *kgo.Client, group string, resp *kmsg.OffsetCommitResponse, failed error) error {
	if failed != nil || resp == nil {
		return failed
	}
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				resource := "topic " + t.Topic
				if errors.Is(err, kerr.GroupAuthorizationFailed) {
					resource = "group " + group
				}
				err = record.Lacks(cl, "Read", resource, err)
				errs = append(errs, fmt.Errorf("commit of %s/%d: %w", t.Topic, p.Partition, err))
			}
		}
	}
	return errors.Join(errs...)
}
