package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

var (
	errStopped = errors.New("lanes stop")
	errClosed  = errors.New("claim is given up")
	errFenced  = errors.New("claim has lost its fence")
	errTimeout = errors.New("destination's timeout")
)

// Lanes runs the actions of one subscription in this process; it implements the Lanes of package stream. All methods are safe for
// concurrent use.
type Lanes struct {
	cfg     *Config
	s       *scheduler
	workers *workers
	loader  *loader
	reports *reportReader
}

// New makes lanes that hold nothing. Run must run for them to do anything.
func New(cfg Config) (*Lanes, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "make lanes of "+cfg.Subscription, "%w", err)
	}
	s, err := newScheduler(&cfg)
	if err != nil {
		return nil, err
	}
	return &Lanes{
		cfg: &cfg, s: s,
		workers: &workers{cfg: &cfg, s: s, judge: s.q.judge, log: s.log, alive: liveness{ask: cfg.Alive, log: s.log}},
		loader:  &loader{s: s, ledger: cfg.Ledger, log: s.log},
		reports: &reportReader{s: s, ledger: cfg.Ledger, log: s.log},
	}, nil
}

// Run runs lanes until ctx ends. Claims should have been closed before: attempts that are still under way then are
// cancelled, and what others have brought is recorded within a few seconds or left to the next owner. It returns nil.
// It may run once.
func (l *Lanes) Run(ctx context.Context) error {
	var workers, loops, recording sync.WaitGroup
	for range l.cfg.MaxInFlight {
		workers.Go(l.workers.work)
	}
	loops.Go(func() { l.s.clock(ctx) })
	loops.Go(func() { l.loader.run(ctx) })
	loops.Go(func() { l.reports.run(ctx) })
	recordCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	recording.Go(func() { (&recorder{s: l.s}).run(recordCtx) })

	<-ctx.Done()
	l.s.stop()
	workers.Wait()
	loops.Wait()
	timer := time.AfterFunc(drainTime, func() { cancel(errStopped) })
	l.s.lastResults()
	recording.Wait()
	timer.Stop()
	cancel(errStopped)
	return nil
}

// Open implements the Lanes of package stream. It reads the first window before it returns; an error leaves nothing behind.
func (l *Lanes) Open(ctx context.Context, c *ledger.Claim) error {
	p := newPartition(l.cfg, c)
	var actions []ledger.Action
	more := false
	err := l.reports.first(ctx, p)
	if err == nil {
		actions, more, err = l.cfg.Ledger.Open(ctx, c, 0, min(l.cfg.MaxOpen, pageSize))
	}
	if err != nil {
		p.cancel(errClosed)
		return fmt.Errorf("read open actions of %s/%d: %w", c.Partition.Topic, c.Partition.Number, err)
	}
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q.dispatch.stopped {
		p.cancel(errStopped)
		return errStopped
	}
	if l.cfg.Latest {
		p.latest = newLatest()
		if !more {
			p.latest.read(actions, false)
		}
	}
	s.q.partitions[c] = p
	l.loader.takePage(p, actions, more, 0)
	s.q.dispatch.wake()
	signal(s.q.toLoad)
	return nil
}

// Add implements the Lanes of package stream.
func (l *Lanes) Add(c *ledger.Claim, items []Item) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.q.partitions[c]
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
			signal(s.q.toLoad)
			break
		}
		if seq := items[i].LaneSeq; seq > p.loadedTo { // else the loader was faster
			p.loadedTo = seq
			s.q.push(p, items[i].Action, items[i].Event, true)
		}
	}
	s.q.dispatch.wake()
}

// Close implements the Lanes of package stream. It takes the doubt from a claim of which nothing is in doubt any more. An error means that
// attempts were cancelled or their results not recorded when ctx ended, or that the claim was unclean and what the owner before
// may have in flight has not timed out yet.
func (l *Lanes) Close(ctx context.Context, c *ledger.Claim) error {
	s := l.s
	s.mu.Lock()
	p := s.q.partitions[c]
	if p == nil || p.closing {
		s.mu.Unlock()
		return nil
	}
	p.closing = true
	drained := make(chan struct{})
	if p.busy == 0 {
		close(drained)
	} else {
		p.drained = drained
	}
	s.mu.Unlock()

	select {
	case <-drained:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := p.busy
	if !p.forgotten {
		s.q.forget(p, errClosed)
	}
	s.q.results.waitUnwritten(p)
	if busy > 0 {
		return fmt.Errorf("close lanes of %s/%d with %d actions under way: %w",
			c.Partition.Topic, c.Partition.Number, busy, context.Cause(ctx))
	}
	var left time.Duration
	for _, d := range s.q.dispatch.order {
		left = max(left, p.stillInFlight(d.Timeout))
	}
	if left > 0 {
		return fmt.Errorf("close lanes of %s/%d: calls of the owner before may be in flight for another %s",
			c.Partition.Topic, c.Partition.Number, left)
	}
	if p.withoutDoubt() {
		c.DoubtTo = 0
	}
	return nil
}

// Drop implements the Lanes of package stream.
func (l *Lanes) Drop(c *ledger.Claim) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if p := l.s.q.partitions[c]; p != nil {
		l.s.q.forget(p, errFenced)
	}
}

// Waiting counts the loaded actions by destination whose attempt is not under way and not recorded: what waits for its
// turn, its time or the one before it. What was left in the ledger is not in it.
func (l *Lanes) Waiting() map[string]int {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	n := map[string]int{}
	for _, p := range l.s.q.partitions {
		for _, la := range p.lanes {
			for e := la.head; e != nil; e = e.next {
				if !e.inFlight() {
					n[e.Destination]++
				}
			}
		}
	}
	return n
}
