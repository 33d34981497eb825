package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Written lets only those actions go on that the file has. What is open of one that was taken out or renamed outlives it, and the `when` and the
// approval that it had do not: nobody can tell any more whether it may have its effect. It is a [Guard], to be asked first.
type Written struct {
	Actions []string
	// Unfit returns why one that the file has can no more be sent where it goes, as its parameters are of another destination now; nil: it can. A nil Unfit
	// is that of no parameters.
	Unfit func(a sink.Action) error

	mu sync.Mutex
	// since is since when this process has asked for what the file does not have, over all its claims. It is none of another process's: that may have read
	// an older file, and an action of a newer one would die of it while a deployment rolls. So with each process it takes NewerFile at most.
	since map[schemas.ActionID]time.Time
}

// NewerFile is how long an action waits that the file does not have: while a deployment rolls, another process may have made it by a newer file, which
// this one reads soon.
const NewerFile = 10 * time.Minute

// Before implements [Guard].
func (w *Written) Before(_ context.Context, a sink.Action) (Verdict, error) {
	was, mend := "any more (it was taken out, or renamed)", "write it again"
	if slices.Contains(w.Actions, a.Name) {
		if w.Unfit == nil {
			return Verdict{}, nil
		}
		why := w.Unfit(a)
		if why == nil {
			return Verdict{}, nil
		}
		was, mend = fmt.Sprintf("for %s (it goes elsewhere now: %v)", a.To(), why), "have it go there again"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[schemas.ActionID]time.Time{}
	}
	first, ok := w.since[a.ID]
	if !ok {
		first = time.Now()
		w.since[a.ID] = first
	}
	if until := first.Add(NewerFile); time.Now().Before(until) { // the same text each time, which is logged once
		return Verdict{}, fmt.Errorf("the file has no action %s of %s %s; unless it has by %s, this one is a dead letter",
			a.Name, a.Subscription, was, until.UTC().Format(time.RFC3339))
	}
	delete(w.since, a.ID)
	return Verdict{Status: ledger.Dead, Reason: Removed, Text: fmt.Sprintf(
		"the file has no action %s of %s %s: %s and replay, or discard", a.Name, a.Subscription, was, mend)}, nil
}

// After implements [Guard].
func (*Written) After(sink.Action, sink.Outcome, sink.Class) {}
