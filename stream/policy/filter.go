package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Select compiles what a subscription decides of an event alone: whether it matches, and its second key, for which its body is read once. The
// function that it returns is safe for concurrent use; an event whose key is an empty text has none, and so has one that does not match. Its error
// says why an expression has no value for an event, and quotes nothing of the event. Without both texts it is nil: everything matches.
func Select(match, also string) (func(*schemas.Event) (matches bool, key gate.Also, err error), error) {
	var condition, second *expression.Expression
	var all []*expression.Expression
	var err error
	if match != "" {
		if condition, err = expression.Condition(match); err != nil {
			return nil, err
		}
		all = append(all, condition)
	}
	if also != "" {
		if second, err = alsoKey(also); err != nil {
			return nil, err
		}
		all = append(all, second)
	}
	if len(all) == 0 {
		return nil, nil
	}
	expression.Together(all...)
	return func(e *schemas.Event) (matches bool, key gate.Also, err error) {
		in := &expression.Input{Event: e}
		if condition != nil {
			if matches, err := in.True(condition); err != nil {
				return false, key, fmt.Errorf("match %w", err)
			} else if !matches {
				return false, key, nil
			}
		}
		if second == nil {
			return true, key, nil
		}
		text, err := alsoText(second, in)
		if err == nil && text != "" {
			key = AlsoOf(text)
		}
		return true, key, err
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
