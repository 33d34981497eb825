package lane

import (
	"context"
	"errors"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// ApplyCommand applies what an operator asks for an action. Once begun it goes on until
// the ledger has answered or the claim is given up, whatever becomes of ctx: what was written must not be forgotten here.
func (l *Lanes) ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	p := l.beginCommand(c, cmd)
	if p == nil {
		return "", nil
	}
	o, err := l.cfg.Ledger.ApplyLaneCommand(p.ctx, c, cmd)
	fenced := l.s.endWrite(p, err == nil && o.Fenced, func() {
		p.endBusy()
		if err == nil && !p.dropped {
			l.commandApplied(p, cmd, o.Status)
		}
	})
	switch {
	case fenced:
		l.cfg.OnFenced(c)
		return "", errFenced
	case err != nil || o.Fenced:
		return "", err
	}
	if o.Outcome == ledger.RunsAgain && cmd.Detail.Force {
		c.Revived(cmd.LaneSeq) // it may have been stale
	}
	return o.Outcome, nil
}

// beginCommand begins the transaction of a command: Close waits for its end. It gives nil if the command has to wait.
func (l *Lanes) beginCommand(c *ledger.Claim, cmd ledger.Command) *partition {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.q.partitions[c]
	if p == nil || p.ending() || s.q.dispatch.stopped {
		return nil
	}
	if la := p.lanes[laneKeyOf(cmd.VersionLine.Entity)]; la != nil && la.head != nil && la.head.LaneSeq == cmd.LaneSeq && la.busy() {
		return nil
	}
	p.beginBusy()
	p.writing++
	return p
}

// commandApplied brings the lane of an action to what its row says now. Where the action has ended, its lane is read again if the
// action is in memory or may be in a page that is being read. Called with mu held.
func (l *Lanes) commandApplied(p *partition, cmd ledger.Command, status ledger.Status) {
	switch {
	case status == ledger.Dead || status == ledger.Unknown: // the command was refused
	case status == ledger.Failed || p.mayHave(cmd.VersionLine.Entity, cmd.LaneSeq):
		l.s.q.rerun(p, cmd.VersionLine.Entity, cmd.LaneSeq)
	}
}

// endIfOvertaken is for an action that an operator replays. Before its attempt it asks the ledger whether its entity has a
// newer version (P4). If so, a snapshot ends as stale, and a delta runs marked late. If the ledger cannot tell any more, the action becomes
// dead again. ended means that there is no attempt now.
func (w *workers) endIfOvertaken(e *entry, d *sinkQueue, event *schemas.Event) (ended bool) {
	if e.Replay == nil || e.Replay.Force || e.Late {
		return false
	}
	p := e.lane.partition
	newer, err := w.cfg.Ledger.Overtaken(p.ctx, p.claim, e.Action)
	switch {
	case p.ctx.Err() != nil:
		w.s.abandon(e, d)
		return true
	case errors.Is(err, ledger.ErrTooFar): // an operator can force a dead letter
		d.metrics.attempts[sink.ClassOrder].Inc()
		w.finish(e, d, ledger.Result{Status: ledger.Dead, Class: string(sink.ClassOrder), Error: clean(err)}, nil)
		return true
	case err != nil:
		w.retryLoad(e, d, err)
		return true
	case newer && event.Payload == schemas.Snapshot:
		w.endStale(e, d)
		return true
	}
	e.Late = newer
	return false
}

// endStale ends a running head as stale and lets its lane go on.
func (w *workers) endStale(e *entry, d *sinkQueue) {
	p := e.lane.partition
	w.s.beginWrite(p)
	fenced, err := w.cfg.Ledger.EndStale(p.ctx, p.claim, e.LaneSeq)
	if err != nil && p.ctx.Err() == nil {
		w.s.endWrite(p, false, func() {})
		w.retryLoad(e, d, err)
		return
	}
	if err == nil && !fenced {
		w.log.Info("stale: its entity had a newer version before it was to run again", "event_id", e.EventID, "source", e.Source,
			"action_id", e.ID, "entity", e.Entity)
	}
	lost := w.s.endWrite(p, fenced, func() { w.s.q.endStale(e, d, err == nil) })
	if lost {
		w.cfg.OnFenced(p.claim)
	}
}
