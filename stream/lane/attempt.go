package lane

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// work runs attempts until Run ends.
func (l *Lanes) work() {
	for {
		e, d := l.next()
		if e == nil {
			return
		}
		l.run(e, d)
	}
}

// run brings a head from the ready queue to a completion, or puts it back where no attempt could be made.
func (l *Lanes) run(e *entry, d *destination) {
	if l.answered(e, d) {
		return
	}
	p := e.lane.part
	event, err := l.payload(p.ctx, e)
	if event != nil {
		e.trace = trace.ID(event.TraceParent)
	}
	switch {
	case p.ctx.Err() != nil:
		l.abandon(e, d)
	case err != nil && sink.ClassOf(err) == sink.ClassPayload:
		d.metrics.attempts[sink.ClassPayload].Inc()
		l.finish(e, d, ledger.Result{Status: ledger.Dead, Class: string(sink.ClassPayload), Error: clean(err)}, nil)
	case err != nil:
		l.putOff(e, d, err)
	case l.overtaken(e, d, event):
	case e.limited:
		l.limit(e, d)
	case l.cfg.Enrich != nil:
		l.enrich(e, d, event)
	default:
		l.act(e, d, event)
	}
}

// errBlocked is why a marked attempt was not made: a mark is taken back by nothing less than an attempt that failed.
var errBlocked = errors.New("the destination was paused or held, or its breaker opened, right before the call, which was not made")

// act makes the attempt of a head whose event is as the sink is to see it. Since the head was taken the destination may have
// been paused, held or given up for a while: then it goes back to wait for its turn.
func (l *Lanes) act(e *entry, d *destination, event *schemas.Event) {
	unsafe := d.Sink.Idempotency() == sink.Unsafe
	switch {
	case !l.alive():
		l.postpone(e, d, aliveWait)
	case !d.user.Stands():
		l.postpone(e, d, 0)
	case unsafe && !l.mark(e):
		l.abandon(e, d)
	case unsafe && !d.user.Stands():
		res := l.judged(e, d, sink.Idempotent, time.Now(), sink.Outcome{}, sink.ClassBusy, errBlocked)
		res.Marked = true
		l.finish(e, d, res, nil)
	default:
		e.called = true
		res, told := l.attempt(e, d, event)
		l.finish(e, d, res, &told)
	}
}

// payload is the event of an action: at hand, or unpacked, or read from the ledger's copy, or from the log.
func (l *Lanes) payload(ctx context.Context, e *entry) (*schemas.Event, error) {
	if e.event != nil {
		return e.event, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	event, err := l.fetch(ctx, e)
	l.endLoad(e, event)
	return event, err
}

// endLoad takes what was read of a payload; event is nil where it could not be read.
func (l *Lanes) endLoad(e *entry, event *schemas.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.size == 0 {
		l.budget.endLoad(event)
		l.dispatch.wake()
	}
	if event != nil {
		l.budget.hold(e, event)
	}
}

// holdExtra counts n bytes that an attempt holds beside its payload, until it is called with -n.
func (l *Lanes) holdExtra(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.extra += int64(n)
	l.dispatch.wake()
}

func (l *Lanes) fetch(ctx context.Context, e *entry) (*schemas.Event, error) {
	var lost error
	if !e.copied {
		event, err := l.cfg.Payloads.Load(ctx, e.Pointer)
		if sink.ClassOf(err) != sink.ClassPayload {
			return event, err
		}
		lost = err // unless the owner's sweep has copied it since the action was loaded
	}
	packed := e.Packed
	if packed == nil {
		actions, _, err := l.cfg.Ledger.Open(ctx, e.lane.part.claim, e.LaneSeq-1, 1)
		switch {
		case err != nil:
			return nil, err
		case len(actions) > 0 && actions[0].LaneSeq == e.LaneSeq && len(actions[0].Packed) > 0:
			packed = actions[0].Packed
		case lost != nil:
			return nil, lost
		default:
			return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: errors.New("the ledger's payload copy is gone")}
		}
	}
	event, err := l.cfg.Codec.Unpack(packed)
	if err != nil {
		return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: fmt.Errorf("unpack the payload copy: %w", err)}
	}
	return event, nil
}

// alive asks whether the process may act, and logs when the answer changes.
func (l *Lanes) alive() bool {
	ok := l.cfg.Alive()
	l.mu.Lock()
	changed := l.notAlive == ok
	l.notAlive = !ok
	l.mu.Unlock()
	switch {
	case changed && ok:
		l.log.Info("group membership is confirmed again, attempts go on")
	case changed:
		l.log.Warn("group membership is not confirmed, attempts wait")
	}
	return ok
}

