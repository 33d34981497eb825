package lane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// A head that its destination has accepted can be told that its result is not wanted any more, because its entity has moved on (on_newer: cancel):
//
//	an action comes behind it ──▶ has its version line a newer version? ──▶ noted in the ledger ──▶ its cancel URL is called, that is noted
//
// From the first note on heartbeats are answered so, by every process. The call is made again by the next owner where the second note is missing: a
// destination is told at least once. Its result is waited for as before. A report that is not done ends it as superseded, and not as failed or dead:
// it is neither tried again nor parks its lane. Silence says nothing of what was done: it is judged as ever, so that an unsafe
// destination's stays unknown, and who takes the next attempt is told again.

const (
	cancelTries   = 6  // of one cancel URL by one owner
	cancelsAtOnce = 16 // calls of one destination's cancel URLs
)

// cancelRetry is the delay after a call of a cancel URL that failed.
var cancelRetry = sink.RetryPolicy{Attempts: cancelTries, Min: time.Second, Max: 30 * time.Second}

// lookForNewer has the canceler look at an accepted head: something came behind it, or it is to be told.
func (q *queues) lookForNewer(e *entry) {
	if q.cfg.CancelOnNewer == nil || e.long.look {
		return
	}
	e.long.look = true
	q.long.toLook = append(q.long.toLook, e)
	signal(q.long.looks)
}

// cameBehind has the head of an action's lane looked at, if its destination has accepted it.
func (q *queues) cameBehind(p *partition, a *ledger.Action) {
	if q.cfg.CancelOnNewer == nil { // most subscriptions: this is asked of every action that comes
		return
	}
	if la := p.lanes[laneKeyOf(a.Entity)]; la != nil && la.state == processing && a.LaneSeq > la.accepted.LaneSeq {
		q.lookForNewer(la.accepted)
	}
}

// canceler tells destinations what is not wanted any more. run belongs to one goroutine, and each call of a cancel URL to one of its own.
type canceler struct {
	s     *scheduler
	cfg   *Config
	alive *liveness
	log   *slog.Logger
	calls sync.WaitGroup
}

// accepted is a head that its destination has accepted, as it was when it was looked at.
type accepted struct {
	e *entry
	p *partition
	a ledger.Action
}

func (h *accepted) ref() ledger.AttemptRef {
	return ledger.AttemptRef{Fence: h.a.Claim, LaneSeq: h.a.LaneSeq, Attempt: h.a.Attempts, Epoch: h.a.AttemptEpoch}
}

// still reports whether the head is still the attempt that it was. The caller holds mu.
func (h *accepted) still() bool {
	return h.e.lane.accepted == h.e && h.e.Attempts == h.a.Attempts && !h.p.ending()
}

// run looks until ctx ends, and waits for the calls.
func (c *canceler) run(ctx context.Context) {
	defer c.calls.Wait()
	for {
		select {
		case <-c.s.q.long.looks:
		case <-ctx.Done():
			return
		}
		failed := false
		for _, h := range c.take() {
			if err := c.look(h); err != nil && h.p.ctx.Err() == nil {
				c.log.Warn("whether an action's entity has a newer version could not be found out; looking again", "action_id", string(h.a.ID), "error", err)
				c.again(h)
				failed = true
			}
		}
		if failed {
			sleep(ctx, time.Second)
		}
	}
}

// take returns the heads to look at.
func (c *canceler) take() (list []*accepted) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	long := &c.s.q.long
	for _, e := range long.toLook {
		e.long.look = false
		if h := (&accepted{e, e.lane.partition, e.Action}); h.still() {
			list = append(list, h)
		}
	}
	clear(long.toLook)
	long.toLook = long.toLook[:0]
	return list
}

// again has a head looked at once more.
func (c *canceler) again(h *accepted) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if h.still() {
		c.s.q.lookForNewer(h.e)
	}
}

// stays reports whether an action goes on whatever is newer: it was late when it began, or an operator wants it run all the same, or again.
func stays(a *ledger.Action) bool {
	return a.Late || a.Replay != nil && a.Replay.Force || a.Reason == gate.ReasonRedriven || a.Reason == gate.ReasonReprocess
}

