// Package sink is the contract of a destination type: what it is given, what it brings back, and what follows from each
// way of failing. It is a leaf, so that whoever implements a sink links neither Kafka nor Postgres for it.
//
// # Looking before a retry
//
// A sink whose destination takes no idempotency key can look whether an earlier attempt has acted, at the times that
// [Action.Earlier] gives: from the first recorded attempt on and, where an owner was killed that may have made one, from when
// the event was taken in until that was over. In each of these times it looks at no more than a thousand messages, issues or
// comments.
//
// Where the look finds the action's id, Do returns without an error and sends nothing. If it finds none, Do makes its
// attempt. A look that fails ends the attempt with the class of that failure. If it cannot tell, because there is too much
// to look at, Do sends nothing and returns an error of [ClassRejected] that says what an operator can do, as sinks/slack/look.go
// does: rather an operator's glance than a second message. Errors of a look are [AttemptError.Untouched].
//
// A destination may carry a call out seconds after it was cut off, and list what it did later still. How long that takes is said in
// the sink's spec (Settle), and lanes make no attempt before, however early they try. Each call that looks is told to [Action.Looks]. It
// asks by the API's clock. A look that is cut short goes on where it was with the owner's next attempt; another owner begins again.
//
// Run again with `dlq replay --outcome-unknown` ([Action.Twice]) it looks all the same, and a look that cannot tell or may not
// look does not stop it any more. What a look cannot see is a call that the API carries out only afterwards.
//
// # Unsafe sinks
//
// Unsafe is only what may have acted. An error says whether the destination is surely untouched (nothing was sent, or the
// destination said so): then an unsafe action is retried like any other. Otherwise its outcome is unknown, and an operator's.
package sink

