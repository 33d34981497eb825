package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Subscription is a running consumer: one member of its Kafka group, with the partitions that the group gives it.
//
// It has two Kafka clients, see member and fetcher: one that only belongs to the group, one that only reads.
type Subscription struct {
	cfg     Config
	metrics *metrics
	status  *status
	pulse   *pulse
	broker  *broker     // set by Run, before the pulse runs
	group   *kgo.Client // as well

	mu   sync.Mutex
	loop *loop // nil while nothing runs
}

// New checks cfg. Nothing starts before [Subscription.Run].
func New(cfg Config) (*Subscription, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "subscription "+cfg.Group, "%w", err)
	}
	ms, err := newMetrics(cfg.Registerer, cfg.Group)
	if err != nil {
		return nil, fmt.Errorf("metrics of subscription %s: %w", cfg.Group, err)
	}
	s := &Subscription{cfg: cfg, metrics: ms, status: newStatus(ms)}
	s.pulse = newPulse(cfg.SessionTimeout, cfg.HeartbeatInterval, s.beat)
	return s, nil
}

// beat is the pulse's heartbeat. The group may have gone on to a generation that this member has joined, while what the rebalance
// takes from it is still being drained: assigned tells of it only afterwards. Then the newest generation counts.
func (s *Subscription) beat(ctx context.Context, at session) error {
	err := s.broker.heartbeat(ctx, at)
	if !errors.Is(err, kerr.IllegalGeneration) {
		return err
	}
	id, generation := s.group.GroupMetadata()
	if id != at.member || generation <= at.generation {
		return err
	}
	at.generation = generation
	return s.broker.heartbeat(ctx, at)
}

// Ready is nil when the subscription works: its begin is stored and its group is joined. Otherwise it says what is
// missing. Partitions that do not run are told by [Subscription.Partitions].
func (s *Subscription) Ready() error { return s.status.ready() }

// Partitions are the assigned partitions and how they are.
func (s *Subscription) Partitions() []PartitionState { return s.status.partitions() }

// Alive is an [Alive] function: the group has confirmed this member within the session timeout.
func (s *Subscription) Alive() bool { return s.pulse.Alive() }

// Fenced tells the subscription that c's fence was found lost, by lanes that recorded a result. The claim is dropped and
// made anew if the partition is still assigned. It does not wait, and may be called from within the Lanes.
func (s *Subscription) Fenced(c *ledger.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop != nil {
		s.loop.fenced(c)
	}
}

// Run works until ctx is done, then drains within the drain timeout: it stops reading, finishes the batch, closes the lanes,
// mirrors the positions, releases the fences and leaves the group. What hangs is cut off then, and Run returns within three
// seconds. Whatever goes wrong before that is tried
// again and shown by Ready. Run may be called once.
func (s *Subscription) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run is Run with one pair of clients. It ends early where a topic was created again: a client holds on to the id that
// it first saw.
func (s *Subscription) run(ctx context.Context) error {
	options, err := fetchOptions(s.cfg)
	if err != nil {
		return fmt.Errorf("subscription %s: %w", s.cfg.Group, err)
	}
	// What the last steps live by, and the clients, which would wait for brokers even while they are closed.
	cleaning, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	reader, err := kgo.NewClient(append(options, kgo.WithContext(cleaning))...)
	if err != nil {
		return fmt.Errorf("subscription %s: %w", s.cfg.Group, err)
	}
	defer reader.Close()
	s.broker = newBroker(reader, s.cfg.Group)
	known, ok := s.start(ctx)
	if !ok {
		return nil
	}
	ctx, renew := context.WithCancelCause(ctx)
	defer renew(nil)
	stopping := context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.DrainTimeout, func() { cut(errTooSlow) }) })
	defer stopping()
	return s.work(ctx, cleaning, reader, known, renew)
}

// known is what the start found out about the topics.
type known struct {
	ids   map[string]ledger.TopicID // as the clients see them
	begin map[ledger.Partition]int64
}

// errRenew is why clients are given up: a topic has another id than they know.
var errRenew = errors.New("a topic was created again; its clients are made anew")

