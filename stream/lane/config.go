package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// Ledger is what lanes need of [ledger.Namespace].
//
// Record is called again with the same results when its outcome is unknown, so it must be idempotent by claim,
// lane_seq, attempt and status. No method may keep the slices it is given.
type Ledger interface {
	Open(ctx context.Context, c *ledger.Claim, after int64, limit int) (actions []ledger.Action, more bool, err error)
	Record(ctx context.Context, results []ledger.Result) (fenced map[int32]bool, err error)
	// Commit executes the statement of a sink in the transaction that records the completion.
	Commit(ctx context.Context, r ledger.Result, s sink.Statement) (tag string, err error)
	// Committed finds out what became of a Commit without an answer.
	Committed(ctx context.Context, r ledger.Result) (done bool, err error)

	// What operators ask for an action.
	ApplyLaneCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.CommandResult, error)
	Overtaken(ctx context.Context, c *ledger.Claim, a ledger.Action) (bool, error)
	EndStale(ctx context.Context, c *ledger.Claim, laneSeq int64) (fenced bool, err error)

	// What destinations report later.
	Reports(ctx context.Context, claims []*ledger.Claim) ([]ledger.OpenReport, error)
	EndReport(ctx context.Context, r ledger.OpenReport) (late bool, err error)
	SilenceLeft(ctx context.Context, c *ledger.Claim, laneSeqs []int64) (map[int64]time.Duration, error)
	// Cancel notes that what a destination has taken is not wanted any more.
	Cancel(ctx context.Context, c *ledger.Claim, a ledger.AttemptRef, told bool) (fenced bool, err error)
}

var _ Ledger = (*ledger.Namespace)(nil)

// Codec packs an event for what must outlive the log and reads it back: schemas/record's PackEvent and UnpackEvent.
type Codec struct {
	Pack   func(*schemas.Event) []byte
	Unpack func([]byte) (*schemas.Event, error)
}

// DestinationConfig is a configured sink and how it is to be called.
type DestinationConfig struct {
	Sink sink.Sink
	// Timeout bounds one attempt; default 10 s.
	Timeout time.Duration
	Retry   sink.RetryPolicy
	// Shared is what all subscriptions share of the destination: it admits every attempt. Nil: Concurrency alone does.
	Shared *destination.Destination
	// Concurrency caps attempts under way if nothing is shared; default a quarter of MaxInFlight, at least 1.
	Concurrency int
	Long        LongPolicy
	// Settle is how long after an attempt that may have acted the next one is made at the earliest; default no time. See
	// [sink.Action.Earlier].
	Settle time.Duration
}

// Item is an open action and, where it is at hand, its event. Lanes keep the event, and copy the action.
type Item struct {
	*ledger.Action
	Event *schemas.Event // nil: load through Action.Packed or Action.Pointer
}

// Payloads loads events through pointers. Each result is the event whose source, id and hash match the pointer, or an
// AttemptError of ClassPayload where the log no longer has it.
type Payloads interface {
	Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error)
}

