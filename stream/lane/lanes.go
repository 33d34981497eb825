package lane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Lanes runs the actions of one subscription in this process; it implements owner.Lanes and batch.Lanes. All methods are safe for
// concurrent use.
type Lanes struct {
	cfg     *Config
	s       *scheduler
	workers *workers
	loader  *loader
	reports *reportReader
	cancels *canceler
	audits  *auditor
	waits   map[int32]waited // by fence; s.mu guards it
}

// waited says since when an unclean claim waits for calls of the owner before it, where it was closed before that wait was over and none of its own
// calls was under way. The next claim goes on with the wait: a partition that stops is claimed every few seconds, and if each of these claims began
// the wait anew, its open actions would never run.
type waited struct {
	epoch int64 // of the claim
	since time.Time
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
	alive := &liveness{ask: cfg.Alive, log: s.log}
	return &Lanes{
		cfg: &cfg, s: s,
		workers: &workers{cfg: &cfg, s: s, judge: s.q.judge, log: s.log, alive: alive},
		loader:  &loader{s: s, ledger: cfg.Ledger, log: s.log},
		reports: &reportReader{s: s, ledger: cfg.Ledger, log: s.log},
		cancels: &canceler{s: s, cfg: &cfg, alive: alive, log: s.log},
		audits:  &auditor{s: s, ledger: cfg.Ledger, log: s.log},
		waits:   map[int32]waited{},
	}, nil
}

// Run runs lanes until ctx ends and returns nil. It may be called once. Claims should have been closed by then: Run cancels
// attempts that are still under way, and gives the recorder a few seconds to write the results that are there. What it does not
// write, the next owner finds open.
func (l *Lanes) Run(ctx context.Context) error {
	var workers, loops, recording sync.WaitGroup
	for range l.cfg.MaxInFlight {
		workers.Go(l.workers.work)
	}
	loops.Go(func() { l.s.clock(ctx) })
	loops.Go(func() { l.loader.run(ctx) })
	loops.Go(func() { l.reports.run(ctx) })
	loops.Go(func() { l.cancels.run(ctx) })
	loops.Go(func() { l.audits.run(ctx) })
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

// Open starts the lanes of a claim. It reads the first window before it returns. After an error the claim has no lanes.
func (l *Lanes) Open(ctx context.Context, c *ledger.Claim) error {
	p := newPartition(l.cfg, c)
	var actions []ledger.Action
	more := false
	err := l.reports.readInitial(ctx, p)
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
			p.latest.addPage(actions, false)
		}
	}
	if before, ours := l.waits[c.ID]; ours && before.epoch == c.Epoch-1 {
		p.uncleanSince = before.since
	}
	delete(l.waits, c.ID)
	s.q.partitions[c] = p
	l.loader.takePage(p, actions, more, 0)
	s.q.dispatch.wake()
	signal(s.q.toLoad)
	return nil
}

// Add takes actions that were just committed. Those for which there is no room stay in the ledger and are loaded later.
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
		s.q.endOvertaken(p, items[i].Action)
		s.q.cameBehind(p, items[i].Action)
	}
	for i := range items {
		if p.more || p.open >= l.cfg.MaxOpen {
			p.leave()
			signal(s.q.toLoad)
			break
		}
		if seq := items[i].LaneSeq; seq > p.loadedTo { // otherwise the loader has read it already
			p.loadedTo = seq
			s.q.push(p, items[i].Action, items[i].Event, true)
		}
	}
	s.q.dispatch.wake()
}

// Full reports whether more than half of the window is taken, or more actions are in the ledger behind it. A claim that is given up is
// full.
func (l *Lanes) Full(c *ledger.Claim) bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	p := l.s.q.partitions[c]
	return p == nil || p.ending() || p.more || p.open > l.cfg.MaxOpen/2
}

// Close ends the lanes of a claim. If no action of the claim is in doubt, it clears c.DoubtTo. An error means
// that attempts were cancelled, or their results were not recorded, when ctx ended; that the ledger refuses some results, for which
// it does not wait; or that the claim was unclean and calls of the previous owner may still be in flight.
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
		s.q.results.tryAllAgain(p)
	}
	s.mu.Unlock()

	select {
	case <-drained:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := p.busy
	if !p.dropped {
		s.q.dropPartition(p, errClosed)
	}
	s.q.results.waitForWrites(p)
	if busy > 0 {
		return fmt.Errorf("close lanes of %s/%d with %d actions under way: %w",
			c.Partition.Topic, c.Partition.Number, busy, context.Cause(ctx))
	}
	if p.givenUp > 0 { // these actions may have been called: they are in doubt for the next owner
		return fmt.Errorf("close lanes of %s/%d: the ledger refuses the results of %d actions, which the next owner finds open",
			c.Partition.Topic, c.Partition.Number, p.givenUp)
	}
	var left time.Duration
	for _, d := range s.q.dispatch.order {
		left = max(left, p.stillInFlight(d.Timeout+d.Settle))
	}
	if left > 0 {
		l.waits[c.ID] = waited{c.Epoch, p.uncleanSince}
		return fmt.Errorf("close lanes of %s/%d: calls of the previous owner may be in flight or act for another %s",
			c.Partition.Topic, c.Partition.Number, left)
	}
	if p.withoutDoubt() {
		c.DoubtTo = 0
	}
	return nil
}

