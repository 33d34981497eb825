package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Match compiles a subscription's match. The function that it returns is safe for concurrent use; its error says why the expression has no
// value for an event, and quotes nothing of the event. Without a text it is nil: everything matches.
func Match(text string) (func(*schemas.Event) (bool, error), error) {
	if text == "" {
		return nil, nil
	}
	x, err := expression.Condition(text)
	if err != nil {
		return nil, err
	}
	return func(e *schemas.Event) (bool, error) {
		in := expression.Input{Event: e}
		matches, err := in.True(x)
		if err != nil {
			return false, fmt.Errorf("match %w", err)
		}
		return matches, nil
	}, nil
}

// Input returns what expressions read of an action that is about to be attempted.
func Input(a sink.Action) *expression.Input {
	return &expression.Input{Event: a.Event, Action: a.Name, To: a.To()}
}

// Conditions are a subscription's `when`, by the names of its actions. It is a [Guard].
type Conditions map[string]*expression.Expression

// Before implements [Guard]: an action whose when is false is skipped; where it fails, the action is dead and its lane parked.
func (c Conditions) Before(ctx context.Context, a sink.Action) (Verdict, error) {
	return c.before(ctx, a, Input(a))
}

func (c Conditions) before(_ context.Context, a sink.Action, in *expression.Input) (Verdict, error) {
	x := c[a.Name]
	if x == nil {
		return Verdict{}, nil
	}
	runs, err := in.True(x)
	switch {
	case err != nil:
		return Verdict{Status: ledger.Dead, Reason: Expression, Text: fmt.Sprintf("when of action %s %v; mend it, then replay", a.Name, err)}, nil
	case !runs:
		return Verdict{Status: ledger.Skipped, Reason: When, Text: fmt.Sprintf("when of action %s is false", a.Name)}, nil
	}
	return Verdict{}, nil
}

func (c Conditions) conditions() []*expression.Expression { return slices.Collect(maps.Values(c)) }

// After implements [Guard].
func (Conditions) After(sink.Action, sink.Outcome, sink.Class) {}

var _ reader = Conditions(nil)