// Config makes [Lanes]. A zero limit takes its default.
type Config struct {
	Subscription string // "<team>.<subscription>"
	// Latest is backlog: latest, as in the ledger's Spec: a snapshot that a newer version overtakes before its first attempt ends
	// as superseded.
	Latest   bool
	Ledger   Ledger
	Payloads Payloads
	Codec    Codec
	// Enrich completes every event before its attempt; nil leaves events as they are.
	Enrich Enricher
	// Guard is asked before every attempt, and decides whether there is one; nil: all are made.
	Guard policy.Guard
	// Destinations are those that the subscription uses, by their full names ("acme/pagers", or "pagers" where teams share it).
	Destinations map[string]DestinationConfig
	// Find finds the destination of an open action that is for none of them, and what it is called now. ok is false if there is none.
	// Nil finds none.
	Find func(name string) (now string, d DestinationConfig, ok bool)
	// Later gives URL and token of an attempt at a destination that may finish later, whose span is at span; required if there is one.
	Later func(r ledger.AttemptRef, id schemas.ActionID, span trace.Place) sink.Later
	// CancelOnNewer reports whether an action of this name is told to its destination as cancelled, where that has taken it and its entity has a
	// newer version (on_newer: cancel); nil: none is. Called by several goroutines at once.
	CancelOnNewer func(action string) bool
	// Tracer makes spans of attempts whose event's trace is sampled; nil makes none.
	Tracer *trace.Tracer
	// Alive reports whether this process may still act for its group: the last successful heartbeat lies within the session
	// timeout, on a monotonic clock. It is asked right before every call (P6 covers the ledger, not the wire); while it says no,
	// nothing is attempted. Required.
	Alive func() bool
	// OnFenced is called once for every claim whose fence the lanes found lost, after they have dropped it: on a partition without
	// new records nothing else would notice. It is called without locks and must not block. Nil: nothing is called.
	OnFenced func(*ledger.Claim)
	// MaxInFlight caps attempts under way; default 256. As many goroutines wait for work.
	MaxInFlight int
	// MaxBytes caps payload bytes held, half of it for queued actions and half for attempts not yet recorded; default
	// 64 MiB. A single payload larger than the cap runs alone.
	MaxBytes int64
	// MaxBody is the largest body of an event; default 1 MiB. While a payload is being loaded, its size is not known: it counts as
	// the largest that was loaded lately, at first as MaxBody. As many are loaded at once as fit into half of MaxBytes, at least
	// one and at most sixteen. If they turn out to be larger, the cap is exceeded by the difference.
	MaxBody int64
	// MaxOpen caps loaded actions per partition; default 4096. LaneWindow caps them per lane; default 128.
	MaxOpen, LaneWindow int
	maxSpilled          int // default maxSpilled; fewer for tests
	// MaxUnrecorded caps results waiting for the ledger, beyond which no attempt starts; default 16 times MaxInFlight.
	MaxUnrecorded int
	// MaxGroup caps the results of one Record; default 1000.
	MaxGroup int
	// Linger is how long a Record waits for the results of other attempts that are under way, since a transaction costs as much as
	// about fifty results in it; default 1 ms, negative: not at all.
	Linger time.Duration
	// Rand gives uniform numbers in [0, 1) for jitter; default math/rand/v2. Called by several goroutines at once.
	Rand       func() float64
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultTimeout = 10 * time.Second
	pageSize       = 1000             // actions that one read of the ledger gives at most
	maxLoads       = 16               // loads of unknown size at once
	loadTimeout    = 30 * time.Second // one read of a payload
	aliveWait      = 500 * time.Millisecond
	drainTime      = 3 * time.Second // for what is unrecorded when Run ends
)

func (c Config) withDefaults() Config {
	def(&c.MaxInFlight, 256)
	def(&c.MaxBytes, 64<<20)
	def(&c.MaxBody, 1<<20)
	def(&c.MaxOpen, 4096)
	def(&c.LaneWindow, min(128, c.MaxOpen))
	def(&c.maxSpilled, maxSpilled)
	def(&c.MaxUnrecorded, 16*c.MaxInFlight)
	def(&c.MaxGroup, 1000)
	def(&c.Linger, time.Millisecond)
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Find == nil {
		c.Find = func(string) (string, DestinationConfig, bool) { return "", DestinationConfig{}, false }
	}
	if c.OnFenced == nil {
		c.OnFenced = func(*ledger.Claim) {}
	}
	return c
}

func (d DestinationConfig) withDefaults(name string, maxInFlight int) DestinationConfig {
	def(&d.Timeout, defaultTimeout)
	def(&d.Concurrency, max(1, maxInFlight/4))
	d.Retry = d.Retry.WithDefaults()
	def(&d.Long.Most, defaultMost)
	if d.Shared == nil {
		own, err := destination.New(destination.Config{Name: name, Policy: destination.Policy{Concurrency: d.Concurrency}})
		if err != nil {
			panic(err) // Concurrency is above zero
		}
		d.Shared = own
	}
	return d
}

func def[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Subscription != "", "subscription has no name")
	need(c.Ledger != nil, "ledger is missing")
	need(c.Payloads != nil, "payloads are missing")
	need(c.Codec.Pack != nil && c.Codec.Unpack != nil, "codec is missing")
	need(c.Alive != nil, "alive is missing")
	need(c.MaxInFlight > 0 && c.MaxBytes > 0 && c.MaxBody > 0 && c.MaxOpen > 0 && c.LaneWindow > 0 && c.MaxUnrecorded > 0 && c.MaxGroup > 0,
		"a limit is negative")
	need(c.LaneWindow <= c.MaxOpen, "lane window %d is larger than the partition's %d", c.LaneWindow, c.MaxOpen)
	return errors.Join(append(errs, c.validateDestinations())...)
}

func (c Config) validateDestinations() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for name, d := range c.Destinations {
		need(d.Sink != nil, "destination %s has no sink", name)
		need(d.Timeout >= 0 && d.Concurrency >= 0, "destination %s: timeout or concurrency is negative", name)
		need(d.Long.Deadline >= 0 && d.Long.Heartbeat >= 0 && d.Long.Most >= 0, "destination %s: a bound of long work is negative", name)
		need(d.Long.Deadline == 0 || c.Later != nil, "destination %s: nothing gives its calls the URL for their result", name)
		r := d.Retry.WithDefaults()
		need(r.Attempts > 0 && r.Within > 0 && r.Min > 0 && r.Max >= r.Min,
			"destination %s: retry needs attempts, within and min above zero and max not below min", name)
	}
	return errors.Join(errs...)
}
