package policy

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Senders drops actions by who caused their event. What its provider does not tell of is let go on, and so is what an operator has run again.
type Senders struct {
	Own, Automation bool // they are dropped
}

// Before implements [Guard].
func (s Senders) Before(_ context.Context, a sink.Action) (Verdict, error) {
	by := a.Event.Sender
	switch {
	case !a.Replayed.IsZero():
	case s.Own && by.Kind == schemas.Own:
		return Verdict{Status: ledger.Dropped, Reason: Own, Text: fmt.Sprintf("we caused the event ourselves (sender %s), and senders.own is drop", named(by))}, nil
	case s.Automation && by.Kind == schemas.Automation:
		return Verdict{Status: ledger.Dropped, Reason: Automation, Text: fmt.Sprintf("a program caused the event (sender %s), and senders.automation is drop", named(by))}, nil
	}
	return Verdict{}, nil
}

// After implements [Guard].
func (Senders) After(sink.Action, sink.Outcome, sink.Class) {}

// named is a sender as people know it.
func named(by schemas.Sender) string {
	switch {
	case by.ID == "":
		return "unknown"
	case by.Login == "":
		return by.ID
	}
	return fmt.Sprintf("%s, called %q", by.ID, by.Login)
}
