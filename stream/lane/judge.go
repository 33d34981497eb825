package lane

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// judge turns the outcome of an attempt, a report or silence into the result to record.
type judge struct {
	rand   func() float64
	log    *slog.Logger
	long   *prometheus.CounterVec
	pauses atomic.Pointer[Pauses] // of the subscription; nil: none
}

// paused reports whether the subscription is paused: to be asked right before an attempt, which may have been picked before.
func (j *judge) paused() bool {
	p := j.pauses.Load()
	return p != nil && !p.Since.IsZero()
}

// attemptResult returns the result to record for an attempt that began at began and has just ended with class.
func (j *judge) attemptResult(e *entry, d *sinkQueue, kind sink.Idempotency, began time.Time, out sink.Outcome, class sink.Class, err error) ledger.Result {
	n, latency := e.Attempts+1, time.Since(began)
	d.metrics.seconds.Observe(latency.Seconds())
	taken := class == sink.ClassOK && out.Later && e.to.Long.Deadline > 0
	if !taken { // else it is counted once it is known what came of it
		d.metrics.count(class)
	}
	if e.FirstAt.IsZero() {
		e.FirstAt = began
	}
	res := ledger.Result{
		Attempt: n, Class: string(class), Code: out.Code, Latency: latency, Began: began, Error: clean(err), Trace: e.trace,
		Response: out.Response[:min(len(out.Response), sink.MaxResponse)], Spent: e.Spent,
	}
	if kind == sink.Unsafe && sink.Untouched(err) {
		kind = sink.Idempotent
	}
	inARow, beside := 0, began.Before(e.own) && destination.Troubling(class)
	if beside && !sink.Untouched(err) {
		e.beside++
	}
	if beside || d.user.IsAway(class, out.Code) { // this attempt probed whether it works again
		res.Spent++
	} else {
		inARow = e.countClass(class)
	}
	attempts, since := e.countedAttempts(n)
	attempts -= res.Spent - e.Spent
	e.begins(began)
	elapsed := e.to.elapsed(since, time.Now(), j.pauses.Load(), e.held)
	var wait, retryAfter time.Duration
	if class != sink.ClassOK {
		wait, retryAfter = sink.Delay(e.to.Retry, max(1, attempts), class.Apart(), e.to.Retry.Within-elapsed, j.rand()), e.to.boundedRetryAfter(out.RetryAfter)
		if beside { // this was one more: nothing ends before its time
			wait, elapsed = max(0, time.Until(e.own)), 0
		}
		if !e.to.Shared.Holds(class, out.Code) { // else all wait, and that time does not count
			wait = max(wait, retryAfter)
		}
		if !sink.Untouched(err) {
			e.touched, wait = time.Now(), max(wait, e.to.Settle)
		}
	}
	switch judgeAttempt(e.to.Retry, kind, class, attempts, inARow, elapsed, wait) {
	case succeeded:
		res.Status = ledger.Done
		if taken {
			res.Status, res.Left, res.Silence = ledger.Processing, e.to.Long.Deadline, e.to.Long.Heartbeat
			if ledger.Clean(out.CancelURL, sink.MaxCancelURL) == out.CancelURL { // the ledger takes it
				res.CancelURL = out.CancelURL
			}
		}
	case retry:
		res.Status, res.NextIn = ledger.Failed, max(wait, retryAfter)
	case dead:
		res.Status = ledger.Dead
	case unknown:
		res.Status = ledger.Unknown
	}
	return res
}

