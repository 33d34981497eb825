package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
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

	toLoad  chan struct{} // capacity 1, never closed: a part may have room
	toWatch chan struct{} // capacity 1, never closed: something is overdue, or the first head is away

	mu       lock
	toRun    *sync.Cond // workers wait for ready lanes
	parts    map[*ledger.Claim]*part
	dests    map[string]*destination
	turns    []*destination // the values of dests, in the order in which they take turns
	turn     int
	timers   timers
	spilled  spillList
	overdue  []*entry // away for too long, or silent for too long, as far as is known here
	out      int      // heads away, and those about to be
	sleeping int      // workers that wait
	waking   bool     // one of them has been called and has not looked yet
	ready    int      // lanes ready at all destinations that are not asleep
	open     int      // loaded actions

	budget budget

	results  completions
	stopped  bool // Run ends: workers and clock stop
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
		timers: timers{changed: make(chan struct{}, 1)}, toLoad: make(chan struct{}, 1), toWatch: make(chan struct{}, 1),
		parts: map[*ledger.Claim]*part{}, dests: map[string]*destination{},
		budget: budget{half: cfg.MaxBytes / 2, guess: cfg.MaxBody},
	}
	l.spilled = spillList{cfg: &l.cfg, toLoad: l.toLoad}
	l.toRun = sync.NewCond(&l.mu)
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
	for name, d := range cfg.Destinations {
		l.addDestination(name, d)
	}
	slices.SortFunc(l.turns, func(a, b *destination) int { return cmp.Compare(a.name, b.name) })
	return l, nil
}

func (l *Lanes) addDestination(name string, d Destination) *destination {
	dest := &destination{name: name, Destination: d.withDefaults(name, l.cfg.MaxInFlight), metrics: l.metrics.of(name)}
	team, _, _ := strings.Cut(l.cfg.Subscription, ".")
	dest.user = dest.Shared.Join(team, func() { signal(l.timers.changed) })
	l.dests[name] = dest
	l.turns = append(l.turns, dest)
	return dest
}

// destination finds a destination by name. An action of one that is configured no longer gets a sink that says so, and
// so ends as a dead letter after its retries instead of vanishing.
func (l *Lanes) destination(name string) *destination {
	if d := l.dests[name]; d != nil {
		return d
	}
	return l.addDestination(name, Destination{Sink: missing(name)})
}

type missing string

func (m missing) Do(context.Context, sink.Action) (sink.Outcome, error) {
	return sink.Outcome{}, &sink.AttemptError{
		Class: sink.ClassBug, Err: fmt.Errorf("destination %s is not configured", string(m)),
	}
}
func (missing) Close(context.Context) error   { return nil }
func (missing) Idempotency() sink.Idempotency { return sink.Idempotent }

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
	l.stopped = true
	for _, p := range l.parts {
		p.cancel(errStopped)
	}
	for _, d := range l.turns {
		d.user.Leave()
	}
	l.toRun.Broadcast()
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
	if l.stopped {
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
	l.wake()
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
	l.wake()
}