// Replace has attempts at a destination made by another configuration from now on; those under way end with the one that they began with. What
// is returned is closed once there are none of these any more: then the sink before may be closed. Shared stays what it was. A destination
// that the lanes do not have is looked for by [Config.Find] when it is needed; for one that they lack, see Lacks. An error is of kind Invalid.
func (l *Lanes) Replace(name string, d DestinationConfig) (unused <-chan struct{}, err error) {
	cfg := Config{Destinations: map[string]DestinationConfig{name: d}, Later: l.cfg.Later}
	if err := cfg.validateDestinations(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "replace a destination of "+l.cfg.Subscription, "%w", err)
	}
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.q.dispatch.byName[name]
	if q == nil || q.lacks() { // of which Shared would be another's than that of all
		none := make(chan struct{})
		close(none)
		return none, nil
	}
	d.Shared = q.Shared
	unused = s.q.dispatch.replace(q, s.q.dispatch.target(name, d))
	s.q.dispatch.wake()
	return unused, nil
}

// Lacks reports whether the lanes have actions for a destination that there was not when it was looked for, and that [Config.Find] finds by now. They
// do not look again: new lanes do.
func (l *Lanes) Lacks() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for name, q := range l.s.q.dispatch.byName {
		if !q.lacks() {
			continue
		}
		if _, _, ok := l.cfg.Find(name); ok {
			return true
		}
	}
	return false
}

// TryAgain has heads that wait for their next attempt at a destination attempted as soon as that takes them, and reports whether there were any.
// Where such an attempt fails, the retry policy does not count it, and the head waits for its own time again.
func (l *Lanes) TryAgain(name string, which destination.Again) bool {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.q.dispatch.byName[name]
	if to == nil {
		return false
	}
	may := func(e *entry) bool {
		return e.Status == ledger.Failed && s.q.dispatch.byName[e.Destination] == to && e.mayBeEarly(to, which)
	}
	if which == destination.AgainOne {
		one := s.q.leastTried(may)
		may = func(e *entry) bool { return e == one }
	} else {
		to.hurried++ // for attempts that are being recorded
		to.hurriedAt, to.again = time.Now(), which
		s.q.spilled.hurry(to)
	}
	found := false
	s.q.hurry(func(e *entry) bool {
		now := may(e)
		if now {
			e.early()
			found = true
		}
		return now
	})
	return found
}

// Drop forgets a claim that has lost its fence: its attempts in flight are cancelled, and nothing is written.
func (l *Lanes) Drop(c *ledger.Claim) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if p := l.s.q.partitions[c]; p != nil {
		l.s.q.dropPartition(p, errFenced)
	}
}

// Waiting says by destination how many loaded actions wait for their destination's turn, their next attempt, the action before them or the ledger, which
// records how an attempt went. It does not count those that were left in the ledger.
func (l *Lanes) Waiting() map[string]Waiting {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	n, crowded := map[string]Waiting{}, time.Since(l.loader.noRoom) < crowdedFor || l.s.q.spilledLanes() >= l.cfg.maxSpilled
	for _, p := range l.s.q.partitions {
		for _, la := range p.lanes {
			held := la.head != nil && la.head.Status.Waits()
			for e := la.head; e != nil; e = e.next {
				w := Waiting{Actions: 1, Since: e.Since, Due: e.Since}
				if held {
					w.Held, w.Due = 1, time.Time{}
				}
				if e == la.head && la.state == running {
					w = Waiting{Running: 1}
				}
				w.Crowded = crowded
				n[e.Destination] = n[e.Destination].With(w)
			}
		}
	}
	return n
}

// Waiting is how many actions wait, and since when the first of them does.
type Waiting struct {
	Actions int
	Held    int       // of these, whose head waits for a guard
	Since   time.Time // zero: none waits
	Due     time.Time // since when the first does whose head waits for no guard; zero: none
	Running int       // whose attempt is under way: these do not wait
	Crowded bool      // memory may have no more entities that wait, so that the subscription's others wait behind them
}

// With returns both together.
func (w Waiting) With(o Waiting) Waiting {
	w.Since, w.Due = earlier(w.Since, o.Since), earlier(w.Due, o.Due)
	w.Actions, w.Held, w.Running, w.Crowded = w.Actions+o.Actions, w.Held+o.Held, w.Running+o.Running, w.Crowded || o.Crowded
	return w
}

// oldest returns by destination, in the dispatcher's order, since when the first head of a partition is to run; zero: there is none. What stands
// behind a dead head is left out, what its destination has taken and will report on, and what waits for a guard.
func (q *queues) oldest(p *partition) []time.Time {
	outside := make([]int64, len(q.dispatch.order))
	note := func(at spilledLane) {
		if at.waits == 0 && at.since != 0 && (outside[at.to] == 0 || at.since < outside[at.to]) {
			outside[at.to] = at.since
		}
	}
	for _, at := range p.spilled {
		note(at)
	}
	first := make([]time.Time, len(outside))
	for _, la := range p.lanes {
		switch {
		case la.state == processing:
		case la.head == nil:
			note(la.was)
		case !la.head.Status.Waits():
			if d := q.dispatch.byName[la.head.Destination]; d != nil { // else nothing runs before all is read
				first[d.index] = earlier(first[d.index], la.head.Since)
			}
		}
	}
	for i, since := range outside {
		if since != 0 {
			first[i] = earlier(first[i], time.Unix(0, since))
		}
	}
	return first
}

// earlier returns the first of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
