package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// report is what a destination reported, until it is applied or noted as late.
type report struct {
	ledger.Report
	ended   bool
	applied bool // that is how it ended
}

// Report is inbox.Inbox.Report. An attempt has one report, the first; one that comes too late is kept as that.
func (m *Memory) Report(r ledger.Report) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Fence < 1 || int(r.Fence) > len(m.fences) || r.LaneSeq < 1 || r.Attempt < 1 || r.Epoch < 1 {
		return schemas.Errorf(schemas.Invalid, "record a result", "no attempt %d of action %d", r.Attempt, r.LaneSeq)
	}
	a := m.fences[r.Fence-1].actions[r.LaneSeq]
	late := a != nil && r.Late(a.status, a.attempts, a.epoch)
	switch known := m.reportOf(r.AttemptRef); {
	case known == nil:
		m.reports = append(m.reports, &report{Report: r, ended: late && r.Cost == 0})
	case !late:
		m.reopenDone(r.AttemptRef)
	}
	return nil
}

func (m *Memory) reportOf(ref ledger.AttemptRef) *report {
	for _, r := range m.reports {
		if r.AttemptRef == ref {
			return r
		}
	}
	return nil
}

// endApplied ends a report as applied. The caller holds mu.
func (m *Memory) endApplied(ref ledger.AttemptRef) {
	if r := m.reportOf(ref); r != nil && !r.ended {
		r.ended, r.applied = true, true
	}
}

// endLate ends a report that was late, unless it is not by now or was applied, and reports whether it has ended as late. The caller holds mu.
func (m *Memory) endLate(r *ledger.Report) bool {
	a, known := m.fences[r.Fence-1].actions[r.LaneSeq], m.reportOf(r.AttemptRef)
	if known == nil || known.applied || a != nil && a.withRow && !r.Late(a.status, a.attempts, a.epoch) {
		return false
	}
	known.ended = true
	return true
}

// reopenDone has what was said too late to be done count again. The caller holds mu.
func (m *Memory) reopenDone(of ledger.AttemptRef) {
	for _, r := range m.reports {
		if r.ended && !r.applied && r.Fence == of.Fence && r.LaneSeq == of.LaneSeq && r.Status == ledger.Done {
			r.ended, r.Cost = false, 0
		}
	}
}

// Reports is [ledger.Namespace.Reports].
func (p *Process) Reports(ctx context.Context, claims []*ledger.Claim) (list []ledger.OpenReport, err error) {
	err = p.read(ctx, "reports", func() error {
		for _, r := range p.m.reports {
			i := slices.IndexFunc(claims, func(c *ledger.Claim) bool { return c.ID == r.Fence })
			if i >= 0 && !r.ended {
				list = append(list, p.m.openReport(claims[i], r.Report))
			}
		}
		return nil
	})
	return list, unavailable("read the results said to "+p.spec.Name, err)
}

// openReport is a report as lanes read it.
func (m *Memory) openReport(c *ledger.Claim, r ledger.Report) ledger.OpenReport {
	out := ledger.OpenReport{Report: r, Claim: c}
	status, attempts, epoch := ledger.Status(""), 0, int64(0)
	a, mine := m.fences[c.ID-1].actions[r.LaneSeq], m.claims[c]
	switch {
	case a != nil && a.withRow:
		status, attempts, epoch, out.Entity = a.status, a.attempts, a.epoch, a.event.Entity
		out.Name, out.Destination, out.Source, out.EventID = a.effect.Name, a.effect.Destination, a.event.Source, a.event.ID
	case mine != nil && mine.ended[r.LaneSeq]:
		status = ledger.Done
	}
	out.Past = r.Late(status, attempts, epoch)
	return out
}

// EndReport is [ledger.Namespace.EndReport].
func (p *Process) EndReport(ctx context.Context, r ledger.OpenReport) (late bool, err error) {
	err = p.transaction(ctx, "endreport", shared, nil, func() error {
		late = p.m.endLate(&r.Report)
		return nil
	})
	return late && err == nil, unavailable("end a late result of "+p.spec.Name, p.waitIfKilled(ctx, err))
}

