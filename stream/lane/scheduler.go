package lane

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// scheduler decides what the head of each lane does next. The loops of the package call it; it calls none of them, but wakes
// them. Its methods in this file and in the loops' own lock mu; those in queue.go are called with mu held.
type scheduler struct {
	cfg        *Config
	log        *slog.Logger
	metrics    *metrics
	superseded prometheus.Counter
	judge      *judge

	mu       lock // guards all that follows, and every partition, lane, entry and destination
	parts    map[*ledger.Claim]*partition
	open     int // loaded actions
	dispatch dispatcher
	timers   timers
	spilled  spillList
	async    asyncWork
	budget   budget
	results  completions
	toLoad   chan struct{} // capacity 1, never closed: a partition may have room
}

func newScheduler(cfg *Config) (*scheduler, error) {
	s := &scheduler{
		cfg: cfg, log: cfg.Logger.With("subscription", cfg.Subscription),
		parts:  map[*ledger.Claim]*partition{},
		timers: timers{changed: make(chan struct{}, 1)},
		async:  asyncWork{changed: make(chan struct{}, 1)},
		budget: budget{half: cfg.MaxBytes / 2, guess: cfg.MaxBody},
		toLoad: make(chan struct{}, 1),
	}
	s.spilled = spillList{cfg: cfg, toLoad: s.toLoad}
	s.results = completions{cfg: cfg, group: cfg.MaxGroup, changed: sync.NewCond(&s.mu)}
	var err error
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, err
	}
	if s.superseded, err = newSuperseded(cfg); err != nil {
		return nil, err
	}
	s.judge = &judge{rand: cfg.Rand, log: s.log, long: s.metrics.long}
	s.dispatch = dispatcher{
		cfg: cfg, metrics: s.metrics, results: &s.results, spilled: &s.spilled, toClock: s.timers.changed,
		byName: map[string]*destination{}, work: sync.NewCond(&s.mu),
	}
	s.dispatch.addAll()
	return s, nil
}

// next waits for a head that may run; nil means that Run ends. A worker that leaves more behind wakes another, so that whoever
// makes lanes ready needs to wake only one.
func (s *scheduler) next() (*entry, *destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.dispatch.stopped {
		if e, d := s.pick(); e != nil {
			s.dispatch.wake()
			return e, d
		}
		s.dispatch.sleep()
	}
	return nil, nil
}

// finish gives the slot of a head back and hands its result to the recorder, or drops it where the attempt was cancelled with
// its claim. feedback is nil where the destination learns nothing from it.
func (s *scheduler) finish(e *entry, d *destination, res ledger.Result, feedback *shared.Outcome, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch.release(e, d, feedback)
	if e.lane.part.forgotten || cancelled {
		s.discard(e)
	} else {
		if res.Status == ledger.Processing {
			s.async.track(e, d)
		}
		s.record(completion{e: e, res: res})
	}
	s.dispatch.wake()
}

// postpone lets a head wait without an attempt.
func (s *scheduler) postpone(e *entry, d *destination, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch.release(e, d, nil)
	p := e.lane.part
	if p.forgotten {
		s.discard(e)
	} else {
		e.notBefore = time.Now().Add(wait)
		s.budget.requeue(e)
		p.end()
		e.lane.state = idle
		s.schedule(e.lane)
	}
	s.dispatch.wake()
}

// abandon gives back a head whose attempt did not come about because its claim is being given up.
func (s *scheduler) abandon(e *entry, d *destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch.release(e, d, nil)
	s.discard(e)
	s.dispatch.wake()
}

