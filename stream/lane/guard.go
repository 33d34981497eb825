package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// Guards are asked by a head's worker before each attempt, with the destination's slot and token in hand, which go back if there is none. What
// they say to end or to wait is recorded as a result without an attempt. What waits for them is a waiting head like one that waits for its
// retry: it is spilled under a full window, and asks again when its time comes, when it is loaded, or when AskAgain says so.

const (
	guardTimeout = 30 * time.Second // of one question
	guardWait    = time.Minute      // until a guard is asked again that does not say when
	leastWait    = time.Second      // no guard is asked more often of one action
)

// endings are the statuses with which guards end an action.
var endings = []ledger.Status{ledger.Skipped, ledger.Dropped, ledger.Denied, ledger.Dead}

// guardRetry is the delay after a question that failed.
var guardRetry = sink.RetryPolicy{Min: time.Second, Max: time.Minute}

// AskAgain has the guards of all actions with one of these statuses asked at once.
func (l *Lanes) AskAgain(of ...ledger.Status) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.q.askAgain(of)
}

// letsGo asks the guards of a running head whether it may be attempted. If not, the head has gone where they say.
func (w *workers) letsGo(e *entry, d *sinkQueue, a sink.Action) bool {
	if w.cfg.Guard == nil {
		return true
	}
	p := e.lane.partition
	v, err := w.ask(e, a)
	if p.ctx.Err() != nil || w.s.closing(p) {
		if err == nil && v.Status == "" {
			w.after(a, sink.Outcome{}, policy.NotMade)
		}
		w.s.abandon(e, d)
		return false
	}
	if err == nil && v.Status != "" && !v.Status.Waits() && !slices.Contains(endings, v.Status) {
		err = fmt.Errorf("a guard says %q, which is no verdict", v.Status)
	}
	if err == nil {
		e.failedAsks, e.cannotAsk = 0, ""
	}
	switch {
	case err != nil:
		w.askLater(e, d, err)
	case v.Status == "":
		return true
	case v.Status.Waits():
		w.wait(e, d, v)
	case !w.reportedNow(e, d):
		w.conclude(e, d, v, 0)
	}
	return false
}

// overtaken returns how guards find out whether a head's entity has a newer version by now, or nobody can tell; nil if the head goes on all the same.
func (w *workers) overtaken(e *entry) func(context.Context) (bool, error) {
	// Spent are the attempts of runs before, and those of this run while the destination was away, each of which may have acted.
	attempted := e.Attempts > min(e.Spent, e.unmade)
	if attempted && e.Status != ledger.WaitingApproval || e.Late || e.Replay != nil && e.Replay.Force {
		return nil
	}
	return func(ctx context.Context) (bool, error) {
		newer, err := w.cfg.Ledger.Overtaken(ctx, e.lane.partition.claim, e.Action)
		if errors.Is(err, ledger.ErrTooFar) {
			return true, nil
		}
		return newer, err
	}
}

// ask asks the guards. A panic becomes an error.
func (w *workers) ask(e *entry, a sink.Action) (v policy.Verdict, err error) {
	a.Overtaken = w.overtaken(e)
	a.Fence, a.Token = e.lane.partition.claim.ID, e.lane.partition.claim.Token
	ctx := newAttemptContext(e.lane.partition.ctx, time.Now().Add(guardTimeout)) // most guards do not use it
	defer ctx.end()
	defer func() {
		if r := recover(); r != nil {
			w.log.Error("guard panicked", "action", a.Name, "action_id", a.ID, "stack", string(debug.Stack()))
			v, err = policy.Verdict{}, fmt.Errorf("a guard panicked: %v", r)
		}
	}()
	return w.cfg.Guard.Before(ctx, a)
}

// after tells the guards how an attempt has ended that they let go on.
func (w *workers) after(a sink.Action, out sink.Outcome, class sink.Class) { w.s.after(a, out, class) }

func (s *scheduler) after(a sink.Action, out sink.Outcome, class sink.Class) {
	if s.q.cfg.Guard == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("guard panicked", "action", a.Name, "action_id", a.ID, "stack", string(debug.Stack()))
		}
	}()
	s.q.cfg.Guard.After(a, out, class)
}

// reported tells the guards of results that destinations have reported, which are in the ledger by now.
func (s *scheduler) reported(group []completion, fenced map[int32]bool) {
	for i := range group {
		res := &group[i].res
		if !res.Reported || fenced[res.Claim.ID] {
			continue
		}
		e := group[i].e // what is read of it never changes
		class := sink.Class(res.Class)
		if res.Status == ledger.Done {
			class = sink.ClassOK
		}
		s.after(sink.Action{ID: e.ID, Name: e.Name, Subscription: s.q.cfg.Subscription, Destination: e.Destination, Attempt: res.Attempt,
			Event: &schemas.Event{Source: e.Source, ID: e.EventID, Type: e.EventType, Entity: e.Entity}}, sink.Outcome{Cost: sink.Cost(res.Cost), Code: res.Code}, class)
	}
}

