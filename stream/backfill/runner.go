package backfill

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Runner]. A zero limit takes its default.
type Config struct {
	Store   Store
	Log     Log
	Sources map[string]*Source // by "/<team>/<source>"
	// Concurrency is how many requests of one source run at once; default 4. Requests of other
	// sources never wait for them.
	Concurrency int
	// Pending is how many requests that have not ended are taken from the store at most; default 1000.
	Pending int
	// MaxElements bounds the elements of an answer, over all its pages; default 1000. MaxPages bounds its pages; default 20.
	MaxElements, MaxPages int
	Logger                *slog.Logger // nil logs nothing
	Metrics               *Metrics     // nil counts nothing
}

func (c Config) withDefaults() Config {
	def(&c.Concurrency, 4)
	def(&c.Pending, 1000)
	def(&c.MaxElements, 1000)
	def(&c.MaxPages, 20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runner takes requests from a store and fills them.
type Runner struct {
	cfg   Config
	slots map[string]chan struct{} // by source: a semaphore of Concurrency slots
}

// NewRunner makes a runner; nothing starts before [Runner.Run].
func NewRunner(cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Log == nil || cfg.Concurrency < 0 || cfg.Pending < 0 || cfg.MaxElements < 0 || cfg.MaxPages < 0 {
		return nil, schemas.Errorf(schemas.Invalid, "make a runner of backfills", "store and log are needed, and no limit is negative")
	}
	r := &Runner{cfg: cfg, slots: map[string]chan struct{}{}}
	for name := range cfg.Sources {
		r.slots[name] = make(chan struct{}, cfg.Concurrency)
	}
	return r, nil
}

// storeRetry is the delay after an error of the store or the log.
var storeRetry = sink.RetryPolicy{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Run fills requests until ctx is done, and returns nil when all that it started has ended. Requests under way are
// abandoned without an outcome, so that the next owner of the partition fills them.
func (r *Runner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	pending := make(chan struct{}, r.cfg.Pending) // a semaphore
	for failures := 0; ; {
		select {
		case pending <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		req, err := r.cfg.Store.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			<-pending
			failures++
			wait := sink.Delay(storeRetry, failures, 0, storeRetry.Max, 1)
			r.cfg.Logger.Warn("next backfill not read; trying again", "error", err, "wait", wait)
			_ = retry.Sleep(ctx, wait) // if ctx has ended, the next round returns
			continue
		}
		failures = 0
		running.Go(func() {
			defer func() { <-pending }()
			r.run(ctx, &req)
		})
	}
}

// run waits for one of its source's slots, fills the request and stores the outcome. If ctx ends before, it stores none.
func (r *Runner) run(ctx context.Context, req *Request) {
	began := time.Now()
	o := Outcome{Reason: Unknown, Detail: "the source has no backfill in the configuration"}
	if src := r.cfg.Sources[req.Source]; src != nil {
		select {
		case r.slots[req.Source] <- struct{}{}:
		case <-ctx.Done():
			return
		}
		o = r.fillRecovering(ctx, src, req, began)
		<-r.slots[req.Source]
	}
	if ctx.Err() != nil {
		return
	}
	r.cfg.Metrics.ended(req.Source, &o)
	r.logOutcome(req, &o, time.Since(began))
	r.done(ctx, req, o)
}

// done stores the outcome, and tries again until the store has it or ctx ends.
func (r *Runner) done(ctx context.Context, req *Request, o Outcome) {
	for n := 1; ; n++ {
		err := r.cfg.Store.Done(ctx, req.ID, o)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := sink.Delay(storeRetry, n, 0, storeRetry.Max, 1)
		r.cfg.Logger.Warn("outcome of a backfill not stored; trying again", "source", req.Source, "entity", req.Entity, "error", err, "wait", wait)
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// fillRecovering is fill; a panic becomes an outcome of reason internal.
func (r *Runner) fillRecovering(ctx context.Context, src *Source, req *Request, began time.Time) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Error("backfill panicked", "source", req.Source, "entity", req.Entity, "stack", string(debug.Stack()))
			o = Outcome{Reason: Internal, Detail: "the backfill panicked; the stack is in the log"}
		}
	}()
	return r.fill(ctx, src, req, began)
}

// fill fetches the answer, picks the events that fill the request, and writes them to the log. Of an answer that broke off, it writes
// those that came. The request's time counts from began.
func (r *Runner) fill(ctx context.Context, src *Source, req *Request, began time.Time) Outcome {
	within := src.cfg.Fetcher.cfg.Retry.Within
	if req.Within > 0 {
		within = min(within, req.Within)
	}
	deadline := began.Add(within)
	a := answer{src: src, req: req}
	fail := r.read(ctx, &a, deadline) // into a.events
	wanted, outside := fit(req, a.events)
	a.out.Outside += outside
	if notProduced := r.produce(ctx, &a, wanted, slices.MaxFunc([]time.Time{deadline, time.Now().Add(produceTime)}, time.Time.Compare)); fail == nil {
		fail = notProduced
	}
	a.finish(fail)
	return a.out
}

// produceTime is the least time that an answer gets to be written to the log, even after its deadline.
const produceTime = 10 * time.Second

// read fetches the pages of an answer until the range is covered, a limit is reached, or there are no more.
func (r *Runner) read(ctx context.Context, a *answer, deadline time.Time) *failure {
	f := a.src.cfg.Fetcher
	u, err := f.tpl.Expand(a.req.values())
	if err != nil {
		return final(BadURL, "%w", err)
	}
	left := f.cfg.MaxBytes
	for page := 1; u != nil; page++ {
		if page > r.cfg.MaxPages || a.elements >= r.cfg.MaxElements {
			a.out.OverLimit++
			return nil
		}
		d, fail := f.fetch(ctx, u, left, deadline)
		if fail != nil {
			return fail
		}
		left -= int64(len(d.body))
		if fail := a.take(d, r.cfg.MaxElements); fail != nil {
			return fail
		}
		if covered(a.req, a.events) {
			return nil
		}
		u = d.next
	}
	return nil
}

// produce appends events, which are in the order of their versions, to the log. An event that is too large for the topic is counted as
// unusable; the first that fails otherwise ends it, so that no later version comes before an earlier one.
func (r *Runner) produce(ctx context.Context, a *answer, events []*schemas.Event, deadline time.Time) *failure {
	for i, e := range events {
		err := r.append(ctx, a.src.cfg.Topic, e, deadline)
		switch {
		case err == nil:
			a.out.Produced++
		case schemas.KindOf(err) == schemas.TooLarge:
			a.unusable(err)
		default:
			a.out.NotProduced = len(events) - i
			return final(NotProduced, "%w", err)
		}
	}
	return nil
}

// append appends an event to the log, and tries again until the log has it, the event is too large or invalid, or the deadline has
// passed. It returns the last error.
func (r *Runner) append(ctx context.Context, topic string, e *schemas.Event, deadline time.Time) error {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errors.New("the backfill's time is up"))
	defer cancel()
	for n := 1; ; n++ {
		err := r.cfg.Log.Append(ctx, topic, e)
		if err == nil || schemas.KindOf(err) == schemas.TooLarge || schemas.KindOf(err) == schemas.Invalid {
			return err
		}
		if retry.Sleep(ctx, sink.Delay(storeRetry, n, 0, storeRetry.Max, 1)) != nil {
			return err
		}
	}
}

// logOutcome writes the one log line of a request.
func (r *Runner) logOutcome(req *Request, o *Outcome, took time.Duration) {
	level := slog.LevelInfo
	if o.Reason != "" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("source", req.Source), slog.String("entity", string(req.Entity)), slog.String("clock", req.Clock),
		slog.Int64("from", req.From), slog.Int64("to", req.To), slog.String("reason", string(o.Reason)),
		slog.Int("produced", o.Produced), slog.Int("refused", o.Refused), slog.Int("unusable", o.Unusable),
		slog.Int("outside", o.Outside), slog.Duration("took", took),
	}
	if o.Detail != "" {
		attrs = append(attrs, slog.String("error", o.Detail), slog.Int("code", o.Code))
	}
	r.cfg.Logger.LogAttrs(context.Background(), level, "backfill", attrs...)
}
