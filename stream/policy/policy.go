// Package policy decides, right before an action's effect, whether it may have it: `when`, senders, loops, budgets, policy rules and
// approvals. Each guard answers with a [Verdict]; the lane asks all of them and carries out the first that is not to go on.
package policy

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Verdict is what a guard says of an action that is about to be attempted. The zero Verdict lets it go on.
type Verdict struct {
	// Status is what becomes of the action:
	//
	//	""                                  it goes on
	//	Skipped, Dropped, Denied            it ends without an effect, and its lane goes on
	//	Dead                                it is a dead letter, and its lane is parked whatever on_dead says
	//	WaitingApproval, WaitingBudget      it waits, and its lane with it; others go on
	Status ledger.Status
	Reason string        // a word of the closed list in reasons.go: a metric label, and the action's class in the ledger
	Text   string        // for people: what was found, and which key of the file says so
	Again  time.Duration // of an action that waits: it is asked for again after this at the latest
}

// Guard decides about one kind of thing. Its methods are called by several goroutines at once.
type Guard interface {
	// Before is asked before every attempt, when the action's event is complete. An error decides nothing: the action is asked for again
	// later, and has no effect until then.
	Before(ctx context.Context, a sink.Action) (Verdict, error)
	// After is told how an attempt has ended that Before let go on, before that is recorded; of an attempt that was not made after all,
	// class is [NotMade]. Of an attempt that its destination has accepted, to report later, After is called again once the report is recorded: then
	// a's event has its identity alone. Where the process is killed meanwhile nobody is told.
	After(a sink.Action, out sink.Outcome, class sink.Class)
}

// TooLate is given to [Guard.After] of an attempt whose result was reported when it changed nothing any more, and said what it has cost.
const TooLate sink.Class = "too_late"

// NotMade is given to [Guard.After] of an attempt that was not made after all, such as where its destination was paused just then.
const NotMade sink.Class = "not_made"

// Chain asks guards in order. The first that does not let the action go on decides.
type Chain []Guard

// reader is a guard of conditions. Those of a chain read an action's event once.
type reader interface {
	conditions() []*expression.Expression
	before(ctx context.Context, a sink.Action, in *expression.Input) (Verdict, error)
}

// NewChain makes a chain of guards that are not in use yet.
func NewChain(guards []Guard) Chain {
	var all []*expression.Expression
	for _, g := range guards {
		if r, ok := g.(reader); ok {
			all = append(all, r.conditions()...)
		}
	}
	expression.Together(all...)
	return guards
}

// Before implements [Guard].
func (c Chain) Before(ctx context.Context, a sink.Action) (v Verdict, err error) {
	var in *expression.Input
	for _, g := range c {
		if r, ok := g.(reader); ok {
			if in == nil {
				in = Input(a)
			}
			v, err = r.before(ctx, a, in)
		} else {
			v, err = g.Before(ctx, a)
		}
		if err != nil || v.Status != "" {
			return v, err
		}
	}
	return Verdict{}, nil
}

// After implements [Guard].
func (c Chain) After(a sink.Action, out sink.Outcome, class sink.Class) {
	for _, g := range c {
		g.After(a, out, class)
	}
}
