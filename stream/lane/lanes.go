package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/ledger"
)

var (
	errStopped = errors.New("lanes stop")
	errClosed  = errors.New("claim is given up")
	errFenced  = errors.New("claim has lost its fence")
	errTimeout = errors.New("destination's timeout")
)

// Lanes runs the actions of one subscription in this process; it implements [stream.Lanes]. All methods are safe for
// concurrent use.
type Lanes struct {
	cfg        Config
	log        *slog.Logger
	metrics    *metrics
	long       longLedger // nil: the ledger has no such thing
	superseded prometheus.Counter

	toLoad chan struct{} // capacity 1, never closed: a part may have room

	mu       lock
	parts    map[*ledger.Claim]*part
	open     int // loaded actions
	dispatch dispatcher
	timers   timers
	spilled  spillList
	async    asyncWork
	budget   budget
	results  completions
	notAlive bool // for logging the change alone
}

var _ stream.Lanes = (*Lanes)(nil)

// New makes lanes that hold nothing. Run must run for them to do anything.
func New(cfg Config) (*Lanes, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "make lanes of "+cfg.Subscription, "%w", err)
	}
	l := &Lanes{
		cfg: cfg, log: cfg.Logger.With("subscription", cfg.Subscription),
		toLoad: make(chan struct{}, 1), parts: map[*ledger.Claim]*part{},
		timers: timers{changed: make(chan struct{}, 1)}, async: asyncWork{changed: make(chan struct{}, 1)},
		budget: budget{half: cfg.MaxBytes / 2, guess: cfg.MaxBody},
	}
	l.spilled = spillList{cfg: &l.cfg, toLoad: l.toLoad}
	l.results = completions{cfg: &l.cfg, group: cfg.MaxGroup, changed: sync.NewCond(&l.mu)}
	m, err := newMetrics(l)
	if err != nil {
		return nil, err
	}
	l.metrics = m
	l.long, _ = cfg.Ledger.(longLedger)
	if l.superseded, err = newSuperseded(&cfg); err != nil {
		return nil, err
	}
	l.dispatch = dispatcher{
		cfg: &l.cfg, metrics: m, results: &l.results, spilled: &l.spilled, toClock: l.timers.changed,
		byName: map[string]*destination{}, work: sync.NewCond(&l.mu),
	}
	l.dispatch.addAll()
	return l, nil
}

// Run runs lanes until ctx ends. Claims should have been closed before: attempts that are still under way then are
// cancelled, and what others have brought is recorded within a few seconds or left to the next owner. It returns nil.
// It may run once.
func (l *Lanes) Run(ctx context.Context) error {
	var workers, rest, writer sync.WaitGroup
	for range l.cfg.MaxInFlight {
		workers.Go(l.work)
	}
	rest.Go(func() { l.clock(ctx) })
	rest.Go(func() { l.load(ctx) })
	rest.Go(func() { l.watch(ctx) })
	recordCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	writer.Go(func() { (&recorder{l: l}).run(recordCtx) })

	<-ctx.Done()
	l.halt()
	workers.Wait()
	rest.Wait()
	timer := time.AfterFunc(drainTime, func() { cancel(errStopped) })
	l.mu.Lock()
	l.results.last = true
	l.results.changed.Broadcast()
	l.mu.Unlock()
	writer.Wait()
	timer.Stop()
	cancel(errStopped)
	return nil
}

// halt lets no attempt start and cancels those under way.
func (l *Lanes) halt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		p.cancel(errStopped)
	}
	l.dispatch.stop()
}

// Open implements [stream.Lanes]. It reads the first window before it returns; an error leaves nothing behind.
func (l *Lanes) Open(ctx context.Context, c *ledger.Claim) error {
	p := &part{claim: c, lanes: map[schemas.EntityKey]*lane{}, stands: stands{}, needsRefill: map[*lane]struct{}{}, more: true, doubts: doubtsOf(c)}
	if c.Unclean {
		p.safeFrom = time.Now()
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	err := l.firstReports(ctx, p)
	var actions []ledger.Action
	more := false
	if err == nil {
		actions, more, err = l.cfg.Ledger.Open(ctx, c, 0, min(l.cfg.MaxOpen, pageSize))
	}
	if err != nil {
		p.cancel(errClosed)
		return fmt.Errorf("read open actions of %s/%d: %w", c.Partition.Topic, c.Partition.Number, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dispatch.stopped {
		p.cancel(errStopped)
		return errStopped
	}
	if l.cfg.Latest {
		p.latest = newLatest()
		if !more {
			p.latest.read(actions, false)
		}
	}
	l.parts[c] = p
	l.takePage(p, actions, more, 0)
	l.dispatch.wake()
	signal(l.toLoad)
	return nil
}

// Add implements [stream.Lanes].
func (l *Lanes) Add(c *ledger.Claim, items []stream.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[c]
	if p == nil || p.closing {
		return // the next owner reads them from the ledger
	}
	for i := range items {
		p.latest.add(items[i].Action)
	}
	for i := range items {
		if p.more || p.open >= l.cfg.MaxOpen {
			p.more = true
			p.adds++
			signal(l.toLoad)
			break
		}
		if seq := items[i].LaneSeq; seq > p.loadedTo { // else the loader was faster
			p.loadedTo = seq
			l.push(p, items[i].Action, items[i].Event, true)
		}
	}
	l.dispatch.wake()
}
