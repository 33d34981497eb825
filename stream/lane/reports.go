package lane

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// reports has by lane_seq what destinations reported on actions that they had accepted, as last read from the ledger. What was
// applied is not in it. Callers hold mu.
type reports map[int64][]ledger.OpenReport

func (m reports) add(r ledger.OpenReport) { m[r.LaneSeq] = append(m[r.LaneSeq], r) }

// current returns the newest report that counts for a head and is not applied yet, if there is one. A report counts if it is about the last
// recorded attempt, or a later one that was never recorded. One that says done counts also if it is about an earlier attempt, unless a
// later one is under way: an owner may have been killed before it recorded that attempt, and the next owner gave its number again.
func (m reports) current(e *entry) (last ledger.OpenReport, ok bool) {
	if e.Status == ledger.Dead {
		return last, false
	}
	for _, r := range m[e.LaneSeq] {
		counts := !r.Before(e.Attempts, e.AttemptEpoch) || (r.Status == ledger.Done && e.Status != ledger.Processing)
		if counts && r.AttemptRef != e.long.applied && last.Before(r.Attempt, r.Epoch) {
			last, ok = r, true
		}
	}
	return last, ok
}

// overrule changes a result that would end its action as dead or unknown into a failed one that is due at once, if an earlier
// attempt is reported as done: that report is applied next.
func (m reports) overrule(e *entry, res *ledger.Result) {
	epoch := cmp.Or(res.Epoch, e.lane.partition.claim.Epoch)
	done := func(r ledger.OpenReport) bool { return r.Status == ledger.Done && r.Before(res.Attempt, epoch) }
	if (res.Status == ledger.Dead || res.Status == ledger.Unknown) && slices.ContainsFunc(m[e.LaneSeq], done) {
		res.Status, res.NextIn = ledger.Failed, 0
	}
}

// reportReader reads the reports from the ledger and ends the wait for those that do not come. It belongs to one goroutine.
type reportReader struct {
	s      *scheduler
	ledger Ledger
	log    *slog.Logger
	away   time.Time // when the ledger last could not be read; zero: never
}

// readInitial reads the reports on a claim's actions before any of them runs.
func (r *reportReader) readInitial(ctx context.Context, p *partition) error {
	list, err := r.ledger.Reports(ctx, []*ledger.Claim{p.claim})
	p.reports = reports{}
	for _, rep := range list {
		p.reports.add(rep)
	}
	return err
}

// run reads until ctx ends.
func (r *reportReader) run(ctx context.Context) {
	every := reportEvery
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if now := r.every(); now != every {
			every = now
			tick.Reset(every)
		}
		select {
		case <-tick.C:
		case <-r.s.q.long.changed:
		case <-ctx.Done():
			return
		}
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.away = time.Now()
			r.log.Warn("what destinations reported could not be read; retrying", "error", err)
			sleep(ctx, reportEvery)
		}
	}
}

// every returns how often to read.
func (r *reportReader) every() time.Duration {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.q.expecting() {
		return reportEvery
	}
	return reportRarely
}

// expecting reports whether destinations finish something later.
func (q *queues) expecting() bool {
	long := func(d *sinkQueue) bool { return d.Long.Deadline > 0 }
	return q.long.count > 0 || slices.ContainsFunc(q.dispatch.order, long)
}

