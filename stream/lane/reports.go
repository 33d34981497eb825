package lane

import (
	"context"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What destinations say later of the actions they have taken, as the ledger keeps it until the owner applies it.

// reported gives what was said of a head and still counts. Its attempt is the last that is recorded, or a later one, which nobody
// came to record; or it is an earlier one that is done, and what was tried after it has come to nothing.
func (l *Lanes) reported(e *entry) (last ledger.OpenReport, ok bool) {
	if e.Status == ledger.Dead {
		return last, false
	}
	for _, r := range e.lane.part.reports[e.LaneSeq] {
		counts := r.Attempt >= e.Attempts || r.Status == ledger.Done && e.Status != ledger.Processing
		if counts && r.Attempt != e.long.applied && r.Attempt > last.Attempt {
			last, ok = r, true
		}
	}
	return last, ok
}

// spare has an attempt that would end its action badly, or leave it to a person, count as one that is tried again where an
// earlier one is said to be done: that is what is applied next.
func (l *Lanes) spare(e *entry, res *ledger.Result) {
	done := func(r ledger.OpenReport) bool { return r.Status == ledger.Done && r.Attempt < res.Attempt }
	if (res.Status == ledger.Dead || res.Status == ledger.Unknown) && slices.ContainsFunc(e.lane.part.reports[e.LaneSeq], done) {
		res.Status, res.NextIn = ledger.Failed, 0
	}
}

// firstReports reads what was said of a claim's actions before any of them runs.
func (l *Lanes) firstReports(ctx context.Context, p *part) error {
	if l.long == nil {
		return nil
	}
	list, err := l.long.Reports(ctx, []*ledger.Claim{p.claim})
	p.reports = map[int64][]ledger.OpenReport{}
	for _, r := range list {
		p.reports[r.LaneSeq] = append(p.reports[r.LaneSeq], r)
	}
	return err
}

// readReports reads what was said and applies what counts; what is late is noted as that.
func (l *Lanes) readReports(ctx context.Context) error {
	l.mu.Lock()
	claims := make([]*ledger.Claim, 0, len(l.parts))
	for c, p := range l.parts {
		if !p.closing {
			claims = append(claims, c)
		}
	}
	l.mu.Unlock()
	if len(claims) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	list, err := l.long.Reports(ctx, claims)
	if err != nil {
		return err
	}
	for _, r := range l.hear(claims, list) {
		if err := l.long.EndReport(ctx, r); err != nil {
			return err
		}
		l.log.Info("result came too late and changes nothing", "lane_seq", r.LaneSeq, "attempt", r.Attempt, "result", r.Status)
	}
	return nil
}

// hear gives the parts what was said to them and sets going the lanes that wait for it. It returns what is late.
func (l *Lanes) hear(claims []*ledger.Claim, list []ledger.OpenReport) (late []ledger.OpenReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		if p := l.parts[c]; p != nil {
			p.reports = map[int64][]ledger.OpenReport{}
		}
	}
	for _, r := range list {
		p := l.parts[r.Claim]
		switch {
		case p == nil || p.closing:
		case r.Past:
			late = append(late, r)
		default:
			p.reports[r.LaneSeq] = append(p.reports[r.LaneSeq], r)
		}
	}
	for _, r := range list { // now that all of an action's are known
		if p := l.parts[r.Claim]; p != nil && !p.closing && !r.Past {
			l.heard(p, r.Entity, r.LaneSeq)
		}
	}
	l.dispatch.wake()
	return late
}

// heard sets a lane going whose head something was said of: it is away, or waits for its next attempt, in memory or at rest, or
// stands because nobody knew what became of it. Elsewhere the head finds it before its attempt.
func (l *Lanes) heard(p *part, entity schemas.EntityKey, laneSeq int64) {
	la := p.lanes[entity]
	switch {
	case la == nil:
		if at, ok := p.stands.at(entity); ok && at.head == laneSeq {
			l.runAgain(p, entity, laneSeq)
		}
	case la.state == processing && la.out.LaneSeq == laneSeq:
		if _, counts := l.reported(la.out); counts {
			l.back(la.out)
			l.arm(la)
		}
	case la.state == waiting && la.head.LaneSeq == laneSeq:
		l.timers.remove(la.head)
		la.state = idle
		l.arm(la)
	case la.state == spilled && la.tail == laneSeq-1:
		l.spilled.reload(la, true)
	}
}
