package lane

import (
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Asynchronous work. A destination answers 202, the action is processing, and its lane keeps its head and nothing else, so that
// it costs the others neither worker nor slot nor place in the window. It goes on when the destination has reported the result,
// or has been silent for too long:
//
//	running ──202──▶ recording ──▶ processing ──report──────────▶ recording ──▶ done, failed, dead
//	                                     └──deadline, silence───▶ recording ──▶ failed, unknown, dead
//
// A report counts as long as its action has not ended and no later attempt is recorded, wherever the head is; one that says done
// also once that attempt has failed.

// LongPolicy says how a destination may finish its actions later. The zero value: it may not, and 202 is success.
type LongPolicy struct {
	Deadline  time.Duration // how long the result is waited for, from the 202 on; 0: no asynchronous work
	Heartbeat time.Duration // the longest silence before it; 0: no bound but the deadline
	// Most caps what the destination works on at once, for this subscription in this process; default 1000.
	Most int
}

const (
	defaultMost = 1000
	// reportEvery is how often reports are looked for: in an index that is nearly always empty.
	reportEvery = 500 * time.Millisecond
	// reportGrace is how long after a claim the result is waited for at least: nobody may have been there to take it.
	reportGrace = 30 * time.Second
)

// long is what an entry knows of its asynchronous work.
type long struct {
	dest    *destination // that has accepted it; nil: none
	until   time.Time    // the deadline
	silent  time.Time    // when the silence is too long, as far as is known here; zero: never
	silence time.Duration
	applied int // attempt whose report was applied last
}

// waitFor sets how long the result is waited for, and the next sign of life.
func (w *long) waitFor(left, quiet, silence time.Duration) {
	now := time.Now()
	w.until, w.silent, w.silence = now.Add(left), time.Time{}, silence
	if silence > 0 {
		w.silent = now.Add(quiet)
	}
}

// due is when the wait ends, as far as is known here.
func (w *long) due() time.Time {
	if !w.silent.IsZero() && w.silent.Before(w.until) {
		return w.silent
	}
	return w.until
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

// untrack counts a head as ended, where its destination had accepted it: that has room for another then.
func (q *queues) untrack(e *entry) {
	if d := e.long.dest; d != nil {
		e.long.dest = nil
		d.async--
		q.async.count--
		q.dispatch.wake()
	}
}

// awaitReport lets a lane wait for the report on its head. What is behind is counted as left in the ledger.
func (q *queues) awaitReport(la *lane) {
	e := la.head
	if la.n > 1 || la.overflow() {
		la.skippedTo = max(la.skippedTo, la.tail)
	}
	q.unload(la)
	la.tail, la.state, la.accepted = e.LaneSeq, processing, e
	if q.async.count == 0 {
		signal(q.async.changed)
	}
	q.async.track(e, q.dispatch.find(e.Destination))
	q.setReportTimer(e)
	signal(q.toLoad)
}

func (q *queues) setReportTimer(e *entry) {
	e.notBefore = e.long.due()
	q.timers.add(e)
}

// endProcessing makes the accepted head of a lane one in memory again.
func (q *queues) endProcessing(e *entry) {
	la := e.lane
	q.timers.remove(e)
	q.untrack(e)
	la.accepted, la.head, la.last, la.n, la.state = nil, e, e, 1, idle
	la.partition.open++
	q.open++
}

// applyReport records what was reported on an idle lane's head, in the place of an attempt. It says whether anything was.
func (q *queues) applyReport(e *entry) bool {
	r, ok := e.lane.partition.reports.current(e)
	if ok {
		q.conclude(e, q.resultOf(e, &r))
	}
	return ok
}

// reported is the result of a running head on which something was reported; nil: nothing was.
func (q *queues) reported(e *entry) *ledger.Result {
	r, ok := e.lane.partition.reports.current(e)
	if !ok {
		return nil
	}
	if e.size == 0 { // its payload is not loaded after all
		q.budget.endLoad(nil)
	}
	return new(q.resultOf(e, &r))
}

// conclude records the result of an idle lane's head that did not come of an attempt.
func (q *queues) conclude(e *entry, res ledger.Result) {
	res.Claim, res.LaneSeq, res.ID = e.lane.partition.claim, e.LaneSeq, e.ID
	q.untrack(e) // where the report came before the head was processing
	e.lane.partition.begin()
	q.results.add(&completion{e: e, res: res})
}

// resultOf is what is to be recorded of a report.
func (q *queues) resultOf(e *entry, r *ledger.OpenReport) ledger.Result {
	e.long.applied = r.Attempt
	res := q.judge.ofReport(e, q.dispatch.find(e.Destination), r)
	e.lane.partition.reports.overrule(e, &res)
	q.judge.logAttempt(e, &res)
	return res
}

// timedOut is what is to be recorded of a head on which nothing was reported in time.
func (q *queues) timedOut(e *entry) ledger.Result {
	res := q.judge.ofSilence(e, q.dispatch.find(e.Destination))
	e.lane.partition.reports.overrule(e, &res)
	q.judge.logAttempt(e, &res)
	return res
}