// round applies the reports that have come and ends the wait for those that are overdue. It takes the overdue heads before it
// reads, so that a report that came in time is found.
func (r *reportReader) round(ctx context.Context) error {
	r.s.mu.Lock()
	overdue := r.s.q.long.takeOverdue()
	r.s.mu.Unlock()
	err := r.read(ctx)
	for err == nil && len(overdue) > 0 {
		overdue, err = r.expire(ctx, overdue)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.q.long.overdue = append(r.s.q.long.overdue, overdue...)
	return err
}

// read reads the reports and applies those that count. It ends those that came too late, and then tells the guards what they have cost: an owner that
// is killed meanwhile loses that, as it does of a report in time, since counters are written behind the results.
func (r *reportReader) read(ctx context.Context) error {
	claims := r.claims()
	if len(claims) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	list, err := r.ledger.Reports(ctx, claims)
	if err != nil {
		return err
	}
	for _, late := range r.takeReports(claims, list) {
		ended, err := r.ledger.EndReport(ctx, late)
		if err != nil {
			return err
		}
		if !ended { // it counts by now, and so does its cost, once it is applied
			continue
		}
		if late.Cost > 0 {
			a := sink.Action{ID: late.ID, Name: late.Name, Subscription: r.s.q.cfg.Subscription, Destination: late.Destination, Attempt: late.Attempt,
				Event: &schemas.Event{Source: late.Source, ID: late.EventID, Entity: late.Entity}}
			r.s.after(a, sink.Outcome{Cost: sink.Cost(late.Cost), Code: late.Code}, policy.TooLate)
		}
		r.log.Info("result came too late and changes nothing", "lane_seq", late.LaneSeq, "attempt", late.Attempt, "result", late.Status)
	}
	return nil
}

// claims returns the claims whose lanes run, without those that are being given up, and where nothing is expected without those of which
// nothing is open: a process at rest reads nothing.
func (r *reportReader) claims() []*ledger.Claim {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	claims := make([]*ledger.Claim, 0, len(r.s.q.partitions))
	expecting := r.s.q.expecting()
	for c, p := range r.s.q.partitions {
		if !p.closing && (expecting || len(p.lanes)+len(p.parked)+len(p.spilled) > 0) {
			claims = append(claims, c)
		}
	}
	return claims
}

// takeReports gives the partitions their reports and resumes the lanes that wait for them. It returns the reports that came too
// late.
func (r *reportReader) takeReports(claims []*ledger.Claim, list []ledger.OpenReport) (late []ledger.OpenReport) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		if p := s.q.partitions[c]; p != nil {
			p.reports = reports{}
		}
	}
	for _, rep := range list {
		p := s.q.partitions[rep.Claim]
		switch {
		case p == nil || p.closing:
		case rep.Past:
			late = append(late, rep)
		default:
			p.reports.add(rep)
		}
	}
	for _, rep := range list { // now that all of an action's are known
		if p := s.q.partitions[rep.Claim]; p != nil && !p.closing && !rep.Past {
			r.resume(p, rep.Entity, rep.LaneSeq)
		}
	}
	s.q.dispatch.wake()
	return late
}

// resume lets a lane go on after a report on its head, if the head is processing, waits for its next attempt (in memory or
// spilled) or its turn, or is parked with an unknown outcome. In any other state the report is found before the next attempt.
func (r *reportReader) resume(p *partition, entity schemas.EntityKey, laneSeq int64) {
	key := laneKeyOf(entity)
	s, la := r.s, p.lanes[key]
	switch {
	case la == nil:
		if at, ok := p.parked[key]; ok && at.head == laneSeq {
			s.q.rerun(p, entity, laneSeq)
		} else if at, ok := p.spilled[key]; ok && at.head == laneSeq {
			s.q.spilled.reload(spilledAt{p, key}, true)
		}
	case la.state == processing && la.accepted.LaneSeq == laneSeq:
		if _, counts := p.reports.current(la.accepted); counts {
			s.q.endProcessing(la.accepted)
			s.q.schedule(la)
		}
	case la.state == waiting && la.head.LaneSeq == laneSeq:
		s.q.timers.remove(la.head)
		la.state = idle
		s.q.schedule(la)
	case la.state == ready && la.head.LaneSeq == laneSeq:
		if _, counts := p.reports.current(la.head); counts { // its destination may take nothing for long
			s.q.dispatch.remove(s.q.dispatch.find(la.head.Destination), func(o *lane) bool { return o == la })
			s.q.schedule(la)
		}
	}
}

// expire ends the wait for the overdue heads of one claim and returns those of other claims. Any process may have received a
// heartbeat, so it first asks the ledger.
func (r *reportReader) expire(ctx context.Context, overdue []*entry) (others []*entry, err error) {
	c := overdue[0].lane.partition.claim
	var own []*entry
	var seqs []int64
	for _, e := range overdue {
		if e.lane.partition.claim != c {
			others = append(others, e)
			continue
		}
		own, seqs = append(own, e), append(seqs, e.LaneSeq)
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	quiet, err := r.ledger.SilenceLeft(ctx, c, seqs)
	if err != nil {
		return overdue, err
	}
	r.giveUp(own, quiet)
	return others, nil
}

// giveUp ends the wait for heads that are still overdue once their heartbeats are known. While the ledger was away, their destinations were
// refused too: they have as long after it as after a claim.
func (r *reportReader) giveUp(list []*entry, quiet map[int64]time.Duration) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		la, now := e.lane, time.Now()
		if la.accepted != e || la.partition.ending() {
			continue
		}
		if left, ok := quiet[e.LaneSeq]; ok && e.long.silence > 0 {
			e.long.silent = now.Add(left)
		}
		if !r.away.IsZero() {
			e.long.notBefore(r.away)
		}
		if e.long.due().After(now) {
			s.q.setReportTimer(e)
			continue
		}
		s.q.endProcessing(e)
		s.q.conclude(e, s.q.timedOut(e))
	}
	s.q.dispatch.wake()
}