// SilenceLeft is [ledger.Namespace.SilenceLeft].
func (p *Process) SilenceLeft(ctx context.Context, c *ledger.Claim, laneSeqs []int64) (map[int64]time.Duration, error) {
	left := make(map[int64]time.Duration, len(laneSeqs))
	err := p.read(ctx, "silence", func() error {
		for _, seq := range laneSeqs {
			if a := p.m.fences[c.ID-1].actions[seq]; a != nil && a.status == ledger.Processing {
				left[seq] = 0
				if a.silence > 0 {
					left[seq] = p.m.left(a.beat.Add(a.silence))
				}
			}
		}
		return nil
	})
	return left, unavailable("read the heartbeats for "+p.spec.Name, err)
}

// Cancel is [ledger.Namespace.Cancel].
func (p *Process) Cancel(ctx context.Context, c *ledger.Claim, ref ledger.AttemptRef, told bool) (fenced bool, err error) {
	err = p.untilDone(ctx, "cancel", shared, []int32{c.ID}, 0, func() error {
		f := p.m.fenceOf(c)
		if fenced = f == nil; fenced {
			return nil
		}
		a := f.actions[ref.LaneSeq]
		if a != nil && a.status == ledger.Processing && a.attempts == ref.Attempt && a.epoch == ref.Epoch {
			if a.newer = true; told {
				a.cancelURL = ""
			}
		}
		return nil
	})
	if err != nil {
		return false, &schemas.Error{Kind: kindOf(err), Op: "cancel an attempt of " + p.spec.Name, Err: err}
	}
	return fenced, nil
}

// Commit is [ledger.Namespace.Commit]. There is no SQL in memory: every statement succeeds, and its tag is its own text.
func (p *Process) Commit(ctx context.Context, r ledger.Result, s sink.Statement) (tag string, err error) {
	op := "commit an action of " + p.spec.Name
	if err := r.Validate(); err != nil || r.Status != ledger.Done {
		return "", &schemas.Error{Kind: schemas.Invalid, Op: op, Err: errors.Join(err, fmt.Errorf("status %q", r.Status))}
	}
	one := []*ledger.Result{&r}
	if err := p.m.checkHad(one); err != nil {
		return "", &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	err = p.transaction(ctx, "commit", shared, []int32{r.Claim.ID}, func() (err error) {
		tag, err = p.m.commitStatement(one, s)
		return err
	})
	switch {
	case err == nil && tag != "":
		p.m.markRecorded(one)
		return tag, nil
	case err == nil: // by an earlier Commit
		p.m.markUnknown(one)
		return "", nil
	}
	p.m.markUnknown(one)
	if errors.Is(err, ledger.ErrFenced) {
		return "", err
	}
	return "", unavailable(op, p.waitIfKilled(ctx, err))
}

// Committed is [ledger.Namespace.Committed].
func (p *Process) Committed(ctx context.Context, r ledger.Result) (done bool, err error) {
	op := "find out whether an action of " + p.spec.Name + " was committed"
	if err := r.Validate(); err != nil {
		return false, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	err = p.transaction(ctx, "committed", shared, []int32{r.Claim.ID}, func() error {
		f := p.m.fenceOf(r.Claim)
		if f == nil {
			return ledger.ErrFenced
		}
		a := f.actions[r.LaneSeq]
		done = a.completed || a.status == ledger.Done
		return nil
	})
	if err == nil || errors.Is(err, ledger.ErrFenced) {
		return done, err
	}
	return false, unavailable(op, p.waitIfKilled(ctx, err))
}

// commitStatement executes a statement with the completion. An empty tag: the action is done already. The caller holds mu.
func (m *Memory) commitStatement(one []*ledger.Result, s sink.Statement) (tag string, err error) {
	r := one[0]
	f := m.fenceOf(r.Claim)
	if f == nil {
		return "", ledger.ErrFenced
	}
	switch a := f.actions[r.LaneSeq]; {
	case a.completed || a.status == ledger.Done:
		return "", nil
	case a.status == ledger.Superseded, a.status.ByGuard():
		return "", refusal{fmt.Errorf("the completion of action %d of fence %d was not written", r.LaneSeq, r.Claim.ID)}
	}
	return s.SQL, m.record(one, map[int32]bool{}, 0)
}