// reportResult returns the result to record for a report. The destination knows what it did, so a failure is judged as that of
// an idempotent sink. One that it was told to cancel, and has not done, is superseded by what is newer.
func (j *judge) reportResult(e *entry, d *sinkQueue, r *ledger.OpenReport) ledger.Result {
	res := ledger.Result{
		Attempt: r.Attempt, Epoch: r.Epoch, Status: r.Status, Code: r.Code, Error: r.Error, Response: r.Response, Reported: true, Cost: r.Cost, Latency: latencyOf(e),
	}
	end := string(r.Status)
	switch {
	case e.Newer && !r.Before(e.Attempts, e.AttemptEpoch):
		if res.Class, end = sink.Newer, sink.Newer; r.Status != ledger.Done {
			res.Status = ledger.Superseded
		}
	case r.Status == ledger.Dead:
		res.Class = string(sink.ClassRejected)
	case r.Status == ledger.Failed:
		j.failedLater(e, d, &res, sink.Idempotent, sink.ClassBusy, r.Wait)
	}
	switch res.Status {
	case ledger.Done:
		d.metrics.count(sink.ClassOK)
	case ledger.Superseded: // neither done nor failed
	default:
		d.metrics.count(sink.Class(res.Class))
	}
	j.long.WithLabelValues(e.Destination, end).Inc()
	return res
}

// Ends of long work that no result says.
const (
	endDeadline = "deadline"
	endSilence  = "silence"
)

// silenceResult returns the result to record for a head on which its destination has not reported in time.
func (j *judge) silenceResult(e *entry, d *sinkQueue) ledger.Result {
	end, text := endDeadline, "no result before the deadline"
	if e.long.due().Before(e.long.until) {
		end, text = endSilence, "no heartbeat for "+e.long.silence.String()
	}
	res := ledger.Result{Attempt: e.Attempts, Epoch: e.AttemptEpoch, Error: text, Latency: latencyOf(e)}
	j.failedLater(e, d, &res, d.Sink.Idempotency(), sink.ClassTimeout, 0)
	d.metrics.count(sink.ClassTimeout)
	j.long.WithLabelValues(e.Destination, end).Inc()
	return res
}

// failedLater judges an attempt that the destination accepted and that failed afterwards.
func (j *judge) failedLater(e *entry, d *sinkQueue, res *ledger.Result, kind sink.Idempotency, class sink.Class, retryAfter time.Duration) {
	attempts, since := e.countedAttempts(res.Attempt)
	elapsed := d.elapsed(since, time.Now(), j.pauses.Load(), e.held)
	wait := max(sink.Delay(d.Retry, attempts, 0, d.Retry.Within-elapsed, j.rand()), d.boundedRetryAfter(retryAfter))
	res.Class = string(class)
	switch judgeAttempt(d.Retry, kind, class, attempts, e.countClass(class), elapsed, wait) {
	case retry:
		res.Status, res.NextIn = ledger.Failed, wait
	case unknown:
		res.Status = ledger.Unknown
	default:
		res.Status = ledger.Dead
	}
}

// latencyOf returns how long a first attempt has taken; 0 for later ones, whose beginnings are not kept.
func latencyOf(e *entry) time.Duration {
	if e.Attempts > 1 || e.FirstAt.IsZero() {
		return 0
	}
	return time.Since(e.FirstAt)
}

// elapsed returns for how long an action has been tried, from since to until, without the time in which its destination was
// paused, on hold or behind an open breaker, or the subscription was paused, or the action was held.
func (d *target) elapsed(since, until time.Time, p *Pauses, held []ledger.Span) time.Duration {
	if since.IsZero() || !until.After(since) {
		return 0
	}
	return until.Sub(since) - d.Shared.BlockedFor(since, until, slices.Concat(p.spans(until), held)...)
}

// boundedRetryAfter returns how long a head waits of what its destination asks for: as long as the destination may be put on hold or, if it
// may not be, as long as a delay may be. A destination cannot put an action off for ever.
func (d *target) boundedRetryAfter(retryAfter time.Duration) time.Duration {
	return min(retryAfter, cmp.Or(d.Shared.MaxHold(), d.Retry.Max))
}

