package lane

import (
	"context"
	"errors"
	"slices"
	"time"

	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
)

// completion is a result that waits for the ledger.
type completion struct {
	e   *entry
	res ledger.Result
	// rest are the entries behind e that are superseded with it.
	rest []*entry
	// marked is closed once the mark of an unsafe attempt is committed; nil for the end of an attempt.
	marked chan struct{}
}

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
	l.release(e, d, told)
	if p.gone || cancelled {
		l.discard(e)
	} else {
		e.lane.state = recording
		if res.Status == ledger.Processing {
			l.lend(e, d)
		}
		l.queue(completion{e: e, res: res})
	}
	l.wake()
}

// submit hands a completion over.
func (l *Lanes) submit(c completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.e.lane.part.gone {
		l.queue(c)
	}
}

// withdraw takes back the mark of an attempt that will not be made, if no Record has it yet.
func (l *Lanes) withdraw(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.pending)
	l.pending = slices.DeleteFunc(l.pending, func(c completion) bool { return c.e == e })
	l.unrecorded -= before - len(l.pending)
	l.wake()
}

func (l *Lanes) queue(c completion) {
	c.res.DoubtEnd = c.e.DoubtEnd
	l.pending = append(l.pending, c)
	l.unrecorded++
	if len(l.pending) == 1 {
		l.toRecord.Broadcast()
	}
}

// abandon gives back a head whose attempt did not come about because its claim is being given up.
func (l *Lanes) abandon(e *entry, d *destination) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(e, d, nil)
	l.discard(e)
	l.wake()
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
	l.release(e, d, nil)
	p := e.lane.part
	if p.gone {
		l.discard(e)
	} else {
		e.notBefore = time.Now().Add(wait)
		l.land(e)
		l.settle(p)
		e.lane.state = idle
		l.arm(e.lane)
	}
	l.wake()
}

// discard ends a running or recorded head without a trace.
func (l *Lanes) discard(e *entry) {
	l.free(e)
	l.unlend(e)
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

// After a Record of at least many results the next one waits for linger, unless a whole group is there: a transaction costs as
// much as some fifty results in it.
const (
	many   = 64
	linger = time.Millisecond
)

// record writes completions in groups: whatever is ready, at once when the ledger is idle, more under load.
func (l *Lanes) record(ctx context.Context) {
	var results []ledger.Result
	wait := time.Duration(0)
	for {
		groupCtx, group, ok := l.gather(ctx)
		if !ok {
			return
		}
		results = results[:0]
		for i := range group {
			results = append(results, group[i].res)
			for _, e := range group[i].rest {
				results = append(results, supersededResult(e))
			}
		}
		fenced, err := l.cfg.Ledger.Record(groupCtx, results)
		clear(results) // lets go of packed copies and answers
		if err == nil {
			wait = 0
			for _, c := range l.committed(group, fenced) {
				l.cfg.OnFenced(c)
			}
			if len(results) >= many && l.lacks() {
				sleep(ctx, linger)
			}
			continue
		}
		l.requeue(group)
		if ctx.Err() != nil {
			return // the next owner finds the actions open
		}
		if errors.Is(context.Cause(groupCtx), errClosed) {
			continue // cut short by Close; the rest goes again at once
		}
		wait = min(max(2*wait, 50*time.Millisecond), 5*time.Second)
		l.log.Warn("record results, again in a moment", "error", err, "results", len(group), "wait", wait)
		sleep(ctx, wait)
	}
}

// lacks reports whether a group could take more completions than there are.
func (l *Lanes) lacks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.drained && len(l.pending) < l.group
}

// gather waits for completions and takes a group of them, without those whose claim was forgotten.
func (l *Lanes) gather(ctx context.Context) (context.Context, []completion, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.pending) == 0 {
			if l.drained || ctx.Err() != nil {
				return nil, nil, false
			}
			l.toRecord.Wait()
		}
		group := l.committing[:0]
		n := l.upto(l.group)
		for _, c := range l.pending[:n] {
			if c.e.lane.part.gone {
				l.drop(c)
				continue
			}
			group = append(group, c)
		}
		rest := copy(l.pending, l.pending[n:])
		clear(l.pending[rest:])
		l.pending, l.committing = l.pending[:rest], group
		if len(group) == 0 {
			continue
		}
		groupCtx, abort := context.WithCancelCause(ctx)
		l.abort = abort
		return groupCtx, group, true
	}
}

// upto is how many pending completions make a group of at most so many results, and at least one.
func (l *Lanes) upto(results int) (n int) {
	for n < len(l.pending) && (n == 0 || results > len(l.pending[n].rest)) {
		results -= 1 + len(l.pending[n].rest)
		n++
	}
	return n
}

// drop forgets a completion. The mark of an unsafe attempt is still with its worker, which settles it.
func (l *Lanes) drop(c completion) {
	l.unrecorded--
	if c.marked == nil {
		l.discard(c.e)
	}
	l.wake() // there may be room for an attempt again
}

// requeue puts a group that was not recorded behind the others and makes the next ones smaller, so that a result that
// the database never takes ends up alone and holds nobody else.
func (l *Lanes) requeue(group []completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, group...)
	l.group = max(1, len(group)/2)
	l.recorded()
}

// recorded ends a Record, whatever came of it.
func (l *Lanes) recorded() {
	l.abort(errors.New("record has ended"))
	l.abort = nil
	clear(l.committing)
	l.committing = l.committing[:0]
	l.toRecord.Broadcast()
}

// committed moves lanes on after their results are in the ledger. It returns the claims that have lost their fence.
func (l *Lanes) committed(group []completion, fenced map[int32]bool) (lost []*ledger.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group = min(2*l.group, l.cfg.MaxGroup)
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
			l.unrecorded--
			close(c.marked)
		case c.res.Status == ledger.Superseded:
			l.unrecorded--
			l.passOver(c)
		default:
			l.unrecorded--
			l.proceed(c.e, &c.res)
		}
		if l.room(p) > 0 || len(p.thirsty) > 0 {
			kick(l.toLoad)
		}
	}
	l.recorded()
	l.wake()
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
		l.land(e)
	case res.Status == ledger.Done, res.Status == ledger.Dead && e.OnDead == ledger.Continue:
		la.part.latest.ended(&e.Action)
		l.pop(la)
	}
	l.arm(la) // dead and unknown heads stand
}
