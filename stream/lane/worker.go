package lane

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// workers take heads from the ready queues and bring each to a result. They share the scheduler's state only.
type workers struct {
	cfg   *Config
	s     *scheduler
	judge *judge
	log   *slog.Logger
	alive *liveness
}

// liveness asks whether the process may act, and logs when the answer changes.
type liveness struct {
	ask func() bool
	log *slog.Logger
	no  atomic.Bool // the last answer was no
}

// ok reports whether the process may act now.
func (l *liveness) ok() bool {
	ok := l.ask()
	changed := l.no.Load() == ok && l.no.CompareAndSwap(ok, !ok)
	switch {
	case changed && ok:
		l.log.Info("group membership is confirmed again, attempts go on")
	case changed:
		l.log.Warn("group membership is not confirmed, attempts wait")
	}
	return ok
}

// work runs heads until Run ends.
func (w *workers) work() {
	for {
		e, d, reported := w.s.next()
		switch {
		case e == nil:
			return
		case reported != nil:
			w.finish(e, d, *reported, nil)
		default:
			w.run(e, d)
		}
	}
}

// run brings a head to a result, or puts it back if no attempt could be made.
func (w *workers) run(e *entry, d *sinkQueue) {
	p := e.lane.partition
	event, err := w.payload(p.ctx, e)
	e.span, e.unfetched = "", false
	if event != nil {
		e.trace = trace.ID(event.TraceParent)
	}
	switch {
	case p.ctx.Err() != nil:
		w.s.abandon(e, d)
	case e.Replay != nil && w.reportedNow(e, d): // the replay has what was reported too late to be done count
	case err != nil && sink.ClassOf(err) == sink.ClassPayload:
		if w.reportedNow(e, d) {
			return
		}
		d.metrics.attempts[sink.ClassPayload].Inc()
		w.finish(e, d, ledger.Result{Status: ledger.Dead, Class: string(sink.ClassPayload), Error: clean(err)}, nil)
	case err != nil:
		w.retryLoad(e, d, err)
	case w.endIfOvertaken(e, d, event):
	case e.rateUsedUp && e.Status.Waits(): // nothing but what it waits for ends it
		w.s.postpone(e, d, guardWait)
	case e.rateUsedUp:
		w.endRateLimited(e, d)
	case w.cfg.Enrich != nil:
		w.enrich(e, d, event)
	default:
		w.act(e, d, event)
	}
}

// errBlocked is recorded for a marked attempt that was not made: the only way to take back a mark is to record a failed attempt.
var errBlocked = errors.New("the destination was paused or put on hold, or its breaker opened, right before the call, which was not made")

// act makes the attempt of a head whose event is complete, if its guards let it go on. If the destination was paused or put on hold since the
// head was taken, or its breaker has opened, the head goes back to wait for its turn.
func (w *workers) act(e *entry, d *sinkQueue, event *schemas.Event) {
	a := w.actionOf(e, event)
	if w.putOff(e, d) || !w.letsGo(e, d, a) {
		return
	}
	unsafe := e.to.Sink.Idempotency() == sink.Unsafe
	switch {
	case w.cfg.Guard != nil && w.putOff(e, d): // guards may have taken long
		w.after(a, sink.Outcome{}, policy.NotMade)
	case unsafe && !w.mark(e):
		w.after(a, sink.Outcome{}, policy.NotMade)
		w.s.abandon(e, d)
	case unsafe && !d.user.StillAllowed(e.permit):
		w.after(a, sink.Outcome{}, policy.NotMade)
		e.unmade++
		res := w.endAttempt(e, d, sink.Idempotent, time.Now(), sink.Outcome{}, sink.ClassBusy, errBlocked)
		res.Marked = true
		w.finish(e, d, res, nil)
	default:
		e.called = true
		res, feedback := w.attempt(e, d, a)
		w.finish(e, d, res, &feedback)
	}
}

// putOff puts a head back that must not be attempted now, and reports whether it did.
func (w *workers) putOff(e *entry, d *sinkQueue) bool {
	switch {
	case !w.alive.ok():
		w.s.postpone(e, d, aliveWait)
	case w.judge.paused():
		w.s.postpone(e, d, 0)
	case !d.user.StillAllowed(e.permit):
		w.s.postpone(e, d, 0)
	case e.settling(e.to.Settle) > 0:
		w.s.postpone(e, d, e.settling(e.to.Settle))
	default:
		return false
	}
	return true
}

// actionOf returns what guards and the sink get of a head.
func (w *workers) actionOf(e *entry, event *schemas.Event) sink.Action {
	a := sink.Action{
		ID: e.ID, Name: e.Name, Subscription: w.cfg.Subscription, Destination: e.Destination,
		Attempt: e.Attempts + 1, Unmade: e.unmade, Epoch: e.lane.partition.claim.Epoch, Late: e.Late, Reason: string(e.Reason), Event: event,
		FirstAt: e.FirstAt, Doubt: !e.DoubtEnd.IsZero(), DoubtEnd: e.DoubtEnd,
	}
	if e.Replay != nil {
		a.Twice, a.Replayed = e.Replay.Twice, e.Replay.At
	}
	return a
}

