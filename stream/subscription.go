package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// Subscription is a consumer: one member of its Kafka group, with the partitions that the group assigns to it.
//
// It has two Kafka clients: one that only belongs to the group (see package owner), one that only reads (see [reader.Reader]).
type Subscription struct {
	cfg     Config
	owner   *owner.Owner
	batches *batch.Metrics
	copies  *reader.Metrics
	exports *deadletter.Metrics

	mu     sync.Mutex
	loop   *batch.Loop // the last one; nil before the first
	paused bool
}

// New makes a subscription. Nothing starts before [Subscription.Run]. The error is of kind Invalid if cfg is invalid; any other says
// that metrics could not be registered.
func New(cfg Config) (*Subscription, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "subscription "+cfg.Group, "%w", err)
	}
	if cfg.Registerer != nil {
		cfg.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"subscription": cfg.Group}, cfg.Registerer)
	}
	s := &Subscription{cfg: cfg}
	var errs [4]error
	s.owner, errs[0] = owner.New(cfg.owner())
	s.batches, errs[1] = batch.NewMetrics(cfg.Registerer)
	s.copies, errs[2] = reader.NewMetrics(cfg.Registerer)
	s.exports, errs[3] = deadletter.NewMetrics(cfg.Registerer)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("metrics of subscription %s: %w", cfg.Group, err)
	}
	return s, nil
}

// Ready returns nil when the subscription works: its begin is stored, its group is joined, and the group confirms this member. Otherwise it says what is
// missing. [Subscription.Partitions] says which partitions do not run.
func (s *Subscription) Ready() error { return s.owner.Ready() }

// Partitions returns the assigned partitions with their states.
func (s *Subscription) Partitions() []owner.PartitionState { return s.owner.Partitions() }

// Alive reports whether this process may still act for its group: the group has confirmed this member within the session
// timeout, by a clock that runs on while the machine is suspended. Lanes ask before every attempt (P6 covers the ledger, not
// the wire).
func (s *Subscription) Alive() bool { return s.owner.Alive() }

// Fenced is called by the lanes when they found c's fence lost. The claim is dropped, and made again if the partition is still
// assigned. Fenced does not block, and may be called from within the Lanes.
func (s *Subscription) Fenced(c *ledger.Claim) { s.owner.Fenced(c) }

// Pause has nothing decided from now on, or again; see [batch.Loop.Pause]. Membership and claims stay. Once it has returned, no decision
// begins while paused, unless ctx ended before. The caller pauses the lanes, too.
func (s *Subscription) Pause(ctx context.Context, paused bool) {
	s.mu.Lock()
	s.paused = paused
	loop := s.loop
	s.mu.Unlock()
	s.cfg.Backfills.Pause(paused)
	if loop != nil {
		loop.Pause(ctx, paused)
	}
}

// newLoop makes the loop of a run, as paused as the subscription is.
func (s *Subscription) newLoop(ctx context.Context, cfg batch.Config) *batch.Loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg.Paused = s.paused
	s.loop = batch.New(ctx, cfg)
	return s.loop
}

// Run works until ctx is done, then drains within the drain timeout: it stops reading, finishes the batch, closes the lanes,
// mirrors the positions, releases the fences and leaves the group. After the drain timeout, whatever still hangs is cancelled, and
// Run returns within three seconds. What fails before that is tried again and shown by Ready; an error is returned only if a client
// cannot be made. Run may be called once.
//
// The lanes must run until Run has returned. They may call [Subscription.Alive] and [Subscription.Fenced] at any time.
func (s *Subscription) Run(ctx context.Context, lanes Lanes) error {
	for ctx.Err() == nil {
		if err := s.run(ctx, lanes); err != nil {
			return fmt.Errorf("subscription %s: %w", s.cfg.Group, err)
		}
	}
	return nil
}

// errRenew is why a run with one pair of Kafka clients ends: a topic has another id than they know.
var errRenew = errors.New("a topic was created again; its clients are made again")

// run is Run with one pair of Kafka clients. It also returns when a topic was created again: a client keeps the topic id that it first
// saw, and the next call makes new clients.
func (s *Subscription) run(ctx context.Context, lanes Lanes) error {
	options, err := reader.ClientOptions(s.cfg.reader(s.readFailed))
	if err != nil {
		return err
	}
	// The context of the last steps, and of the clients: they would wait for brokers even while they are being closed.
	cleaning, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	client, err := kgo.NewClient(append(options, kgo.WithContext(cleaning))...)
	if err != nil {
		return err
	}
	defer client.Close()
	topics, ok := s.owner.Start(ctx, client)
	if !ok {
		return nil
	}
	ctx, renew := context.WithCancelCause(ctx)
	defer renew(nil)
	stopping := context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.DrainTimeout, func() { cut(owner.ErrTooSlow) }) })
	defer stopping()
	return s.runParts(ctx, client, topics, lanes, owner.Work{Lanes: lanes, Cleaning: cleaning, Renew: func() { renew(errRenew) }})
}

// runParts makes the parts and runs them from joining the group to leaving it.
func (s *Subscription) runParts(ctx context.Context, client *kgo.Client, topics owner.Topics, lanes Lanes, w owner.Work) error {
	// Reader, loop and exporter outlive ctx: they are needed to drain. stop ends them.
	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	log := reader.NewLog(client)
	rd := reader.New(client, log, s.cfg.reader(s.readFailed))
	loop := s.cfg.batch(rd, log, lanes, s.batches)
	if s.cfg.Replays != nil {
		loop.Replays = &batch.Replays{Ledger: s.cfg.Replays, Config: s.cfg.Decides, Reader: func() (batch.Reader, error) { return s.replayReader(background, &running) }}
	}
	w.Loop = s.newLoop(background, loop)
	running.Go(func() { rd.Run(background) })
	running.Go(w.Loop.Run)
	if s.cfg.Payloads != nil {
		w.Copier = reader.NewCopier(s.cfg.copier(log, s.copies))
	}
	if s.cfg.Export {
		exporter := deadletter.New(s.cfg.exporter(s.exports))
		running.Go(func() { exporter.Run(background, w.Loop.Claims) })
	}
	return s.owner.Run(ctx, topics, w)
}

// replayReader makes the reader of what is replayed, with a client of its own, and runs it until ctx is done.
func (s *Subscription) replayReader(ctx context.Context, running *sync.WaitGroup) (batch.Reader, error) {
	options, err := reader.ClientOptions(s.cfg.reader(s.readFailed))
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, kgo.WithContext(ctx))...)
	if err != nil {
		return nil, err
	}
	rd := reader.New(client, reader.NewLog(client), s.cfg.reader(s.readFailed))
	running.Go(func() {
		defer client.Close()
		rd.Run(ctx)
	})
	return rd, nil
}

// readFailed counts and logs a read error that is about no claimed partition.
func (s *Subscription) readFailed(err error) {
	s.batches.ReadFailed()
	s.cfg.Logger.Warn("reading", "error", err)
}
