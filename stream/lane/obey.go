package lane

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// commander is implemented by ledgers that know commands about actions.
type commander interface {
	ObeyLane(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.Obeyed, error)
	Overtaken(ctx context.Context, c *ledger.Claim, a ledger.Action) (bool, error)
	EndStale(ctx context.Context, c *ledger.Claim, laneSeq int64) (fenced bool, err error)
}

var errNoCommands = errors.New("the ledger knows no commands about actions")

// Obey implements [stream.Lanes]. Once begun it goes on until the ledger has answered or the claim is given up, whatever
// becomes of ctx: what was written must not be forgotten here.
func (l *Lanes) Obey(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error) {
	from, ok := l.cfg.Ledger.(commander)
	if !ok {
		return "", errNoCommands
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	p := l.beginWrite(c, cmd)
	if p == nil {
		return "", nil
	}
	o, err := from.ObeyLane(p.ctx, c, cmd)
	fenced := l.endWrite(p, err == nil && o.Fenced, func() {
		if err == nil {
			l.obeyed(p, cmd, o.Status)
		}
	})
	switch {
	case fenced:
		l.cfg.OnFenced(c)
		return "", errFenced
	case err != nil || o.Fenced:
		return "", err
	}
	return o.Outcome, nil
}

// beginWrite begins a transaction of a command: Close waits for its end. It gives nil where the command has to wait.
func (l *Lanes) beginWrite(c *ledger.Claim, cmd ledger.Command) *part {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[c]
	if p == nil || p.closing || p.gone || l.dispatch.stopped {
		return nil
	}
	if la := p.lanes[cmd.Line.Entity]; la != nil && la.head != nil && la.head.LaneSeq == cmd.LaneSeq && la.busy() {
		return nil
	}
	p.busy++
	p.writing++
	return p
}

// endWrite ends it with what follows, and says whether the claim turned out to be fenced, once.
func (l *Lanes) endWrite(p *part, fenced bool, then func()) (lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.writing--
	l.settle(p)
	if lost = fenced && !p.gone; lost {
		l.forget(p, errFenced)
	}
	if !p.gone {
		then()
	}
	l.results.changed.Broadcast()
	l.dispatch.wake()
	return lost
}

// busy reports whether an attempt of the lane's head is under way or not recorded yet.
func (la *lane) busy() bool {
	switch la.state {
	case idle, ready, waiting, spilled, retired:
		return false
	}
	return true
}

// obeyed brings the lane of an action to what its row says now. One that has ended is taken out by reading its lane anew, where
// it stands in memory or may be in a page that is being read.
func (l *Lanes) obeyed(p *part, cmd ledger.Command, status ledger.Status) {
	switch {
	case status == ledger.Dead || status == ledger.Unknown: // refused
	case status == ledger.Failed || cmd.LaneSeq > p.loadedTo || p.knows(cmd.Line.Entity, cmd.LaneSeq):
		l.runAgain(p, cmd.Line.Entity, cmd.LaneSeq)
	}
}

// knows reports whether an entity's lane has an action in memory, stands at it, or has still to read it.
func (p *part) knows(entity schemas.EntityKey, laneSeq int64) bool {
	la := p.lanes[entity]
	if la == nil {
		at, ok := p.stands.at(entity)
		return ok && laneSeq >= at.head
	}
	for e := la.head; e != nil; e = e.next {
		if e.LaneSeq == laneSeq {
			return true
		}
	}
	return laneSeq >= la.tail
}

// runAgain lets an action run that is open again, in its place: its lane is read anew from there on. Of one that has ended, the
// lane finds out that way.
func (l *Lanes) runAgain(p *part, entity schemas.EntityKey, laneSeq int64) {
	if laneSeq > p.loadedTo { // the cursor comes by
		if p.awaited == nil {
			p.awaited = map[int64]schemas.EntityKey{}
		}
		p.awaited[laneSeq] = entity
		return
	}
	la := p.lane(entity, laneSeq)
	if la.again == 0 || laneSeq < la.again {
		la.again = laneSeq
	}
	if !la.busy() {
		l.reload(la)
	}
}

// arrived looks after a page for actions that were to run again: the page may have been read before that.
func (l *Lanes) arrived(p *part) {
	for laneSeq, entity := range p.awaited {
		if laneSeq <= p.loadedTo {
			delete(p.awaited, laneSeq)
			l.runAgain(p, entity, laneSeq)
		}
	}
}

// reload leaves a lane to the ledger and has it read anew, from the action that is open again or from the lane's head,
// whichever comes first. Another lane takes its place, so that a page that was read before cannot be taken for one that
// was read after.
func (l *Lanes) reload(la *lane) {
	p, after := la.part, la.tail
	upto := max(la.tail, la.skippedTo, la.again)
	switch la.state {
	case ready:
		l.unqueue(la)
	case waiting:
		l.timers.remove(la.head)
	case spilled:
		l.spilled.end(la)
	}
	if la.head != nil {
		after = la.head.LaneSeq - 1
	}
	for la.head != nil {
		l.pop(la)
	}
	delete(p.needsRefill, la)
	la.state = retired
	fresh := &lane{part: p, entity: la.entity, tail: min(after, la.again-1), skippedTo: upto, doubtTo: la.doubtTo}
	p.lanes[la.entity] = fresh
	p.needsRefill[fresh] = struct{}{}
	signal(l.toLoad)
}

// unqueue takes a lane out of the ready ones of its destination.
func (l *Lanes) unqueue(la *lane) {
	l.dispatch.remove(l.dispatch.find(la.head.Destination), func(o *lane) bool { return o == la })
}

// overtaken asks, before an attempt of an action that a person runs again, whether a newer one of its entity has been
// started (P4). A snapshot then ends as stale and true comes back, a delta runs marked late. What cannot be told is dead again.
func (l *Lanes) overtaken(e *entry, d *destination, event *schemas.Event) (ended bool) {
	if e.Redrive == nil || e.Redrive.Force || e.Late {
		return false
	}
	from, ok := l.cfg.Ledger.(commander)
	if !ok {
		return false
	}
	p := e.lane.part
	newer, err := from.Overtaken(p.ctx, p.claim, e.Action)
	switch {
	case p.ctx.Err() != nil:
		l.abandon(e, d)
		return true
	case errors.Is(err, ledger.ErrTooFar): // it makes way: dead, it can be forced
		d.metrics.attempts[sink.ClassOrder].Inc()
		l.finish(e, d, ledger.Result{Status: ledger.Dead, Class: string(sink.ClassOrder), Error: clean(err)}, nil)
		return true
	case err != nil:
		l.putOff(e, d, err)
		return true
	case newer && event.Payload == schemas.Snapshot:
		l.endStale(e, d, from)
		return true
	}
	e.Late = newer
	return false
}

// endStale ends a running head as stale and lets its lane go on.
func (l *Lanes) endStale(e *entry, d *destination, from commander) {
	p := e.lane.part
	l.mu.Lock()
	p.writing++
	l.mu.Unlock()
	fenced, err := from.EndStale(p.ctx, p.claim, e.LaneSeq)
	if err != nil && p.ctx.Err() == nil {
		l.mu.Lock()
		p.writing--
		l.mu.Unlock()
		l.putOff(e, d, err)
		return
	}
	if err == nil && !fenced {
		l.log.Info("stale: a newer one was started before it was to run again", "event_id", e.EventID, "source", e.Source,
			"action_id", e.ID, "entity", e.Entity)
	}
	l.mu.Lock()
	p.writing--
	l.dispatch.release(e, d, nil)
	lost := fenced && !p.gone
	if lost {
		l.forget(p, errFenced)
	}
	if p.gone || err != nil { // the claim is given up: the next owner finds the action open, or stale
		l.discard(e)
	} else {
		l.settle(p)
		e.lane.told(e)
		l.pop(e.lane)
		l.arm(e.lane)
	}
	l.results.changed.Broadcast()
	l.dispatch.wake()
	l.mu.Unlock()
	if lost {
		l.cfg.OnFenced(p.claim)
	}
}

// tries counts the attempts of an action, the n-th just made, as the retry policy counts them, and says since when: a
// person who runs it again grants all of them anew.
func (e *entry) tries(n int) (tries int, since time.Time) {
	if e.Redrive == nil {
		return n, e.FirstAt
	}
	return n - e.Redrive.Spent, e.Redrive.At
}
