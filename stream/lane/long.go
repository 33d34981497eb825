package lane

import (
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Long work. A destination answers 202 and reports the result later. Until then the action is processing: its lane keeps only
// the head in memory, and takes no worker, slot or place in the window from others. The lane goes on when the destination has
// reported the result, or was silent for too long:
//
//	running ──202──▶ recording ──▶ processing ──report──────────▶ recording ──▶ done, failed, dead
//	                                     └──deadline, silence───▶ recording ──▶ failed, unknown, dead
//
// A report counts while its action has not ended and no later attempt is recorded, in whatever state the head is. A report that
// says done counts even after later attempts have failed.

// LongPolicy says how a destination may finish its actions later. With the zero value it may not, and 202 is success.
type LongPolicy struct {
	Deadline  time.Duration // the longest wait for the result after the 202; 0: no long work
	Heartbeat time.Duration // the longest time without a heartbeat; 0: only Deadline counts
	// Most caps the actions that the destination works on at once, for this subscription in this process; default 1000.
	Most int
}

const (
	defaultMost = 1000
	// reportEvery is how often reports are read. The read is cheap: their index is nearly always empty.
	reportEvery = 500 * time.Millisecond
	// reportRarely is how often they are where no destination finishes anything later, and actions are open: one may have until the file
	// was changed, and who works for it still reports.
	reportRarely = 10 * time.Second
	// reportGrace is the shortest wait for a result after a claim, or after the ledger was away: before it, nobody may have been there to take
	// a report.
	reportGrace = 30 * time.Second
)

// longState is the state of an entry's long work.
type longState struct {
	dest    *sinkQueue // the one that has accepted the action; nil: none has
	until   time.Time  // the deadline
	silent  time.Time  // when the silence is too long, by the heartbeats that this process knows of; zero: never
	silence time.Duration
	applied ledger.AttemptRef // the attempt whose report was applied last
	look    bool              // it is in longWork.toLook
	told    int               // the attempt whose cancel URL is or was called by this owner
}

// waitFor sets the deadline to left from now and, if silence is bounded, the next heartbeat's to quiet from now.
func (w *longState) waitFor(left, quiet, silence time.Duration) {
	now := time.Now()
	w.until, w.silent, w.silence = now.Add(left), time.Time{}, silence
	if silence > 0 {
		w.silent = now.Add(quiet)
	}
}

// notBefore puts the end of the wait off: nobody could report, or send a heartbeat, until then.
func (w *longState) notBefore(then time.Time) {
	if least := then.Add(reportGrace); w.until.Before(least) {
		w.until = least
	}
	if least := then.Add(w.silence); !w.silent.IsZero() && w.silent.Before(least) {
		w.silent = least
	}
}

// due returns when the wait ends, by the heartbeats that this process knows of.
func (w *longState) due() time.Time {
	if !w.silent.IsZero() && w.silent.Before(w.until) {
		return w.silent
	}
	return w.until
}

// longWork has the heads that destinations have accepted and will report on. Callers hold mu.
type longWork struct {
	count   int           // heads that are processing, or will be once their 202 is recorded
	overdue []*entry      // heads whose report has not come in time, by the heartbeats that this process knows of
	changed chan struct{} // capacity 1, never closed: something is overdue, the first head is processing, or a destination finishes later
	toLook  []*entry      // heads behind which something came, or that are to be told that they are not wanted any more
	looks   chan struct{} // capacity 1, never closed: there are heads to look at
}

// track counts a head as accepted by d.
func (a *longWork) track(e *entry, d *sinkQueue) {
	if e.long.dest == nil {
		e.long.dest = d
		d.accepted++
		a.count++
	}
}

// expired notes that the report of a head has not come in time.
func (a *longWork) expired(e *entry) {
	a.overdue = append(a.overdue, e)
	signal(a.changed)
}

// takeOverdue returns the overdue heads and empties the list.
func (a *longWork) takeOverdue() []*entry {
	list := a.overdue
	a.overdue = nil
	return list
}

// untrack counts a head as ended, where its destination had accepted it: that has room for another then.
func (q *queues) untrack(e *entry) {
	if d := e.long.dest; d != nil {
		e.long.dest = nil
		d.accepted--
		q.long.count--
		q.dispatch.wake()
	}
}

// awaitReport lets a lane wait for the report on its head. The actions behind the head leave memory.
func (q *queues) awaitReport(la *lane) {
	e := la.head
	behind := la.n > 1 || la.overflow()
	if behind {
		la.skippedTo = max(la.skippedTo, la.tail)
	}
	q.unload(la)
	la.tail, la.state, la.accepted = e.LaneSeq, processing, e
	if q.long.count == 0 {
		signal(q.long.changed)
	}
	q.long.track(e, q.dispatch.find(e.Destination))
	q.setReportTimer(e)
	if behind || e.Newer && e.CancelURL != "" {
		q.lookForNewer(e)
	}
	signal(q.toLoad)
}

func (q *queues) setReportTimer(e *entry) {
	e.notBefore = e.long.due()
	q.timers.add(e)
}

// endProcessing puts the accepted head back into its lane, which is idle then.
func (q *queues) endProcessing(e *entry) {
	la := e.lane
	q.timers.remove(e)
	q.untrack(e)
	la.accepted, la.head, la.last, la.n, la.state = nil, e, e, 1, idle
	la.partition.open++
	q.open++
}

// applyReport records the report on the head of an idle lane, if there is one that counts, instead of an attempt. It returns
// whether there was.
func (q *queues) applyReport(e *entry) bool {
	r, ok := e.lane.partition.reports.current(e)
	if ok {
		q.conclude(e, q.resultOf(e, &r))
	}
	return ok
}

// reportedResult returns the result of a running head from its report, nil if there is no report that counts.
func (q *queues) reportedResult(e *entry) *ledger.Result {
	r, ok := e.lane.partition.reports.current(e)
	if !ok {
		return nil
	}
	if e.size == 0 { // pick began a load, which is not needed now
		q.budget.endLoad(nil)
	}
	return new(q.resultOf(e, &r))
}

// conclude records the result of an idle lane's head that comes from a report or from silence.
func (q *queues) conclude(e *entry, res ledger.Result) {
	res.Claim, res.LaneSeq, res.ID = e.lane.partition.claim, e.LaneSeq, e.ID
	q.judge.alert(e, q.dispatch.find(e.Destination), &res)
	q.untrack(e) // the report may have come before the head was processing
	e.lane.partition.beginBusy()
	q.results.add(&completion{e: e, res: res})
}

// resultOf returns the result to record for a report.
func (q *queues) resultOf(e *entry, r *ledger.OpenReport) ledger.Result {
	e.long.applied = r.AttemptRef
	res := q.judge.reportResult(e, q.dispatch.find(e.Destination), r)
	e.lane.partition.reports.overrule(e, &res)
	q.judge.logAttempt(e, &res, nil)
	return res
}

// timedOut returns the result to record for a head whose report did not come in time.
func (q *queues) timedOut(e *entry) ledger.Result {
	res := q.judge.silenceResult(e, q.dispatch.find(e.Destination))
	e.lane.partition.reports.overrule(e, &res)
	q.judge.logAttempt(e, &res, nil)
	return res
}