// logAttempt logs one attempt, in one line, with what its error says to the log alone.
func (j *judge) logAttempt(e *entry, res *ledger.Result, err error) {
	level := slog.LevelInfo
	if res.Status != ledger.Done && res.Status != ledger.Processing && res.Status != ledger.Superseded {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !j.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("event_id", e.EventID), slog.String("source", e.Source), slog.String("entity", string(e.Entity)),
		slog.String("action_id", string(e.ID)), slog.String("destination", e.Destination),
		slog.Int("attempt", res.Attempt), slog.String("status", string(res.Status)), slog.String("class", res.Class),
		slog.Int("code", res.Code), slog.Duration("latency", res.Latency),
	}
	if res.Trace != ([16]byte{}) {
		attrs = append(attrs, slog.String("trace_id", hex.EncodeToString(res.Trace[:])))
	}
	if res.Error != "" {
		attrs = append(attrs, slog.String("error", res.Error))
	}
	if detail := sink.ForLog(err); detail != "" {
		attrs = append(attrs, slog.String("detail", detail))
	}
	if res.Status == ledger.Failed {
		attrs = append(attrs, slog.Duration("next_in", res.NextIn))
	}
	j.log.LogAttrs(ctx, level, "attempt", attrs...)
}

// logVerdict logs what guards say of an action that they do not let go on.
func (j *judge) logVerdict(e *entry, res *ledger.Result) {
	level := slog.LevelInfo
	if res.Status == ledger.Skipped {
		level = slog.LevelDebug // a filter leaves most things out
	}
	j.log.Log(context.Background(), level, "verdict", "event_id", e.EventID, "source", e.Source, "entity", string(e.Entity),
		"action_id", string(e.ID), "destination", e.Destination, "status", string(res.Status), "class", res.Class, "error", res.Error)
}

// alert counts an action that is dead or whose outcome is unknown, and logs and counts one that is dead of a failure that an operator has
// to mend, such as a wrong credential.
func (j *judge) alert(e *entry, d *sinkQueue, res *ledger.Result) {
	class := sink.Class(res.Class)
	if res.Status == ledger.Dead || res.Status == ledger.Unknown {
		d.metrics.dead.Inc()
	}
	if res.Status != ledger.Dead || !class.Alerted() {
		return
	}
	d.metrics.alerts[class].Inc()
	mend := class.Mend()
	if e.unfetched {
		mend = "mend thin of the source (url, headers, allow_networks), then replay"
	}
	j.log.Error("action is dead; "+mend, "event_id", e.EventID, "source", e.Source, "entity", string(e.Entity),
		"action_id", string(e.ID), "destination", e.Destination, "class", res.Class, "code", res.Code, "error", res.Error)
}

// maxError is how much of an error's text is recorded.
const maxError = 1 << 10

func clean(err error) string { return sink.Text(err, maxError) }

// verdict is what follows from an attempt.
type verdict int

const (
	succeeded verdict = iota
	retry
	dead
	unknown
)

// judgeAttempt decides what follows from attempt n. It ended with class, as the last inARow attempts did, and elapsed time has
// passed since the first one. wait is the delay before a retry.
//
//	class                                        idempotent, fenced                unsafe
//	none                                         succeeded                         succeeded
//	one that is not retried                      dead                              dead
//	throttled                                    retry until spent, then dead      the same: the destination did not act
//	any other                                    retry until spent, then dead      unknown: it may have acted
//
// "Spent" means that the policy's attempts or time are used up, or as many attempts in a row as the class allows. If an unsafe
// sink says that an error left the destination untouched, the caller passes Idempotent.
func judgeAttempt(p sink.RetryPolicy, kind sink.Idempotency, class sink.Class, n, inARow int, elapsed, wait time.Duration) verdict {
	most := class.Most()
	switch {
	case class == sink.ClassOK:
		return succeeded
	case !class.Retried():
		return dead
	case kind == sink.Unsafe && class != sink.ClassThrottled:
		return unknown
	case n >= p.Attempts || most > 0 && inARow >= most || elapsed+wait > p.Within:
		return dead
	}
	return retry
}
