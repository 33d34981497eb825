package lane

import (
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Long work. A destination answers 202, the action is processing, and its lane is away: it keeps its head and nothing else, so
// that it costs the others neither worker nor slot nor place in the window. It comes back when the destination has said what
// came of it, or when it has been silent for too long:
//
//	running ──202──▶ recording ──▶ away ──report──────────▶ recording ──▶ done, failed, dead
//	                                 └──deadline, silence──▶ recording ──▶ failed, unknown, dead
//
// A report counts as long as its action has not ended and no later attempt is recorded, wherever the head is; one that says done
// also once that attempt has failed.

// LongPolicy says how a destination may finish its actions later. The zero value: it may not, and 202 is success.
type LongPolicy struct {
	Deadline  time.Duration // how long the result is waited for, from the 202 on; 0: no long work
	Heartbeat time.Duration // the longest silence before it; 0: no bound but the deadline
	// Most caps what the destination works on at once, for this subscription in this process; default 1000.
	Most int
}

const (
	defaultMost = 1000
	// reportEvery is how often the owner looks for reports: an index that is nearly always empty.
	reportEvery = 500 * time.Millisecond
	// reportGrace is how long after a claim the result is waited for at least: nobody may have been there to take it.
	reportGrace = 30 * time.Second
)

// longLedger is implemented by ledgers that keep what destinations say later.
type longLedger interface {
	Reports(ctx context.Context, claims []*ledger.Claim) ([]ledger.OpenReport, error)
	EndReport(ctx context.Context, r ledger.OpenReport) error
	Quiet(ctx context.Context, c *ledger.Claim, laneSeqs []int64) (map[int64]time.Duration, error)
}

// long is what an entry knows of its long work.
type long struct {
	dest    *destination // that has it; nil: none
	until   time.Time    // the deadline
	silent  time.Time    // when the silence is too long, as far as is known here; zero: never
	silence time.Duration
	applied int // attempt whose report was applied last
}

// later is what an attempt carries; nil where the destination finishes nothing later.
func (l *Lanes) later(e *entry, d *destination) *sink.Later {
	if d.Long.Deadline == 0 {
		return nil
	}
	out := l.cfg.Later(ledger.AttemptRef{Fence: e.Claim, LaneSeq: e.LaneSeq, Attempt: e.Attempts + 1}, e.ID)
	out.Deadline, out.Heartbeat = d.Long.Deadline, d.Long.Heartbeat
	return &out
}

// taken turns a success into processing where the destination says the rest later.
func (d *destination) taken(res *ledger.Result, out sink.Outcome) {
	if out.Later && d.Long.Deadline > 0 {
		res.Status, res.Left, res.Silence = ledger.Processing, d.Long.Deadline, d.Long.Heartbeat
	}
}

// asyncWork has the heads that destinations have accepted and will report on. Callers hold mu.
type asyncWork struct {
	count   int           // heads that are processing, and those that will be once that is recorded
	overdue []*entry      // heads whose report has not come in time, as far as is known here
	changed chan struct{} // capacity 1, never closed: something is overdue, or the first head is processing
}

// track counts a head as accepted by d.
func (a *asyncWork) track(e *entry, d *destination) {
	if e.long.dest == nil {
		e.long.dest = d
		d.async++
		a.count++
	}
}

// untrack counts a head as ended and reports whether that has made room at its destination.
func (a *asyncWork) untrack(e *entry) bool {
	d := e.long.dest
	if d == nil {
		return false
	}
	e.long.dest = nil
	d.async--
	a.count--
	return true
}

// expired notes that the report of a head has not come in time.
func (a *asyncWork) expired(e *entry) {
	a.overdue = append(a.overdue, e)
	signal(a.changed)
}

// takeOverdue gives all that is overdue.
func (a *asyncWork) takeOverdue() []*entry {
	list := a.overdue
	a.overdue = nil
	return list
}

// untrack counts a head as ended.
func (l *Lanes) untrack(e *entry) {
	if l.async.untrack(e) {
		l.dispatch.wake()
	}
}

// waitFor sets how long the result of a head is waited for.
func (l *Lanes) waitFor(e *entry, left, quiet, silence time.Duration) {
	now := time.Now()
	e.long.until, e.long.silent, e.long.silence = now.Add(left), time.Time{}, silence
	if silence > 0 {
		e.long.silent = now.Add(quiet)
	}
}

// due is when the head has been away for too long, as far as is known here.
func (w *long) due() time.Time {
	if !w.silent.IsZero() && w.silent.Before(w.until) {
		return w.silent
	}
	return w.until
}

// still reports whether the lane keeps nothing but its head in memory, at most.
func (la *lane) still() bool { return la.state == processing || la.state == spilled }

// leave lets a lane wait for what its destination says of its head. What is behind is counted as left in the ledger.
func (l *Lanes) leave(la *lane) {
	e := la.head
	if la.n > 1 || la.overflow() {
		la.skippedTo = max(la.skippedTo, la.tail)
	}
	for la.head != nil {
		l.pop(la)
	}
	la.tail, la.state, la.out = e.LaneSeq, processing, e
	delete(la.part.needsRefill, la)
	if l.async.count == 0 {
		signal(l.async.changed)
	}
	l.async.track(e, l.dispatch.find(e.Destination))
	l.watchFor(e)
	signal(l.toLoad)
}

// watchFor sets the timer of a head that is away.
func (l *Lanes) watchFor(e *entry) {
	e.notBefore = e.long.due()
	l.timers.add(e)
}

// back makes what was away the head of its lane again.
func (l *Lanes) back(e *entry) {
	la := e.lane
	l.timers.remove(e)
	l.untrack(e)
	la.out, la.head, la.last, la.n, la.state = nil, e, e, 1, idle
	la.part.open++
	l.open++
}

// concluded applies what was said of an idle lane's head in the place of an attempt.
func (l *Lanes) concluded(e *entry) bool {
	r, ok := l.reported(e)
	if ok {
		l.conclude(e, l.said(e, &r))
	}
	return ok
}

// conclude hands the end of an idle lane's head to the completer.
func (l *Lanes) conclude(e *entry, res ledger.Result) {
	res.Claim, res.LaneSeq, res.ID = e.lane.part.claim, e.LaneSeq, e.ID
	l.untrack(e) // where it was said before its lane was away
	e.lane.state = recording
	e.lane.part.busy++
	l.results.add(completion{e: e, res: res})
}

// answered applies what was said of a head that has just got its slot, in the place of the attempt.
func (l *Lanes) answered(e *entry, d *destination) bool {
	l.mu.Lock()
	r, ok := l.reported(e)
	if !ok {
		l.mu.Unlock()
		return false
	}
	if e.size == 0 { // its payload is not loaded after all
		l.budget.endLoad(nil)
	}
	res := l.said(e, &r)
	l.mu.Unlock()
	l.finish(e, d, res, nil)
	return true
}

// said is what is to be recorded of a report. The destination has said what it did, so that a failure is judged as if
// the sink were idempotent.
func (l *Lanes) said(e *entry, r *ledger.OpenReport) ledger.Result {
	e.long.applied = r.Attempt
	res := ledger.Result{
		Attempt: r.Attempt, Status: r.Status, Code: r.Code, Error: r.Error, Response: r.Response, Reported: true, Latency: l.latency(e),
	}
	switch r.Status {
	case ledger.Dead:
		res.Class = string(sink.ClassRejected)
	case ledger.Failed:
		l.again(e, &res, sink.Idempotent, sink.ClassBusy, r.Wait)
	}
	l.spare(e, &res)
	l.metrics.long.WithLabelValues(e.Destination, string(r.Status)).Inc()
	l.line(e, &res)
	return res
}

// timedOut is what is to be recorded of a head whose destination has not said anything in time.
func (l *Lanes) timedOut(e *entry) ledger.Result {
	end, text := "deadline", "no result before the deadline"
	if e.long.due().Before(e.long.until) {
		end, text = "silence", "no heartbeat for "+e.long.silence.String()
	}
	res := ledger.Result{Attempt: e.Attempts, Error: text, Latency: l.latency(e)}
	l.again(e, &res, l.dispatch.find(e.Destination).Sink.Idempotency(), sink.ClassTimeout, 0)
	l.spare(e, &res)
	l.metrics.long.WithLabelValues(e.Destination, end).Inc()
	l.line(e, &res)
	return res
}

// again judges an attempt that has failed later.
func (l *Lanes) again(e *entry, res *ledger.Result, kind sink.Idempotency, class sink.Class, asked time.Duration) {
	d := l.dispatch.find(e.Destination)
	tries, since := e.tries(res.Attempt)
	wait := Delay(d.Retry, tries, asked, l.cfg.Rand())
	res.Class = string(class)
	switch judge(d.Retry, kind, class, tries, e.alike(class), d.elapsed(since, time.Now()), wait) {
	case retry:
		res.Status, res.NextIn = ledger.Failed, wait
	case unknown:
		res.Status = ledger.Unknown
	default:
		res.Status = ledger.Dead
	}
}

// latency is how long an attempt has taken, where it is the first; when others began is not kept.
func (l *Lanes) latency(e *entry) time.Duration {
	if e.Attempts > 1 || e.FirstAt.IsZero() {
		return 0
	}
	return time.Since(e.FirstAt)
}

// watch looks for reports and for heads that have been away for too long, until ctx ends. Where no destination finishes
// anything later, it only waits.
func (l *Lanes) watch(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		if !l.expecting() {
			select {
			case <-l.async.changed:
			case <-ctx.Done():
				return
			}
			tick.Reset(reportEvery)
		}
		select {
		case <-tick.C:
		case <-l.async.changed:
		case <-ctx.Done():
			return
		}
		overdue := l.takeOverdue() // before the reports: one that came in time is found
		err := l.readReports(ctx)
		if err == nil {
			err = l.expire(ctx, overdue)
		} else {
			l.putOverdue(overdue)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("read what destinations said later, again in a moment", "error", err)
			sleep(ctx, reportEvery)
		}
	}
}