// work runs from joining the group to leaving it.
func (s *Subscription) work(ctx, cleaning context.Context, reader *kgo.Client, k known, renew context.CancelCauseFunc) error {
	// The parts outlive ctx: they are needed to drain. stop ends them.
	parts, stop := context.WithCancel(context.Background())
	defer stop()
	mir := newMirror(s.cfg, s.metrics)
	fetch := newFetcher(reader, s.cfg, func(err error) {
		s.metrics.fetchErrs.Inc()
		s.cfg.Logger.Warn("reading", "error", err)
	})
	fetch.chunks, fetch.count = s.broker.chunks, s.broker.count
	l := newLoop(parts, s.cfg, fetch, mir, s.broker, s.metrics)
	own := &owner{cfg: s.cfg, log: s.cfg.Logger, loop: l, mirror: mir, broker: s.broker, pulse: s.pulse,
		status: s.status, metrics: s.metrics, known: k, renew: renew, copies: newCopier(s.cfg, s.broker, s.metrics), parts: map[topicPartition]*assignment{}}
	own.cleaning = cleaning
	callbacks := &gated{to: own, ready: make(chan struct{})}
	client, err := kgo.NewClient(append(groupOptions(s.cfg, callbacks), kgo.WithContext(cleaning))...)
	if err != nil {
		return fmt.Errorf("subscription %s: %w", s.cfg.Group, err)
	}
	mir.cl, s.group = client, client
	in := &member{cl: client, log: s.cfg.Logger}

	var running sync.WaitGroup
	running.Go(func() { fetch.run(parts) })
	running.Go(func() { l.run() })
	running.Go(func() { mir.run(parts) })
	running.Go(func() { s.pulse.run(parts) })
	running.Go(func() { in.drain(parts, s.noted) })
	s.setLoop(l)
	callbacks.open()

	<-ctx.Done()
	s.cfg.Logger.Info("stopping", "reason", context.Cause(ctx))
	s.status.start(errors.New("stopping"))
	own.close()
	in.leave(cleaning)
	s.pulse.lost()
	s.status.leave()
	s.setLoop(nil)
	stop()
	running.Wait()
	return nil
}

func (s *Subscription) setLoop(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop = l
}

// noted takes kgo's notes about the group, which it retries by itself.
func (s *Subscription) noted(err error) {
	if errors.Is(err, kerr.FencedInstanceID) {
		err = fmt.Errorf("another process has joined with this one's instance id %s: give each its own kafka.instance_id and restart them: %w",
			s.cfg.InstanceID, err)
	}
	s.status.note(err)
	s.cfg.Logger.Warn("group", "error", err)
}

// start stores where the subscription begins, before the group is joined. It tries until ctx is done.
func (s *Subscription) start(ctx context.Context) (known, bool) {
	var wait backoff
	for ctx.Err() == nil {
		tctx, cancel := context.WithTimeout(ctx, claimTimeout)
		k, err := s.begin(tctx)
		cancel()
		if err == nil {
			s.status.start(nil)
			return k, true
		}
		if ctx.Err() == nil {
			s.status.start(err)
			s.cfg.Logger.Warn("not started yet; trying again", "error", err)
			wait.sleep(ctx)
		}
	}
	return known{}, false
}

// begin resolves the begin of a new subscription to explicit offsets, once: who stores first wins, and later starts
// read back what was stored. A topic that the subscription takes up later begins as asked too if it was there before,
// and at 0 if it is younger than the subscription.
func (s *Subscription) begin(ctx context.Context) (known, error) {
	k := known{ids: map[string]ledger.TopicID{}, begin: map[ledger.Partition]int64{}}
	for _, name := range s.cfg.Topics {
		t, err := s.broker.topic(ctx, name)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return k, schemas.Errorf(schemas.NotFound, "start subscription "+s.cfg.Group,
				"topic %s does not exist: run `forebay topics apply`", name)
		} else if err != nil {
			return k, err
		}
		k.ids[name] = t.id
	}
	began, err := s.cfg.Ledger.Began(ctx)
	if err != nil {
		return k, fmt.Errorf("read the begin of %s: %w", s.cfg.Group, err)
	}
	if !began.IsZero() {
		if k.begin, err = s.cfg.Ledger.Begin(ctx, nil); err != nil {
			return k, fmt.Errorf("read the begin of %s: %w", s.cfg.Group, err)
		}
	}
	offsets, err := s.missingBegins(ctx, k.begin, began)
	if err != nil || len(offsets) == 0 && !began.IsZero() {
		return k, err
	}
	if k.begin, err = s.cfg.Ledger.Begin(ctx, offsets); err != nil {
		return k, fmt.Errorf("store the begin of %s: %w", s.cfg.Group, err)
	}
	s.cfg.Logger.Info("begins", "at", s.cfg.Begin.String(), "partitions", len(offsets))
	return k, nil
}

// beginSkew is how far the database's clock, which says when a subscription began, and the brokers' may lie apart.
const beginSkew = 5 * time.Minute

// missingBegins resolves the begin for the topics that have none stored: all of them for a new subscription; of one
// that has begun, those that have records from before, for a topic that is added to a subscription that begins now
// must not bring a week of history. A topic that was created again begins at 0, once that is accepted.
func (s *Subscription) missingBegins(ctx context.Context, stored map[ledger.Partition]int64, began time.Time) (map[ledger.Partition]int64, error) {
	known := map[string]bool{}
	for p := range stored {
		known[p.Topic] = true
	}
	offsets := map[ledger.Partition]int64{}
	for _, name := range s.cfg.Topics {
		if known[name] {
			continue
		}
		if !began.IsZero() {
			older, err := s.broker.hasBefore(ctx, name, began.Add(-beginSkew))
			if err != nil {
				return nil, err
			}
			if !older {
				continue
			}
		}
		of, err := s.broker.resolve(ctx, name, s.cfg.Begin)
		if err != nil {
			return nil, err
		}
		maps.Copy(offsets, of)
	}
	return offsets, nil
}