import (
	"context"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// Idempotency is what a sink promises when one action is attempted more than once.
type Idempotency string

const (
	// Idempotent sinks may repeat an attempt without harm: the destination acts once per key, or repeating changes nothing, or the sink
	// first looks for what an earlier attempt did. They are retried freely.
	Idempotent Idempotency = "idempotent"
	// Fenced sinks pass the owner's epoch on, and the destination refuses lower ones. They are retried freely.
	Fenced Idempotency = "fenced"
	// Unsafe sinks may act twice. An attempt is marked before the call; if its outcome is unknown, the action waits for an operator.
	Unsafe Idempotency = "unsafe"
)

// Sink makes one attempt at one destination.
//
// Do makes exactly one attempt and never retries: the lane does. It may be called concurrently, but never for two
// actions of one entity and subscription at once. It returns when ctx is done, at the latest. The returned error says
// with its class (see [ClassOf]) what the lane does next; the Outcome is recorded in both cases. Neither the error
// text nor the Outcome may contain a secret of the destination.
//
// Close is called once, after the last Do has returned, and frees what the sink holds. Closing again is no error.
//
// A sink may implement [Checker], [Endpoint], [InLedger], [Answerer], [Looker], [Located] and [Canceler]; more such interfaces may follow, found by assertion.
type Sink interface {
	Do(ctx context.Context, a Action) (Outcome, error)
	Close(ctx context.Context) error
	// Idempotency never changes over the sink's life.
	Idempotency() Idempotency
}

// Checker is implemented by sinks that can tell without acting whether their destination can be reached.
type Checker interface {
	Check(ctx context.Context) error
}

// Endpoint is implemented by sinks that send every action to one and the same URL. If an answer says that the URL is gone, that is so
// for all actions, and the destination is paused by the failure table. For other sinks, such as those of an API, such an answer is
// about one thing in the API.
type Endpoint interface{ Endpoint() }

// InLedger is implemented by sinks whose actions are statements in the ledger's own database: theirs carry a Commit.
type InLedger interface{ InLedger() }

// Answerer is implemented by sinks that have to read more of an answer than [MaxResponse] bytes to know what it means. So many bytes
// are set aside in memory for each of their attempts.
type Answerer interface{ Answer() int }

// Looker is implemented by sinks that look for what earlier attempts did (see [Action.Earlier]). So many bytes are set aside in memory
// for each attempt that may look, in place of those of Answerer.
type Looker interface{ Look() int }

// Located is implemented by sinks that call one address. Where returns it for operators to read: without query, password and other secrets.
type Located interface{ Where() string }

// Statement is what an action does in the ledger's own database.
type Statement struct {
	SQL string
	// Params are the values of $1, $2, ... as text, of the types that the statement makes of them; nil is NULL.
	Params [][]byte
}

// StatementError is an error of the action's statement, or of the constraints that it left to the end: the server's own
// error, as the ledger's driver has it.
type StatementError struct{ Err error }

func (e *StatementError) Error() string { return e.Err.Error() }
func (e *StatementError) Unwrap() error { return e.Err }

// Action is what a sink gets: one effect of one event. It is read-only.
type Action struct {
	ID           schemas.ActionID // Idempotency-Key and webhook-id, the same on every attempt
	Name         string
	Subscription string // "<team>.<subscription>"
	Destination  string // its full name: "<team>/<destination>", or "<destination>" where teams share it
	Attempt      int    // 1 for the first
	// Unmade is how many of the attempts before are none of this run: they were made before an operator had the action run again, or have not
	// reached the destination, as far as the owner of the partition has seen.
	Unmade int
	// FirstAt is when the first attempt that is recorded began; zero if this is the first, or it is not known.
	FirstAt time.Time
	// Doubt says that there may have been an attempt that is not recorded: an owner ended without releasing its claim while this was
	// the first open action of its entity. Such an attempt ended before DoubtEnd; zero: not known.
	Doubt    bool
	DoubtEnd time.Time
	// Twice says that an operator replays the action and accepts that it may be done twice: if a look cannot tell, the attempt is made.
	Twice bool
	// Replayed is when an operator last asked to run the action again; zero: nobody has. Guards may let it go on for that.
	Replayed time.Time
	// Overtaken reports whether the entity has a newer version by now. Guards alone see it; nil: whatever is newer, the action goes on, such as one
	// that was attempted in this run.
	Overtaken func(context.Context) (bool, error)
	Epoch     int64 // of the owner's fence
	// Fence and Token name the owner's claim with Epoch. Guards alone see them: what they write stands under it.
	Fence  int32
	Token  [16]byte
	Late   bool   // delivered although newer versions have run
	Reason string // the gate's reason for its decision on the event; may be empty
	Event  *schemas.Event
	// TraceParent and TraceState are the context of this attempt's span; empty: it has none. See [Action.Hop].
	TraceParent, TraceState string
	// Later is how the destination may report the outcome later; nil if it may not.
	Later *Later
	// Amends is the action whose doing this one changes, with what [Outcome.Made] said of it; empty: none. Only a sink that gives Made looks at it.
	// FirstAt is when that action was first attempted.
	Amends schemas.ActionID
	Made   string
	// Looks is to be called before each call that only looks for what an earlier attempt did: it takes a token of the destination's rate,
	// which that call is one of. nil: nobody counts.
	Looks func()
	// Commit executes a statement in the transaction that records that the action is done, so that it takes effect once;
	// nil for sinks that are not [InLedger]. tag is the server's word on it, empty if an earlier attempt has executed it.
	// A *[StatementError] wrote nothing; after any other error it may have been executed, and the next attempt finds out.
	Commit func(ctx context.Context, s Statement) (tag string, err error)
}

// To returns the name by which the action's team calls its destination.
func (a Action) To() string {
	team, _, _ := strings.Cut(a.Subscription, ".")
	return strings.TrimPrefix(a.Destination, team+"/")
}

// Hop returns the trace context that the call carries: of the attempt's span, or one of its own inside the event's trace.
func (a Action) Hop() (parent, state string) {
	if a.TraceParent != "" {
		return a.TraceParent, a.TraceState
	}
	return trace.Child(a.Event.TraceParent, a.Event.TraceState)
}

// Span is a stretch of time. If To is zero, it has not ended.
type Span struct{ From, To time.Time }

// Earlier returns the times in which attempts before this one may have acted, for a sink that can look for what they did; none
// if there was surely no such attempt.
func (a Action) Earlier() (spans []Span) {
	taken := a.Event.RecordedTime
	if a.Doubt {
		spans = append(spans, Span{taken, a.DoubtEnd})
	}
	if a.Attempt > 1 && a.FirstAt.IsZero() {
		spans = append(spans, Span{From: taken})
	} else if a.Attempt > 1 {
		spans = append(spans, Span{From: a.FirstAt})
	}
	return spans
}

// Stops reports whether this attempt must not be made because the look for an earlier one has failed with an error. nil means that
// the look found nothing: then the attempt is made.
func (a Action) Stops(look error) bool {
	class := ClassOf(look)
	return class != ClassOK && !(a.Twice && (class == ClassRejected || class == ClassDenied))
}

// Outcome is what is recorded of an attempt, beside its error.
type Outcome struct {
	Code       int           // HTTP status, or 0
	Response   []byte        // the first MaxResponse bytes of the answer
	RetryAfter time.Duration // as the destination asked; 0 when it did not
	// Later says that the destination has accepted the action and reports the result later. It counts only if Action.Later was set.
	Later bool
	// CancelURL is where the destination wants to be told that what it has accepted is not wanted any more; empty: nowhere. It counts only
	// with Later, and may be of any form: whoever calls it judges it.
	CancelURL string
	// Cost is what the run has cost, as the destination says; 0 where it does not. CostRefused says that it said something that is no cost.
	Cost        Cost
	CostRefused bool
	// Made is what was made, as an action that [Action.Amends] this one is told it; empty where the sink changes nothing afterwards.
	Made string
}

// MaxResponse is how much of an answer is kept.
const MaxResponse = 4 << 10