// look finds out whether the entity of a head has moved on, and if so notes that and has its destination told.
func (c *canceler) look(h *accepted) error {
	if !h.a.Newer {
		if !c.cfg.CancelOnNewer(h.a.Name) || stays(&h.a) {
			return nil
		}
		ctx, cancel := context.WithTimeout(h.p.ctx, loadTimeout)
		defer cancel()
		newer, err := c.cfg.Ledger.Overtaken(ctx, h.p.claim, h.a)
		if errors.Is(err, ledger.ErrTooFar) || err == nil && !newer {
			return nil
		}
		if err == nil {
			err = c.note(h, false)
		}
		if err != nil {
			return err
		}
		c.log.Info("its entity has a newer version: cancelled", "event_id", h.a.EventID, "source", h.a.Source, "entity", string(h.a.Entity),
			"action_id", string(h.a.ID), "destination", h.a.Destination, "attempt", h.a.Attempts)
	}
	if h.a.CancelURL != "" && c.once(h) {
		c.calls.Go(func() { c.tell(h) })
	}
	return nil
}

// once reports whether a head is to be told by this owner, and was not yet: what comes behind it meanwhile tells it nothing new.
func (c *canceler) once(h *accepted) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !h.still() || h.e.long.told == h.a.Attempts {
		return false
	}
	h.e.long.told = h.a.Attempts
	return true
}

// note notes in the ledger and in the head that its result is not wanted, and if told that its destination knows.
func (c *canceler) note(h *accepted, told bool) error {
	ctx, cancel := context.WithTimeout(h.p.ctx, loadTimeout)
	defer cancel()
	c.s.beginWrite(h.p)
	fenced, err := c.cfg.Ledger.Cancel(ctx, h.p.claim, h.ref(), told)
	lost := c.s.endWrite(h.p, err == nil && fenced, func() {
		if err == nil && h.still() {
			if h.e.Newer = true; told {
				h.e.CancelURL = ""
			}
		}
	})
	if lost {
		c.cfg.OnFenced(h.p.claim)
	}
	return err
}

// tell calls a head's cancel URL until it is answered, refused for good or the head has ended, a few times at most.
func (c *canceler) tell(h *accepted) {
	for try := 1; ; try++ {
		made, err := c.call(h)
		switch {
		case !made:
			return
		case err == nil:
			if err := c.note(h, true); err != nil && h.p.ctx.Err() == nil {
				c.log.Warn("that a destination was told to cancel could not be noted; it may be told again", "action_id", string(h.a.ID), "error", err)
			}
			return
		}
		more := try < cancelTries && sink.ClassOf(err).Retried()
		text := "a cancel URL could not be called; its action's result is waited for as before"
		wait := sink.Delay(cancelRetry, try, 0, cancelRetry.Max, c.cfg.Rand())
		if more {
			text = "a cancel URL could not be called; trying again"
		}
		c.log.Warn(text, "event_id", h.a.EventID, "source", h.a.Source, "entity", string(h.a.Entity), "action_id", string(h.a.ID),
			"destination", h.a.Destination, "try", try, "error", clean(err), "detail", sink.ForLog(err))
		if !more {
			return
		}
		sleep(h.p.ctx, wait)
	}
}

// call calls a head's cancel URL once, when it is the turn of one more at its destination. made is false where there is nothing to call any more.
func (c *canceler) call(h *accepted) (made bool, err error) {
	d := c.destination(h)
	if d == nil {
		return false, nil
	}
	select {
	case d.cancels <- struct{}{}:
		defer func() { <-d.cancels }()
	case <-h.p.ctx.Done():
		return false, nil
	}
	for !c.alive.ok() && h.p.ctx.Err() == nil {
		sleep(h.p.ctx, aliveWait)
	}
	to := c.begin(h, d)
	if to == nil {
		return false, nil
	}
	defer c.end(to)
	called, cancel := context.WithTimeoutCause(h.p.ctx, to.Timeout, errTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = &sink.AttemptError{Class: sink.ClassBug, Err: errors.New("the sink panicked")}
		}
	}()
	err = to.Sink.(sink.Canceler).Cancel(called, sink.Cancel{ID: h.a.ID, URL: h.a.CancelURL, Reason: sink.Newer})
	return true, err
}

// destination returns the destination of a head, nil if the head is not what it was.
func (c *canceler) destination(h *accepted) *sinkQueue {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !h.still() {
		return nil
	}
	return c.s.q.dispatch.find(h.a.Destination)
}

// begin counts a call of a cancel URL as one that uses its target; nil: the head is not what it was, or its destination has no such calls now.
func (c *canceler) begin(h *accepted, d *sinkQueue) *target {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if _, ok := d.Sink.(sink.Canceler); !ok || !h.still() || h.p.ctx.Err() != nil {
		return nil
	}
	d.using++
	return d.target
}

// end ends a call that begin has counted.
func (c *canceler) end(t *target) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	t.release()
}