// askLater lets a head wait whose guards could not answer. Nothing is recorded. A line of the log says why, and another one where that changes.
func (w *workers) askLater(e *entry, d *sinkQueue, err error) {
	e.failedAsks++
	wait := sink.Delay(guardRetry, e.failedAsks, 0, guardRetry.Max, w.cfg.Rand())
	w.verdict("error", "")
	level := slog.LevelWarn
	if says := err.Error(); says == e.cannotAsk {
		level = slog.LevelDebug
	} else {
		e.cannotAsk = says
	}
	w.log.Log(context.Background(), level, "a guard could not answer; the action waits and asks again", "event_id", e.EventID, "source", e.Source, "entity", string(e.Entity),
		"action_id", string(e.ID), "error", err, "wait", wait)
	w.s.postpone(e, d, wait)
}

// wait lets a head wait as its guards say. That is recorded when it is news.
func (w *workers) wait(e *entry, d *sinkQueue, v policy.Verdict) {
	again := v.Again
	if again <= 0 {
		again = guardWait
	}
	again = max(again, leastWait)
	if says := v.Reason + "\x00" + v.Text; e.Status != v.Status || e.waitsFor != says {
		e.waitsFor = says
		w.conclude(e, d, v, again)
		return
	}
	w.s.postpone(e, d, again)
}

// conclude records what the guards of a running head say.
func (w *workers) conclude(e *entry, d *sinkQueue, v policy.Verdict, again time.Duration) {
	w.verdict(string(v.Status), v.Reason)
	res := ledger.Result{Status: v.Status, Class: v.Reason, Error: clean(errors.New(v.Text)), Spent: e.Spent, NextIn: again, Guarded: true}
	w.judge.logVerdict(e, &res)
	w.finish(e, d, res, nil)
}

func (w *workers) verdict(status, reason string) {
	w.s.q.dispatch.metrics.verdicts.WithLabelValues(status, reason).Inc()
}

// waitForGuard lets a head wait until its guards are asked again; at once, if AskAgain was called since they were asked.
func (q *queues) waitForGuard(e *entry, again time.Duration) {
	e.notBefore = time.Now().Add(again)
	if e.asked != q.asked {
		e.notBefore = time.Time{}
	}
	q.budget.requeue(e)
}

// askAgain schedules the heads with one of these statuses, and reloads spilled lanes whose heads have one. What is under way sees it by asked.
func (q *queues) askAgain(of []ledger.Status) {
	q.asked++
	for _, p := range q.partitions {
		for key, at := range p.spilled {
			if at.waits != 0 && slices.Contains(of, guardedAs[at.waits]) {
				q.spilled.reload(spilledAt{p, key}, true)
			}
		}
	}
	q.hurry(func(e *entry) bool { return slices.Contains(of, e.Status) })
}

// hurry schedules the heads that wait for their time, of which which is true.
func (q *queues) hurry(which func(*entry) bool) {
	var heads []*entry
	for _, p := range q.partitions {
		for _, la := range p.lanes {
			if la.state == waiting && which(la.head) {
				la.state, la.head.notBefore = idle, q.safeFrom(la.head)
				heads = append(heads, la.head)
			}
		}
	}
	q.timers.heap.removeAll(func(e *entry) bool { return e.lane.state == idle })
	for _, e := range heads {
		q.schedule(e.lane)
	}
	q.dispatch.wake()
}

// leastTried returns the head that has waited longest of those that were tried least beside their retry policy, and for which may is true.
func (q *queues) leastTried(may func(*entry) bool) (one *entry) {
	for _, p := range q.partitions {
		for _, la := range p.lanes {
			e := la.head
			if la.state == waiting && may(e) && (one == nil || cmp.Or(e.beside-one.beside, e.Since.Compare(one.Since)) < 0) {
				one = e
			}
		}
	}
	return one
}

// endOvertaken has the head of an action's lane end as superseded if it waits for a guard and the action overtakes it.
func (q *queues) endOvertaken(p *partition, a *ledger.Action) {
	if la := p.lanes[laneKeyOf(a.Entity)]; la != nil && la.state == waiting && la.head.Status.Waits() && p.latest.overtaken(la.head) {
		q.timers.remove(la.head)
		la.state, la.head.notBefore = idle, time.Time{}
		q.schedule(la)
	}
}