// mark records that an unsafe attempt is about to begin, and waits until that is committed and the process may act. It returns
// false if the claim is given up. The ledger may have the mark then: the outcome counts as unknown.
func (w *workers) mark(e *entry) bool {
	ctx := e.lane.partition.ctx
	marked := w.s.mark(e, ledger.Result{
		Claim: e.lane.partition.claim, LaneSeq: e.LaneSeq, ID: e.ID, Status: ledger.Unknown, Attempt: e.Attempts + 1,
		Error: "marked before the call; no end of it is recorded",
	})
	select {
	case ok := <-marked:
		if !ok {
			return false
		}
	case <-ctx.Done():
		w.s.withdraw(e)
		return false
	}
	for !w.alive.ok() {
		sleep(ctx, aliveWait)
		if ctx.Err() != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// attempt makes one attempt. It returns the result to record and what the destination's breaker, rate and hold learn from it.
func (w *workers) attempt(e *entry, d *sinkQueue, a sink.Action) (ledger.Result, destination.Outcome) {
	began := time.Now()
	ctx := newAttemptContext(e.lane.partition.ctx, began.Add(e.to.Timeout))
	completion := statement{w: w, began: began, res: ledger.Result{
		Claim: e.lane.partition.claim, LaneSeq: e.LaneSeq, Status: ledger.Done, Attempt: e.Attempts + 1}}
	span := w.span(e, a.Event, began)
	a.TraceParent, a.TraceState = span.Context()
	e.span = a.TraceParent
	a.Commit, a.Looks = completion.commitOf(e.to), d.user.Spend
	a.Later = w.laterOf(e, trace.Place{Parent: a.TraceParent, Began: began})
	out, err := w.call(ctx, e.to.Sink, a)
	class := sink.ClassOf(err)
	if class == sink.ClassBug && errors.Is(err, context.DeadlineExceeded) && ctx.timedOut() {
		class = sink.ClassTimeout
	}
	ctx.end()
	if class != sink.ClassOK && completion.inDoubt && w.wasCommitted(e, completion.res) {
		out, class, err = sink.Outcome{Response: []byte("done; the answer of COMMIT was lost")}, sink.ClassOK, nil
	}
	if class == sink.ClassOK {
		d.metrics.acted(e, a.Event, time.Now())
	}
	w.after(a, out, class)
	kind := e.to.Sink.Idempotency()
	res := w.endAttempt(e, d, kind, began, out, class, err)
	endSpan(span, &res)
	res.Marked = kind == sink.Unsafe
	feedback := destination.Outcome{Class: class, Code: out.Code, RetryAfter: out.RetryAfter}
	if class != sink.ClassOK { // of a success nobody asks
		feedback.Error, feedback.Entity = res.Error, e.Source+" "+string(e.Entity) // an entity is one of its source
	}
	return res, feedback
}

// call calls the sink's Do. A panic becomes an error of class ClassBug.
func (w *workers) call(ctx context.Context, s sink.Sink, a sink.Action) (out sink.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error("sink panicked", "destination", a.Destination, "action_id", a.ID, "stack", string(debug.Stack()))
			err = &sink.AttemptError{Class: sink.ClassBug, Err: errors.New("the sink panicked; the stack is in the log")}
		}
	}()
	return s.Do(ctx, a)
}

// endAttempt returns the result to record for an attempt that has just ended, and logs it. A report that says done overrules a
// result that would end the action.
func (w *workers) endAttempt(e *entry, d *sinkQueue, kind sink.Idempotency, began time.Time, out sink.Outcome, class sink.Class, err error) ledger.Result {
	res := w.judge.attemptResult(e, d, kind, began, out, class, err)
	if res.Status == ledger.Dead || res.Status == ledger.Unknown {
		if res.Status == ledger.Dead && e.mayLook() { // whatever the file says of long now: an earlier attempt may have been answered 202
			w.readReports(e)
		}
		w.s.mu.Lock()
		e.lane.partition.reports.overrule(e, &res)
		w.s.mu.Unlock()
	}
	w.judge.logAttempt(e, &res, err)
	return res
}

// reportedNow looks for a report on a head that is about to end without an attempt. Where one counts, the head goes back, to end as that says.
func (w *workers) reportedNow(e *entry, d *sinkQueue) bool {
	if !e.mayLook() {
		return false
	}
	w.readReports(e)
	w.s.mu.Lock()
	_, counts := e.lane.partition.reports.current(e)
	w.s.mu.Unlock()
	if counts {
		w.s.postpone(e, d, 0)
	}
	return counts
}