// expecting reports whether anything may be said later.
func (l *Lanes) expecting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.long != nil && (l.async.count > 0 || slices.ContainsFunc(l.dispatch.order, func(d *destination) bool { return d.Long.Deadline > 0 }))
}

func (l *Lanes) takeOverdue() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.async.takeOverdue()
}

func (l *Lanes) putOverdue(list []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.async.overdue = append(l.async.overdue, list...)
}

// expire ends the wait for heads that have been away for too long. Heartbeats are not told to the owner, so it asks for them
// first.
func (l *Lanes) expire(ctx context.Context, overdue []*entry) error {
	for len(overdue) > 0 {
		c := overdue[0].lane.part.claim
		var mine, rest []*entry
		var seqs []int64
		for _, e := range overdue {
			if e.lane.part.claim != c {
				rest = append(rest, e)
				continue
			}
			mine, seqs = append(mine, e), append(seqs, e.LaneSeq)
		}
		quiet, err := l.quiet(ctx, c, seqs)
		if err != nil {
			l.putOverdue(overdue)
			return err
		}
		l.giveUp(mine, quiet)
		overdue = rest
	}
	return nil
}

func (l *Lanes) quiet(ctx context.Context, c *ledger.Claim, seqs []int64) (map[int64]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return l.long.Quiet(ctx, c, seqs)
}

// giveUp ends the wait for those that are overdue indeed.
func (l *Lanes) giveUp(list []*entry, quiet map[int64]time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range list {
		la, now := e.lane, time.Now()
		if la.out != e || la.part.closing || la.part.gone {
			continue
		}
		if left, ok := quiet[e.LaneSeq]; ok && e.long.silence > 0 {
			e.long.silent = now.Add(left)
		}
		if e.long.due().After(now) {
			l.watchFor(e)
			continue
		}
		l.back(e)
		l.conclude(e, l.timedOut(e))
	}
	l.dispatch.wake()
}