// mark records that an unsafe attempt is about to begin and waits until it is committed and the process alive. When it
// says no, the claim is being given up; the mark may stand, and then the outcome counts as unknown.
func (l *Lanes) mark(e *entry) bool {
	ctx := e.lane.part.ctx
	committed := make(chan struct{})
	l.submit(completion{e: e, marked: committed, res: ledger.Result{
		Claim: e.lane.part.claim, LaneSeq: e.LaneSeq, ID: e.ID, Status: ledger.Unknown, Attempt: e.Attempts + 1,
		Error: "marked before the call; no end of it is recorded",
	}})
	select {
	case <-committed:
	case <-ctx.Done():
		l.withdraw(e)
		return false
	}
	for !l.alive() {
		sleep(ctx, aliveWait)
		if ctx.Err() != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// attempt makes one attempt and says what is to be recorded of it, and what the destination learns from it.
func (l *Lanes) attempt(e *entry, d *destination, event *schemas.Event) (ledger.Result, shared.Outcome) {
	began := time.Now()
	ctx := newDeadline(e.lane.part.ctx, d.Timeout, began)
	out, err := l.call(ctx, d.Sink, sink.Action{
		ID: e.ID, Name: e.Name, Subscription: l.cfg.Subscription, Destination: e.Destination,
		Generation: l.cfg.Generation, Attempt: e.Attempts + 1, Epoch: e.lane.part.claim.Epoch, Late: e.Late, Reason: string(e.Reason), Event: event,
		FirstAt: e.FirstAt, Doubt: !e.DoubtEnd.IsZero(), DoubtEnd: e.DoubtEnd, Twice: e.Redrive != nil && e.Redrive.Twice, Timeout: d.Timeout, Commit: l.commit(e, d, began),
		Later: l.later(e, d),
	})
	class := sink.ClassOf(err)
	if class == sink.ClassBug && errors.Is(err, context.DeadlineExceeded) && ctx.passed() {
		class = sink.ClassTimeout
	}
	ctx.cancel()
	kind := d.Sink.Idempotency()
	res := l.judged(e, d, kind, began, out, class, err)
	res.Marked = kind == sink.Unsafe
	return res, shared.Outcome{Class: class, Code: out.Code, RetryAfter: out.RetryAfter, Entity: string(e.Entity)}
}

// judged is what is to be recorded of an attempt that began at began and has just ended with class.
func (l *Lanes) judged(e *entry, d *destination, kind sink.Idempotency, began time.Time, out sink.Outcome, class sink.Class, err error) ledger.Result {
	n, latency := e.Attempts+1, time.Since(began)
	d.metrics.observe(class, latency)
	if e.FirstAt.IsZero() {
		e.FirstAt = began
	}
	res := ledger.Result{
		Attempt: n, Class: string(class), Code: out.Code, Latency: latency, Began: began, Error: clean(err), Trace: e.trace,
		Response: out.Response[:min(len(out.Response), sink.MaxResponse)],
	}
	if kind == sink.Unsafe && sink.Untouched(err) {
		kind = sink.Idempotent
	}
	tries, since := e.tries(n)
	var wait time.Duration
	if class != sink.ClassOK {
		wait = Delay(d.Retry, tries, max(out.RetryAfter, class.Apart()), l.cfg.Rand())
	}
	switch judge(d.Retry, kind, class, tries, e.alike(class), d.elapsed(since, began), wait) {
	case succeeded:
		res.Status = ledger.Done
		d.taken(&res, out)
	case retry:
		res.Status, res.NextIn = ledger.Failed, wait
	case dead:
		res.Status = ledger.Dead
	case unknown:
		res.Status = ledger.Unknown
	}
	if res.Status != ledger.Done {
		l.mu.Lock()
		l.spare(e, &res)
		l.mu.Unlock()
	}
	l.line(e, &res)
	return res
}

// call is the sink's Do with its panics turned into our own fault.
func (l *Lanes) call(ctx context.Context, s sink.Sink, a sink.Action) (out sink.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.log.Error("sink panicked", "destination", a.Destination, "action_id", a.ID, "stack", string(debug.Stack()))
			err = &sink.AttemptError{Class: sink.ClassBug, Err: errors.New("the sink panicked; the stack is in the log")}
		}
	}()
	return s.Do(ctx, a)
}

// copyFor is the payload copy that goes with an action's first failure: what waits or is dead must outlive the log.
func (l *Lanes) copyFor(e *entry, status ledger.Status) []byte {
	if e.copied || status == ledger.Done || status == ledger.Processing || e.event == nil {
		return nil
	}
	packed, err := l.cfg.Codec.Pack(e.event)
	if err != nil {
		l.log.Error("pack a payload copy", "event_id", e.EventID, "source", e.Source, "action_id", e.ID, "error", err)
		return nil
	}
	return packed
}

// maxError is how much of an error's text is recorded.
const maxError = 1 << 10

// clean is an error's text as the database takes it: valid, without control characters, bounded.
func clean(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