// readReports reads what is reported of a head once more before it dies: a result that has just been answered 202 is to count. What comes
// within the moment between this and the commit is late; who looks at the dead letter is told of it. It asks for as long as the ledger is away, until the claim is given up.
func (w *workers) readReports(e *entry) {
	p := e.lane.partition
	for wait := 50 * time.Millisecond; p.ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		ctx, cancel := context.WithTimeout(p.ctx, loadTimeout)
		list, err := w.cfg.Ledger.Reports(ctx, []*ledger.Claim{p.claim})
		cancel()
		if err == nil {
			w.s.mu.Lock()
			defer w.s.mu.Unlock()
			delete(p.reports, e.LaneSeq)
			for _, rep := range list {
				if rep.LaneSeq == e.LaneSeq && !rep.Past {
					p.reports.add(rep)
				}
			}
			return
		}
		w.log.Warn("what destinations reported of an action could not be read; asking again", "event_id", e.EventID, "source", e.Source,
			"entity", string(e.Entity), "action_id", string(e.ID), "error", err, "wait", wait)
		sleep(p.ctx, wait)
	}
}

// finish hands the result of a head to the recorder. feedback is nil if the attempt says nothing about the destination.
func (w *workers) finish(e *entry, d *sinkQueue, res ledger.Result, feedback *destination.Outcome) {
	p := e.lane.partition
	res.Claim, res.LaneSeq, res.ID = p.claim, e.LaneSeq, e.ID
	cancelled := p.ctx.Err() != nil && res.Status != ledger.Done && res.Status != ledger.Processing
	if cancelled {
		feedback = nil // it failed because we cancelled it
	} else {
		res.Packed = w.copyFor(e, res.Status)
		w.judge.alert(e, d, &res)
	}
	w.s.finish(e, d, &res, feedback, cancelled)
}

// errRateUsedUp is the error of a head that endRateLimited ends.
var errRateUsedUp = errors.New("the destination's rate is used up")

// endRateLimited ends a head whose destination has used up its rate and lets nobody wait for it. By the destination's on_limit
// the action is dropped, or this counts as a failed attempt. The destination is not called.
func (w *workers) endRateLimited(e *entry, d *sinkQueue) {
	if d.user.OnLimit() == destination.Drop {
		if w.reportedNow(e, d) {
			return
		}
		d.metrics.attempts[sink.ClassDropped].Inc()
		res := ledger.Result{Status: ledger.Dead, Class: string(sink.ClassDropped), Error: clean(errRateUsedUp)}
		w.judge.logAttempt(e, &res, nil)
		w.finish(e, d, res, nil)
		return
	}
	w.endUnmade(e, d, time.Now(), sink.Outcome{}, errRateUsedUp, sink.ClassThrottled)
}

// endUnmade records a failed attempt of which the destination has heard nothing: it is judged as that of an idempotent sink.
func (w *workers) endUnmade(e *entry, d *sinkQueue, began time.Time, out sink.Outcome, err error, class sink.Class) {
	e.unmade++
	w.finish(e, d, w.endAttempt(e, d, sink.Idempotent, began, out, class, err), nil)
}

// laterOf returns the URL and token with which the destination may report the attempt's result later; nil if it may not.
func (w *workers) laterOf(e *entry, span trace.Place) *sink.Later {
	if e.to.Long.Deadline == 0 {
		return nil
	}
	attempt := ledger.AttemptRef{Fence: e.Claim, LaneSeq: e.LaneSeq, Attempt: e.Attempts + 1, Epoch: e.lane.partition.claim.Epoch}
	out := w.cfg.Later(attempt, e.ID, span)
	out.Deadline, out.Heartbeat = e.to.Long.Deadline, e.to.Long.Heartbeat
	return &out
}

// statement is the attempt of a sink whose statement is executed in the ledger's transaction.
type statement struct {
	w       *workers
	began   time.Time
	res     ledger.Result // the action's completion
	inDoubt bool          // the last COMMIT may have taken effect
}

// commitOf returns the Commit function of a [sink.Action], nil if the sink needs none. Commit records the action as done in the
// transaction of the sink's statement. The recorder records the same result again after the attempt, which changes nothing.
func (c *statement) commitOf(to *target) func(context.Context, sink.Statement) (string, error) {
	if _, wanted := to.Sink.(sink.InLedger); !wanted {
		return nil
	}
	return func(ctx context.Context, s sink.Statement) (string, error) {
		c.res.Latency = time.Since(c.began)
		tag, err := c.w.cfg.Ledger.Commit(ctx, c.res, s)
		c.inDoubt = schemas.KindOf(err) == schemas.Unavailable
		return tag, err
	}
}

// wasCommitted finds out what became of a COMMIT that got no answer, before another result is recorded of the action, which would contradict
// its completion: a done action would be listed as open or dead. It asks for as long as the ledger is away, until the claim is given up.
func (w *workers) wasCommitted(e *entry, r ledger.Result) bool {
	ctx := e.lane.partition.ctx
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		done, err := w.cfg.Ledger.Committed(ctx, r)
		if schemas.KindOf(err) != schemas.Unavailable || ctx.Err() != nil {
			return done
		}
		w.log.Warn("it is not known whether an action was committed; asking again", "event_id", e.EventID, "source", e.Source,
			"entity", string(e.Entity), "action_id", string(e.ID), "error", err, "wait", wait)
		sleep(ctx, wait)
	}
}
