package lane

import (
	"time"

	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// finish gives an attempt's slot back and its result to the completer. told is what the destination learns from it; nil
// where it was not asked.
func (l *Lanes) finish(e *entry, d *destination, res ledger.Result, told *shared.Outcome) {
	p := e.lane.part
	res.Claim, res.LaneSeq, res.ID = p.claim, e.LaneSeq, e.ID
	cancelled := p.ctx.Err() != nil && res.Status != ledger.Done && res.Status != ledger.Processing
	if cancelled {
		told = nil // what failed because we cancelled it says nothing about the destination
	} else {
		res.Packed = l.copyFor(e, res.Status)
		l.alert(e, d, &res)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch.release(e, d, told)
	if p.gone || cancelled {
		l.discard(e)
	} else {
		e.lane.state = recording
		if res.Status == ledger.Processing {
			l.async.track(e, d)
		}
		l.results.add(completion{e: e, res: res})
	}
	l.dispatch.wake()
}

// submit hands a completion over.
func (l *Lanes) submit(c completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.e.lane.part.gone {
		l.results.add(c)
	}
}

// withdraw takes back the mark of an attempt that will not be made, if no Record has it yet.
func (l *Lanes) withdraw(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results.remove(e)
	l.dispatch.wake()
}

// abandon gives back a head whose attempt did not come about because its claim is being given up.
func (l *Lanes) abandon(e *entry, d *destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch.release(e, d, nil)
	l.discard(e)
	l.dispatch.wake()
}

// putOff lets a head wait whose payload could not be read. That is no attempt.
func (l *Lanes) putOff(e *entry, d *destination, err error) {
	e.loads++
	wait := Delay(RetryPolicy{Min: time.Second, Max: time.Minute}, e.loads, 0, l.cfg.Rand())
	l.log.Warn("load payload, again in a moment", "event_id", e.EventID, "source", e.Source, "action_id", e.ID,
		"error", err, "wait", wait)
	l.postpone(e, d, wait)
}

// postpone lets a head wait without an attempt.
func (l *Lanes) postpone(e *entry, d *destination, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch.release(e, d, nil)
	p := e.lane.part
	if p.gone {
		l.discard(e)
	} else {
		e.notBefore = time.Now().Add(wait)
		l.budget.requeue(e)
		l.settle(p)
		e.lane.state = idle
		l.arm(e.lane)
	}
	l.dispatch.wake()
}

// discard ends a running or recorded head without a trace.
func (l *Lanes) discard(e *entry) {
	l.budget.free(e)
	l.untrack(e)
	e.lane.state = idle
	l.settle(e.lane.part)
}

// settle counts a head as no longer busy, and tells Close when none is left.
func (l *Lanes) settle(p *part) {
	p.busy--
	if p.busy == 0 && p.quiet != nil {
		close(p.quiet)
		p.quiet = nil
	}
}

// drop forgets a completion. The mark of an unsafe attempt is still with its worker, which settles it.
func (l *Lanes) drop(c completion) {
	if c.marked == nil {
		l.discard(c.e)
	}
	l.dispatch.wake() // there may be room for an attempt again
}

// committed moves lanes on after their results are in the ledger. It returns the claims that have lost their fence.
func (l *Lanes) committed(group []completion, fenced map[int32]bool) (lost []*ledger.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results.group = min(2*l.results.group, l.cfg.MaxGroup)
	for i := range group {
		c := &group[i]
		p := c.e.lane.part
		if fenced[p.claim.ID] && !p.gone {
			l.log.Warn("claim has lost its fence", "topic", p.claim.Partition.Topic, "partition", p.claim.Partition.Number)
			l.forget(p, errFenced)
			lost = append(lost, p.claim)
		}
		switch {
		case p.gone:
			l.drop(*c)
		case c.marked != nil:
			close(c.marked)
		case c.res.Status == ledger.Superseded:
			l.passOver(c)
		default:
			l.proceed(c.e, &c.res)
		}
		if l.room(p) > 0 || len(p.needsRefill) > 0 {
			signal(l.toLoad)
		}
	}
	l.results.end()
	l.dispatch.wake()
	return lost
}

// proceed applies a recorded result to its lane.
func (l *Lanes) proceed(e *entry, res *ledger.Result) {
	la := e.lane
	e.Attempts = max(e.Attempts, res.Attempt)
	e.copied = e.copied || res.Packed != nil
	e.Status = res.Status
	la.told(e)
	la.state = idle
	l.settle(la.part)
	switch {
	case res.Status == ledger.Processing:
		l.waitFor(e, res.Left, res.Silence, res.Silence)
	case res.Status == ledger.Failed:
		e.notBefore = time.Now().Add(res.NextIn)
		l.budget.requeue(e)
	case res.Status == ledger.Done, res.Status == ledger.Dead && e.OnDead == ledger.Continue:
		la.part.latest.ended(&e.Action)
		l.pop(la)
	}
	l.arm(la) // dead and unknown heads stand
}
