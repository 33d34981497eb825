package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Loops ends what agents do to one another, in two ways.
//
// Where events carry a chain of agents' calls, a call that would be deeper than Depth is dropped, and so is one to an agent that is in the chain
// already. Where they do not, it counts what programs say about an entity (an event that is a conversation, by a sender who is no person):
// once that is more than Runs within Per, the action is a dead letter and parks its lane. An operator who runs it again begins the count anew.
// What a program reports by itself, such as a check, is never counted.
type Loops struct {
	Depth int // of the call that would be made
	Runs  int
	Per   time.Duration
	// Agents are the names of the agent behind each destination, by its full name.
	Agents  map[string][]string
	Sayings Sayings
}

// Sayings counts what is said; [ledger.Namespace] implements it.
type Sayings interface {
	// Said notes a saying, once however often it is told, and returns how many there were in the time Per that ends with it, itself included.
	Said(ctx context.Context, s ledger.Saying) (int, error)
	// Unsay forgets what was said until s, and s.
	Unsay(ctx context.Context, s ledger.Saying) error
}

// Before implements [Guard].
func (l *Loops) Before(ctx context.Context, a sink.Action) (Verdict, error) {
	e := a.Event
	switch call := e.Chain.Then(a.Subscription); {
	case !a.Replayed.IsZero():
	case call.Depth > l.Depth:
		return Verdict{Status: ledger.Dropped, Reason: Loop, Text: fmt.Sprintf("the call would be number %d of its chain of agents, and loop.depth is %d", call.Depth, l.Depth)}, nil
	default:
		for _, agent := range l.Agents[a.Destination] {
			if slices.Contains(e.Chain.Agents, agent) {
				return Verdict{Status: ledger.Dropped, Reason: Loop, Text: fmt.Sprintf("a cycle: agent %q is in the chain that led to the event", agent)}, nil
			}
		}
	}
	if !isSaid(e) {
		return Verdict{}, nil
	}
	said := ledger.Saying{Source: e.Source, Entity: e.Entity, Action: a.Name, Event: e.Key(), At: e.RecordedTime, Per: l.Per}
	if !a.Replayed.IsZero() {
		return Verdict{}, l.Sayings.Unsay(ctx, said)
	}
	n, err := l.Sayings.Said(ctx, said)
	if err != nil || n <= l.Runs {
		return Verdict{}, err
	}
	return Verdict{Status: ledger.Dead, Reason: Loop, Text: fmt.Sprintf("programs said %d things about the entity within %s, and loop.runs is %d: agents seem to answer one another. "+
		"Replayed, it runs, and the count begins anew", n, l.Per, l.Runs)}, nil
}

// After implements [Guard].
func (*Loops) After(sink.Action, sink.Outcome, sink.Class) {}

// isSaid reports whether an event is something that a program says to others.
func isSaid(e *schemas.Event) bool {
	program := e.Sender.Kind == schemas.Automation || e.Sender.Kind == schemas.Own || e.Sender.Kind == "" && !e.Chain.IsZero()
	return e.Conversation && program
}
