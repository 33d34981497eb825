package policy_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// diary counts as the ledger does.
type diary struct {
	said map[string]map[schemas.EventKey]time.Time
	err  error
}

func (d *diary) of(s ledger.Saying) map[schemas.EventKey]time.Time {
	line := s.Source + " " + string(s.Entity) + " " + s.Action
	if d.said[line] == nil {
		d.said[line] = map[schemas.EventKey]time.Time{}
	}
	return d.said[line]
}

func (d *diary) Said(_ context.Context, s ledger.Saying) (n int, err error) {
	d.of(s)[s.Event] = s.At
	for _, at := range d.of(s) {
		if at.After(s.At.Add(-s.Per)) && !at.After(s.At) {
			n++
		}
	}
	return n, d.err
}

func (d *diary) Unsay(_ context.Context, s ledger.Saying) error {
	maps.DeleteFunc(d.of(s), func(_ schemas.EventKey, at time.Time) bool { return !at.After(s.At) })
	return d.err
}

// comment is an action for a program's n-th comment on an issue, a minute after the one before.
func comment(n int) sink.Action {
	return sink.Action{Name: "run", Subscription: "acme.triage", Destination: "acme/coder", Event: &schemas.Event{
		Source: "/acme/github", ID: fmt.Sprint(n), Entity: "1/2", Conversation: true, RecordedTime: began.Add(time.Duration(n) * time.Minute),
		Sender: schemas.Sender{ID: "9", Kind: schemas.Automation}}}
}

func loops() (*policy.Loops, *diary) {
	d := &diary{said: map[string]map[schemas.EventKey]time.Time{}}
	return &policy.Loops{Depth: 8, Runs: 30, Per: time.Hour, Sayings: d, Agents: map[string][]string{"acme/coder": {"coder", "acme/coder"}}}, d
}

// verdict asks a guard, and wants a status and a word of its text.
func verdict(t *testing.T, g policy.Guard, a sink.Action, want ledger.Status, words string) {
	t.Helper()
	got, err := g.Before(t.Context(), a)
	if err != nil || got.Status != want || !strings.Contains(got.Text, words) || (got.Status == "") != (got.Reason == "") {
		t.Errorf("%+v %v, want %q with %q", got, err, want, words)
	}
}

// TestChains: a chain ends at its depth, at a cycle, and whatever it says of itself.
func TestChains(t *testing.T) {
	t.Parallel()
	l, _ := loops()
	chain := func(depth int, agents ...string) sink.Action {
		a := comment(1)
		a.Event.Sender, a.Event.Chain = schemas.Sender{Kind: schemas.Human}, schemas.Chain{Agents: agents, Depth: depth}
		return a
	}
	verdict(t, l, chain(0), "", "")
	verdict(t, l, chain(7), "", "")
	verdict(t, l, chain(8), ledger.Dropped, "number 9")
	verdict(t, l, chain(1, "a", "b", "c", "d", "e", "f", "g", "h"), ledger.Dropped, "number 9") // it says 1, and lists 8
	verdict(t, l, chain(2, "planner", "coder"), ledger.Dropped, "cycle")
	verdict(t, l, chain(2, "planner", "Coder"), "", "")
	other := chain(2, "planner", "coder")
	other.Destination = "acme/reviewer"
	verdict(t, l, other, "", "")
	again := chain(20)
	again.Replayed = began
	verdict(t, l, again, "", "")
}

// TestBreaker: what programs say about one entity parks it, and nothing else is counted.
func TestBreaker(t *testing.T) {
	t.Parallel()
	l, d := loops()
	for n := range 30 {
		verdict(t, l, comment(n), "", "")
		verdict(t, l, comment(n), "", "") // another attempt is no other saying
	}
	verdict(t, l, comment(30), ledger.Dead, "31 things")
	for _, change := range []func(*sink.Action){
		func(a *sink.Action) { a.Event.Entity = "1/3" },
		func(a *sink.Action) { a.Event.Source = "/acme/other" },
		func(a *sink.Action) { a.Name = "tell" },
		func(a *sink.Action) { a.Event.Sender.Kind = schemas.Human },
		func(a *sink.Action) { a.Event.Sender.Kind = "" },
		func(a *sink.Action) { a.Event.Conversation = false }, // check_run
		func(a *sink.Action) { a.Event.RecordedTime = began.Add(90 * time.Minute) },
	} {
		a := comment(31)
		change(&a)
		verdict(t, l, a, "", "")
	}
	unnamed := comment(32)
	unnamed.Event.Sender.Kind, unnamed.Event.Chain = "", schemas.Chain{Agents: []string{"x"}, Depth: 1}
	verdict(t, l, unnamed, ledger.Dead, "agents seem to answer one another")
	replayed := comment(30)
	replayed.Replayed = began
	verdict(t, l, replayed, "", "")
	verdict(t, l, comment(31), "", "") // the count begins anew
	d.err = errors.New("away")
	if v, err := l.Before(t.Context(), comment(33)); err == nil || v.Status != "" {
		t.Errorf("without the ledger: %+v %v", v, err)
	}
}

// TestHeldUp: 300 comments of ten hours are no loop because they are decided within a minute.
func TestHeldUp(t *testing.T) {
	t.Parallel()
	l, _ := loops()
	for n := range 300 {
		a := comment(n)
		a.Event.RecordedTime = began.Add(time.Duration(n) * 2 * time.Minute)
		verdict(t, l, a, "", "")
	}
}

// TestSenders: who is dropped, and that what nobody tells is not.
func TestSenders(t *testing.T) {
	t.Parallel()
	of := func(kind schemas.SenderKind) sink.Action {
		a := comment(1)
		a.Event.Sender = schemas.Sender{ID: "9", Login: "coder[bot]", Kind: kind}
		return a
	}
	own := policy.Senders{Own: true}
	verdict(t, own, of(schemas.Own), ledger.Dropped, `sender 9, called "coder[bot]"`)
	for _, kind := range []schemas.SenderKind{schemas.Human, schemas.Automation, ""} {
		verdict(t, own, of(kind), "", "")
	}
	both := policy.Senders{Own: true, Automation: true}
	verdict(t, both, of(schemas.Automation), ledger.Dropped, "senders.automation")
	verdict(t, both, of(""), "", "")
	verdict(t, policy.Senders{}, of(schemas.Own), "", "")
	again := of(schemas.Own)
	again.Replayed = began
	verdict(t, own, again, "", "")
	nobody := of(schemas.Own)
	nobody.Event.Sender = schemas.Sender{Kind: schemas.Own}
	verdict(t, own, nobody, ledger.Dropped, "sender unknown")
}
