package lane

import (
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas"
	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// scheduler is the door to the queues: each of its methods takes mu for one step. Workers, loader, recorder, reports, clock and
// commands call it, or take mu themselves for steps of their own; it calls none of them, but wakes them.
type scheduler struct {
	log *slog.Logger
	mu  lock // guards the queues, and with them every partition, lane, entry and destination
	q   *queues
}

func newScheduler(cfg *Config) (*scheduler, error) {
	s := &scheduler{log: cfg.Logger.With("subscription", cfg.Subscription)}
	s.q = newQueues(cfg, s.log, &s.mu)
	m, err := newMetrics(s, cfg)
	if err != nil {
		return nil, err
	}
	s.q.judge = &judge{rand: cfg.Rand, log: s.log, long: m.long}
	s.q.superseded = m.superseded
	s.q.dispatch.metrics = m
	s.q.dispatch.addAll()
	return s, nil
}

// next waits for a head that may run; nil means that Run ends. Where something was reported on the head that still counts, its
// result is reported and comes in the place of an attempt. A worker that leaves more behind wakes another, so that whoever makes
// lanes ready needs to wake only one.
func (s *scheduler) next() (e *entry, d *destination, reported *ledger.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.q.dispatch.stopped {
		if e, d := s.q.pick(); e != nil {
			s.q.dispatch.wake()
			return e, d, s.q.reported(e)
		}
		s.q.dispatch.sleep()
	}
	return nil, nil, nil
}

// finish gives the slot of a head back and hands its result to the recorder, or drops it where the attempt was cancelled with
// its claim. feedback is nil where the destination learns nothing from it.
func (s *scheduler) finish(e *entry, d *destination, res *ledger.Result, feedback *shared.Outcome, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, feedback)
	if e.lane.partition.forgotten || cancelled {
		s.q.discard(e)
	} else {
		if res.Status == ledger.Processing {
			s.q.async.track(e, d)
		}
		s.q.results.add(&completion{e: e, res: *res})
	}
	s.q.dispatch.wake()
}

// postpone lets a head wait without an attempt.
func (s *scheduler) postpone(e *entry, d *destination, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, nil)
	p := e.lane.partition
	if p.forgotten {
		s.q.discard(e)
	} else {
		e.notBefore = time.Now().Add(wait)
		s.q.budget.requeue(e)
		p.end()
		e.lane.state = idle
		s.q.schedule(e.lane)
	}
	s.q.dispatch.wake()
}

// abandon gives back a head whose attempt did not come about because its claim is being given up.
func (s *scheduler) abandon(e *entry, d *destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, nil)
	s.q.discard(e)
	s.q.dispatch.wake()
}

// mark hands the mark of a running head to the recorder, which closes committed once it is in the ledger.
func (s *scheduler) mark(e *entry, res ledger.Result) (committed <-chan struct{}) {
	c := &completion{e: e, res: res, marked: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.lane.partition.forgotten {
		s.q.results.add(c)
	}
	return c.marked
}

// withdraw takes back the mark of an attempt that will not be made, if no Record has it yet.
func (s *scheduler) withdraw(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.results.remove(e)
	s.q.dispatch.wake()
}

// endLoad takes the event that was read for a running head; nil where it could not be read.
func (s *scheduler) endLoad(e *entry, event *schemas.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.size == 0 {
		s.q.budget.endLoad(event)
		s.q.dispatch.wake()
	}
	if event != nil {
		s.q.budget.hold(e, event)
	}
}

// holdExtra counts n bytes that an attempt holds beside its payload, until it is called with -n.
func (s *scheduler) holdExtra(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.budget.extra += int64(n)
	s.q.dispatch.wake()
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
		p := c.e.lane.partition
		if fenced[p.claim.ID] && !p.forgotten {
			s.log.Warn("claim has lost its fence", "topic", p.claim.Partition.Topic, "partition", p.claim.Partition.Number)
			s.q.forget(p, errFenced)
			lost = append(lost, p.claim)
		}
		switch {
		case p.forgotten:
			s.q.drop(c)
		case c.marked != nil:
			close(c.marked)
		case c.res.Status == ledger.Superseded:
			s.q.endSuperseded(c)
		default:
			s.q.apply(c.e, &c.res)
		}
		if p.roomForPage() > 0 || len(p.needsRefill) > 0 {
			signal(s.q.toLoad)
		}
	}
	s.q.results.committed()
	s.q.dispatch.wake()
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
		s.q.forget(p, errFenced)
	}
	then()
	s.q.results.changed.Broadcast()
	s.q.dispatch.wake()
	return lost
}

// due lets heads go on whose time has come, and destinations whose turn has; it says how long until the next.
func (s *scheduler) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.resumeAll()
	now := time.Now()
	for e, ok := s.q.timers.heap.pop(now); ok; e, ok = s.q.timers.heap.pop(now) {
		if e.lane.state == processing {
			s.q.async.expired(e)
			continue
		}
		e.lane.state = idle
		s.q.schedule(e.lane)
	}
	s.q.spilled.reloadDue(now)
	s.q.dispatch.wake()
	return min(s.q.timers.heap.wait(now), s.q.spilled.byTime.wait(now))
}

// stop lets no attempt start any more and cancels those under way.
func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.q.partitions {
		p.cancel(errStopped)
	}
	s.q.dispatch.stop()
}

// lastResults says that no results come any more.
func (s *scheduler) lastResults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.results.last = true
	s.q.results.changed.Broadcast()
}