// mark hands the mark of a running head to the recorder, which closes committed once it is in the ledger.
func (s *scheduler) mark(e *entry, res ledger.Result) (committed <-chan struct{}) {
	c := completion{e: e, res: res, marked: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.lane.part.forgotten {
		s.results.add(c)
	}
	return c.marked
}

// withdraw takes back the mark of an attempt that will not be made, if no Record has it yet.
func (s *scheduler) withdraw(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results.remove(e)
	s.dispatch.wake()
}

// endLoad takes the event that was read for a running head; nil where it could not be read.
func (s *scheduler) endLoad(e *entry, event *schemas.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.size == 0 {
		s.budget.endLoad(event)
		s.dispatch.wake()
	}
	if event != nil {
		s.budget.hold(e, event)
	}
}

// holdExtra counts n bytes that an attempt holds beside its payload, until it is called with -n.
func (s *scheduler) holdExtra(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.extra += int64(n)
	s.dispatch.wake()
}

// closing reports whether a claim is being given up.
func (s *scheduler) closing(p *partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.closing
}

// committed moves lanes on whose results are in the ledger now. It returns the claims that have lost their fence.
func (s *scheduler) committed(group []completion, fenced map[int32]bool) (lost []*ledger.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range group {
		c := &group[i]
		p := c.e.lane.part
		if fenced[p.claim.ID] && !p.forgotten {
			s.log.Warn("claim has lost its fence", "topic", p.claim.Partition.Topic, "partition", p.claim.Partition.Number)
			s.forget(p, errFenced)
			lost = append(lost, p.claim)
		}
		switch {
		case p.forgotten:
			s.drop(c)
		case c.marked != nil:
			close(c.marked)
		case c.res.Status == ledger.Superseded:
			s.endSuperseded(c)
		default:
			s.apply(c.e, &c.res)
		}
		if p.roomForPage() > 0 || len(p.needsRefill) > 0 {
			signal(s.toLoad)
		}
	}
	s.results.committed()
	s.dispatch.wake()
	return lost
}

// beginWrite counts a transaction of a worker that is not the recorder's: Close waits for its end.
func (s *scheduler) beginWrite(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.writing++
}

// endWrite counts the end of a transaction, with what follows from it. It says whether the claim turned out to be fenced, once.
func (s *scheduler) endWrite(p *partition, fenced bool, then func()) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.writing--
	if lost = fenced && !p.forgotten; lost {
		s.forget(p, errFenced)
	}
	then()
	s.results.changed.Broadcast()
	s.dispatch.wake()
	return lost
}

// due lets heads go on whose time has come, and destinations whose turn has; it says how long until the next.
func (s *scheduler) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch.resumeAll()
	now := time.Now()
	for e := s.timers.pop(now); e != nil; e = s.timers.pop(now) {
		if e.lane.state == processing {
			s.async.expired(e)
			continue
		}
		e.lane.state = idle
		s.schedule(e.lane)
	}
	s.spilled.reloadDue(now)
	s.dispatch.wake()
	return min(s.timers.wait(now), s.spilled.wait(now))
}

// stop lets no attempt start any more and cancels those under way.
func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		p.cancel(errStopped)
	}
	s.dispatch.stop()
}

// lastResults says that no results come any more.
func (s *scheduler) lastResults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results.last = true
	s.results.changed.Broadcast()
}

// forget lets go of a partition: attempts in flight are cancelled, their results come to nothing. Called with mu held.
func (s *scheduler) forget(p *partition, cause error) {
	p.forgotten = true
	p.cancel(cause)
	delete(s.parts, p.claim)
	for _, d := range s.dispatch.order {
		s.dispatch.remove(d, func(la *lane) bool { return la.part == p })
		d.spilled = slices.DeleteFunc(d.spilled, func(la *lane) bool { return la.part == p })
	}
	s.spilled.forget(p)
	s.timers.removeAll(func(e *entry) bool { return e.lane.part == p })
	for _, la := range p.lanes {
		if la.accepted != nil {
			s.untrack(la.accepted)
		}
		for e := la.head; e != nil; e = e.next {
			if !e.inFlight() {
				s.budget.free(e)
			}
		}
	}
	s.open -= p.open
	p.open = 0
	clear(p.needsRefill)
	s.results.changed.Broadcast()
	s.dispatch.wake()
}
