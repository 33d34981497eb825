package backfill

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/lane"
)

// Config makes a [Runner]. A zero limit takes its default.
type Config struct {
	Store   Store
	Log     Log
	Sources map[string]*Source // by "/<team>/<source>"
	// Concurrency is how many requests of one source run at once; default 4. Requests of other
	// sources never wait for them.
	Concurrency int
	// Pending is how many requests are taken from the store at once; default 1000.
	Pending int
	// MaxElements bounds the elements of an answer, over all its pages; default 1000. MaxPages bounds those; default 20.
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
	turns map[string]chan struct{} // by source: capacity Concurrency, full when all run
}

// NewRunner makes a runner; nothing starts before [Runner.Run].
func NewRunner(cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Log == nil || cfg.Concurrency < 0 || cfg.Pending < 0 || cfg.MaxElements < 0 || cfg.MaxPages < 0 {
		return nil, schemas.Errorf(schemas.Invalid, "make a runner of backfills", "store and log are needed, and no limit is negative")
	}
	r := &Runner{cfg: cfg, turns: map[string]chan struct{}{}}
	for name := range cfg.Sources {
		r.turns[name] = make(chan struct{}, cfg.Concurrency)
	}
	return r, nil
}

// storeRetry is the delay after an error of the store or the log.
var storeRetry = lane.RetryPolicy{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Run fills requests until ctx is done, and returns nil when all that it started has ended. Requests under way are
// abandoned without an outcome, so that the next owner of the partition fills them.
func (r *Runner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, r.cfg.Pending)
	for failed := 0; ; {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		q, err := r.cfg.Store.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			<-free
			failed++
			wait := lane.Delay(storeRetry, failed, 0, 1)
			r.cfg.Logger.Warn("next backfill not read; trying again", "error", err, "wait", wait)
			_ = retry.Sleep(ctx, wait) // ctx is looked at above
			continue
		}
		failed = 0
		running.Go(func() {
			defer func() { <-free }()
			r.run(ctx, &q)
		})
	}
}

// run fills one request when its source's turn comes.
func (r *Runner) run(ctx context.Context, q *Request) {
	began := time.Now()
	o := Outcome{Reason: Unknown, Detail: "the source has no backfill in the configuration"}
	if src := r.cfg.Sources[q.Source]; src != nil {
		select {
		case r.turns[q.Source] <- struct{}{}:
		case <-ctx.Done():
			return
		}
		o = r.fillRecovering(ctx, src, q, began)
		<-r.turns[q.Source]
	}
	if ctx.Err() != nil {
		return
	}
	r.cfg.Metrics.ended(q.Source, &o)
	r.logOutcome(q, &o, time.Since(began))
	r.done(ctx, q, o)
}

// done stores the outcome, and tries again until the store has it or ctx ends.
func (r *Runner) done(ctx context.Context, q *Request, o Outcome) {
	for n := 1; ; n++ {
		err := r.cfg.Store.Done(ctx, q.ID, o)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := lane.Delay(storeRetry, n, 0, 1)
		r.cfg.Logger.Warn("outcome of a backfill not stored; trying again", "source", q.Source, "entity", q.Entity, "error", err, "wait", wait)
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// fillRecovering is fill; a panic becomes an outcome of reason internal.
func (r *Runner) fillRecovering(ctx context.Context, src *Source, q *Request, began time.Time) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Error("backfill panicked", "source", q.Source, "entity", q.Entity, "stack", string(debug.Stack()))
			o = Outcome{Reason: Internal, Detail: "the backfill panicked; the stack is in the log"}
		}
	}()
	return r.fill(ctx, src, q, began)
}

// fill fetches, names, picks and produces.
func (r *Runner) fill(ctx context.Context, src *Source, q *Request, began time.Time) Outcome {
	within := src.cfg.Fetcher.cfg.Retry.Within
	if q.Within > 0 {
		within = min(within, q.Within)
	}
	deadline := began.Add(within)
	a := answer{src: src, q: q}
	fail := r.read(ctx, &a, deadline)
	events, outside := fit(q, a.events)
	a.out.Outside += outside
	if notProduced := r.produce(ctx, &a, events, later(deadline, time.Now().Add(produceTime))); fail == nil {
		fail = notProduced
	}
	a.finish(fail)
	return a.out
}

// produceTime is the least time that an answer gets to be written to the log, even after its deadline.
const produceTime = 10 * time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// read fetches the pages of an answer until the range is covered, or there are no more.
func (r *Runner) read(ctx context.Context, a *answer, deadline time.Time) *failure {
	f := a.src.cfg.Fetcher
	u, err := f.tpl.Expand(a.q.values())
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
		if covered(a.q, a.events) {
			return nil
		}
		u = d.next
	}
	return nil
}

// produce appends events in the order of their versions until the log has them. A body that the topic does not take is
// unusable; a log that is away is waited for until deadline.
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

// append appends an event to the log, and tries again until it is there, can never be, or the deadline has passed.
func (r *Runner) append(ctx context.Context, topic string, e *schemas.Event, deadline time.Time) error {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errors.New("the backfill's time is up"))
	defer cancel()
	for n := 1; ; n++ {
		err := r.cfg.Log.Append(ctx, topic, e)
		if err == nil || schemas.KindOf(err) == schemas.TooLarge || schemas.KindOf(err) == schemas.Invalid {
			return err
		}
		if retry.Sleep(ctx, lane.Delay(storeRetry, n, 0, 1)) != nil {
			return err
		}
	}
}

// logOutcome writes the one log line of a request.
func (r *Runner) logOutcome(q *Request, o *Outcome, took time.Duration) {
	level := slog.LevelInfo
	if o.Reason != "" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("source", q.Source), slog.String("entity", string(q.Entity)), slog.String("clock", q.Clock),
		slog.Int64("from", q.From), slog.Int64("to", q.To), slog.String("reason", string(o.Reason)),
		slog.Int("produced", o.Produced), slog.Int("refused", o.Refused), slog.Int("unusable", o.Unusable),
		slog.Int("outside", o.Outside), slog.Duration("took", took),
	}
	if o.Detail != "" {
		attrs = append(attrs, slog.String("error", o.Detail), slog.Int("code", o.Code))
	}
	r.cfg.Logger.LogAttrs(context.Background(), level, "backfill", attrs...)
}
