package lane

import (
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// scheduler is the door to the queues: each of its methods takes mu for one step. Workers, loader, recorder, report reader,
// clock and commands call these methods, or take mu themselves for steps of their own. The scheduler never calls back; it only
// signals.
type scheduler struct {
	log *slog.Logger
	mu  lock // guards the queues, and with them every partition, lane, entry and destination
	q   *queues
}

// newScheduler makes a scheduler without partitions. It starts no goroutine. The metrics read the queues, so they are made after them.
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
	s.q.dispatch.addDestinations()
	return s, nil
}

// next waits for a head that may run; nil means that Run is ending. If the destination has reported on the head already,
// reported is the result to record instead of an attempt. A worker that leaves ready lanes behind wakes another one: a step that
// makes many lanes ready has to wake only one.
func (s *scheduler) next() (e *entry, d *sinkQueue, reported *ledger.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.q.dispatch.stopped {
		if e, d := s.q.pick(); e != nil {
			s.q.dispatch.wake()
			return e, d, s.q.reportedResult(e)
		}
		s.q.dispatch.sleep()
	}
	return nil, nil, nil
}

// finish gives the slot of a head back and hands its result to the recorder. If the claim is gone, or the attempt was cancelled with it, the
// head leaves memory and its result is not recorded: the next owner finds the action open. feedback is nil if the attempt says nothing
// about the destination.
func (s *scheduler) finish(e *entry, d *sinkQueue, res *ledger.Result, feedback *destination.Outcome, cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, feedback)
	if e.lane.partition.dropped || cancelled {
		s.q.dropHead(e)
	} else {
		if res.Status == ledger.Processing {
			s.q.long.track(e, d)
		}
		s.q.results.add(&completion{e: e, res: *res})
	}
	s.q.dispatch.wake()
}

// postpone puts a running head back to wait; no attempt is counted.
func (s *scheduler) postpone(e *entry, d *sinkQueue, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, nil)
	p := e.lane.partition
	if p.dropped {
		s.q.dropHead(e)
	} else {
		if e.notBefore = time.Now().Add(wait); e.Status.Waits() && e.asked != s.q.asked {
			e.notBefore = time.Time{}
		}
		s.q.budget.requeue(e)
		p.endBusy()
		e.lane.state = idle
		s.q.schedule(e.lane)
	}
	s.q.dispatch.wake()
}

// abandon gives up a running head without an attempt, because its claim is being given up.
func (s *scheduler) abandon(e *entry, d *sinkQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.release(e, d, nil)
	s.q.dropHead(e)
	s.q.dispatch.wake()
}

// mark hands the mark of a running head to the recorder, which sends true once it is in the ledger, false if it gives the mark up.
func (s *scheduler) mark(e *entry, res ledger.Result) (marked <-chan bool) {
	c := &completion{e: e, res: res, marked: make(chan bool, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.lane.partition.dropped {
		s.q.results.add(c)
	}
	return c.marked
}

// withdraw takes back the mark of an attempt that will not be made, unless a Record is writing it already.
func (s *scheduler) withdraw(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.results.remove(e)
	s.q.dispatch.wake()
}

// endLoad takes the event that was loaded for a running head, nil if it could not be loaded.
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

// holdExtra adds n to the bytes that attempts hold beside their payloads. The caller later subtracts them again with -n.
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

// committed moves lanes on after a Record: their results are in the ledger. It returns the claims that have lost their fence.
func (s *scheduler) committed(group []completion, fenced map[int32]bool) (lost []*ledger.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range group {
		c := &group[i]
		p := c.e.lane.partition
		if fenced[p.claim.ID] && !p.dropped {
			s.log.Warn("claim has lost its fence", "topic", p.claim.Partition.Topic, "partition", p.claim.Partition.Number)
			s.q.dropPartition(p, errFenced)
			lost = append(lost, p.claim)
		}
		switch {
		case p.dropped:
			s.q.dropCompletion(c)
		case c.marked != nil:
			c.marked <- true
		case c.res.Status == ledger.Superseded:
			s.q.endSuperseded(c)
		default:
			s.q.applyResult(c.e, &c.res)
		}
		if p.roomForPage() > 0 || p.wantsRefill() {
			signal(s.q.toLoad)
		}
	}
	s.q.results.committed()
	s.q.dispatch.wake()
	return lost
}

// beginWrite counts a transaction that a worker makes beside the recorder. Close waits for its end.
func (s *scheduler) beginWrite(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.writing++
}

// endWrite ends a transaction that beginWrite counted and runs then, which applies its outcome, under mu. lost is true for the
// first caller that finds the claim fenced.
func (s *scheduler) endWrite(p *partition, fenced bool, then func()) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.writing--
	if lost = fenced && !p.dropped; lost {
		s.q.dropPartition(p, errFenced)
	}
	then()
	if p.wantsRefill() {
		signal(s.q.toLoad)
	}
	s.q.results.changed.Broadcast()
	s.q.dispatch.wake()
	return lost
}

// runDue schedules the heads whose time has come and resumes the destinations whose turn has come. It returns how long until the
// next head is due.
func (s *scheduler) runDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.dispatch.resumeAll()
	now := time.Now()
	for e, ok := s.q.timers.heap.pop(now); ok; e, ok = s.q.timers.heap.pop(now) {
		if e.lane.state == processing {
			s.q.long.expired(e)
			continue
		}
		e.lane.state = idle
		s.q.schedule(e.lane)
	}
	s.q.spilled.reloadDue(now)
	s.q.dispatch.wake()
	return min(s.q.timers.heap.wait(now), s.q.spilled.byTime.wait(now))
}

// stop keeps further attempts from starting and cancels those under way.
func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.q.partitions {
		p.cancel(errStopped)
	}
	s.q.dispatch.stop()
}

// lastResults tells the recorder that no more results will come.
func (s *scheduler) lastResults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q.results.last = true
	s.q.results.changed.Broadcast()
}
