package subscriber

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// SQL creates the tables where they are missing. Run it with the migrations of the team's own tables.
//
//go:embed schema.sql
var SQL string

// Subscriber is one member of a group.
type Subscriber struct {
	cfg Config
}

// New checks the configuration. Nothing is connected before [Subscriber.Run].
func New(c Config) (*Subscriber, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: c}, nil
}

// rejoinAfter is how long a member waits before it joins its group again after it lost a position to another.
const rejoinAfter = time.Second

// Run reads records and decides their events until ctx ends, and returns nil then: transactions that have begun are ended first. Beside, it
// prunes the ledger. Any other return is an error that waiting does not mend.
func (s *Subscriber) Run(ctx context.Context) error {
	pruned := make(chan struct{}) // closed when pruning the ledger has ended
	pruning, stop := context.WithCancel(ctx)
	go func() { defer close(pruned); s.prune(pruning) }()
	defer func() { stop(); <-pruned }()
	for {
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errFenced):
			s.cfg.Logger.Warn("another member has claimed a partition of this one, or its position was changed: joining the group again",
				"group", s.cfg.Group, "error", err)
		case errors.Is(err, kerr.UnknownTopicID):
			s.cfg.Logger.Warn("a topic was deleted: joining the group again", "group", s.cfg.Group, "error", err)
		default:
			return err
		}
		if !pause(ctx.Done(), rejoinAfter) {
			return nil
		}
	}
}

// pause waits, and reports whether it was not ended by done.
func pause(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return false
	case <-t.C:
		return true
	}
}

// session is one membership of the group, from joining to leaving.
type session struct {
	Config
	client *kgo.Client
	adm    *kadm.Client
	ready  chan struct{}           // closed when client and adm are set: the client calls back as soon as it exists
	fail   context.CancelCauseFunc // ends the session

	mu      sync.Mutex
	workers map[place]*worker // of the partitions that this member has
}

type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// session joins the group and reads until ctx ends, or until it cannot go on, which its error says.
func (s *Subscriber) session(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m := &session{Config: s.cfg, ready: make(chan struct{}), fail: fail, workers: map[place]*worker{}}
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, s.cfg.Kafka...),
		kgo.ConsumerGroup(s.cfg.Group), kgo.ConsumeTopics(s.cfg.Topics...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), // they have offsets, too
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // nothing is skipped silently
		kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost))...)
	if err != nil {
		return fmt.Errorf("subscriber: client for Kafka: %w", err)
	}
	m.client, m.adm = client, kadm.NewClient(client)
	defer m.leave()
	err = m.firstStarts(ctx)
	close(m.ready)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 10*m.Batch)
		if ctx.Err() == nil {
			m.handOver(fetches)
		}
		client.AllowRebalance()
	}
	return context.Cause(ctx)
}

// leave leaves the group, which ends the workers and mirrors how far they have come.
func (m *session) leave() {
	m.client.CloseAllowingRebalance()
	all := map[string][]int32{} // those of an assignment that came while the client was closing
	m.mu.Lock()
	for at := range m.workers {
		all[at.topic] = append(all[at.topic], at.partition)
	}
	m.mu.Unlock()
	m.lost(context.Background(), nil, all)
}

// handOver gives what was read to the workers.
func (m *session) handOver(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		at := place{p.Topic, p.Partition}
		switch err := p.Err; {
		case err == nil:
		case errors.Is(err, kerr.UnknownTopicID): // this client will not read it again; who joins later learns whether it was created again
			m.fail(fmt.Errorf("read %s: %w", at, err))
		case hopeless(err):
			m.fail(withAdvice(fmt.Errorf("read %s: %w", at, err)))
		default:
			m.Logger.Warn("reading fails; trying again", "topic", p.Topic, "partition", p.Partition, "error", err)
		}
		m.mu.Lock()
		w := m.workers[at]
		m.mu.Unlock()
		if w != nil && len(p.Records) > 0 {
			w.add(p.Records)
		}
	})
}

// assigned claims each of the partitions that are new to this member, and replaces its committed offset by the position that was claimed:
// there the client begins. Each claim is tried until it succeeds, or until ctx ends, as it does when the group changes. The workers start
// once all are claimed. After an error those that were claimed stay claimed in the table, and whoever reads them next claims them again.
func (m *session) assigned(ctx context.Context, committed map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-m.ready // the topics' first positions are stored
	var claimed []*worker
	for topic, partitions := range committed {
		for partition, offset := range partitions {
			w, err := m.claimUntilDone(ctx, place{topic, partition}, offset.EpochOffset().Offset)
			if err != nil {
				return nil, err
			}
			partitions[partition] = kgo.NewOffset().At(w.next).WithEpoch(w.readIn) // with the epoch, the client looks whether the log was cut
			claimed = append(claimed, w)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range claimed {
		m.workers[w.place] = w
		go w.run()
	}
	return committed, nil
}

// revoked ends the work on partitions that another member gets, and mirrors how far it has come.
func (m *session) revoked(ctx context.Context, _ *kgo.Client, partitions map[string][]int32) {
	<-m.ready
	m.lost(ctx, nil, partitions)
	if err := m.client.CommitMarkedOffsets(ctx); err != nil {
		m.Logger.Warn("positions not mirrored to Kafka", "group", m.Group, "error", err)
	}
}

// lost ends the work on partitions that another member may have already.
func (m *session) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	var ended []*worker
	m.mu.Lock()
	for topic, all := range partitions {
		for _, partition := range all {
			at := place{topic, partition}
			if w := m.workers[at]; w != nil {
				close(w.quit)
				delete(m.workers, at)
				ended = append(ended, w)
			}
		}
	}
	m.mu.Unlock()
	for _, w := range ended {
		<-w.done
		w.resume() // the client would keep the pause, and fetch nothing when the partition comes back
	}
}

// prune forgets events that were decided longer ago than Dedupe, now and every hour.
func (s *Subscriber) prune(ctx context.Context) {
	const most = 10_000 // rows in one statement
	for {
		for {
			tag, err := s.cfg.Pool.Exec(ctx, `DELETE FROM forebay_events WHERE ctid = ANY(ARRAY(
				SELECT ctid FROM forebay_events WHERE consumer_group = $1 AND record IS NULL AND decided_at < now() - $2::interval LIMIT $3))`,
				s.cfg.Group, s.cfg.Dedupe, most)
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("old events not forgotten; trying again in an hour", "group", s.cfg.Group, "error", err)
			}
			if err != nil || tag.RowsAffected() < most {
				break
			}
		}
		if !pause(ctx.Done(), time.Hour) {
			return
		}
	}
}
