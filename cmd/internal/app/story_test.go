package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What ended without having run does not read as done, and a conflict says how it leaves the list of what waits for an operator.
func TestNextOfWhatEnded(t *testing.T) {
	t.Parallel()
	applied := func(status ledger.Status) inbox.Item {
		return inbox.Item{Decision: gate.Applied, Actions: []inbox.Action{{Name: "tell", Status: ledger.Done}, {ID: "act_run", Name: "run", Status: status}}}
	}
	for name, tt := range map[string]struct {
		item inbox.Item
		want string
	}{
		"done":      {applied(ledger.Done), "nothing: it is done"},
		"discarded": {applied(ledger.Discarded), "nothing: an operator discarded action run"},
		"overtaken": {applied(ledger.Stale), "nothing: action run did not run: its entity had a newer version; " +
			"`forebay dlq replay act_run --force --reason TEXT` runs it all the same"},
		"superseded": {applied(ledger.Superseded), "nothing: action run did not run: a newer state of its entity runs instead"},
		"a conflict": {inbox.Item{Decision: gate.Conflict}, "nothing: another body came first under its id; `forebay attention` lists it until " +
			"`forebay inbox redrive a/b/c/1@2 --discard --reason TEXT`"},
		"left out by types": {inbox.Item{Decision: gate.Filtered, Reason: gate.ReasonType}, "nothing: the subscription's types leave it out"},
		"left out by match": {inbox.Item{Team: "a", Subscription: "b", Decision: gate.Filtered, Reason: gate.ReasonMatch},
			"nothing: the subscription's match leaves it out: `forebay subscriptions explain a.b --event a/b/c/1@2` says by what"},
		"said by another":         {inbox.Item{Decision: gate.Duplicate, Reason: gate.ReasonKey}, "nothing: another event with the same key (dedupe.also) came first, and that one counts"},
		"a conflict left at that": {inbox.Item{Decision: gate.Conflict, Discarded: &inbox.Redriven{}}, "nothing: another body came first under its id"},
	} {
		tell := teller{id: "a/b/c/1@2", item: &tt.item}
		if got := tell.next(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The word that answers an approval is told as one, whatever it was.
func TestStoryOfAnApproval(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 42, 0, 0, time.UTC)
	tell := teller{item: &inbox.Item{Decision: gate.Applied, Reason: gate.ReasonNext}, event: &schemas.Event{},
		s: inbox.Story{Commands: []inbox.Command{{CommandStatus: inbox.CommandStatus{Kind: ledger.AskGuards, By: "ann", Reason: "not that", AskedAt: at, Outcome: ledger.AskedAgain}}}}}
	tell.tell()
	if last := tell.items[len(tell.items)-1]; last.Text != "approval answered by ann: not that" {
		t.Errorf("%q", last.Text)
	}
	tell.item.Actions, tell.approved = []inbox.Action{{Status: ledger.WaitingApproval}}, true
	if next := tell.next(); next != "it was approved, and runs next" {
		t.Errorf("once it is approved: %q", next)
	}
}

// An event whose destination takes no calls says why, until when, and what happens next.
func TestStoryOfADestinationThatTakesNoCalls(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 42, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		apart      api.DestinationItem
		text, next string
	}{
		"on hold": {api.DestinationItem{State: "held", OnHoldUntil: &at},
			"acme/agent is held until 2026-11-23T01:42:00Z, as it has asked for", "it runs when acme/agent takes calls again"},
		"its breaker is open": {api.DestinationItem{State: "open", OpenUntil: &at},
			"acme/agent is open until 2026-11-23T01:42:00Z: nothing gets through", "it runs when acme/agent takes calls again"},
		"paused with its agent": {api.DestinationItem{State: "paused", Paused: &ledger.Pause{At: at, By: "ann", Reason: "a deploy", Scope: "agent coder"}},
			"acme/agent is paused since 2026-11-23T01:42:00Z by ann: a deploy", "it runs once acme/agent is resumed: `forebay resume --agent coder --reason TEXT`"},
		"paused": {api.DestinationItem{State: "paused", Paused: &ledger.Pause{At: at, By: "ann", Reason: "a deploy"}},
			"acme/agent is paused since 2026-11-23T01:42:00Z by ann: a deploy", "it runs once acme/agent is resumed: `forebay destinations resume acme/agent --reason TEXT`"},
	} {
		item := inbox.Item{Decision: gate.Applied, Reason: gate.ReasonNext, Actions: []inbox.Action{{Name: "run", Status: ledger.Pending, Destination: "acme/agent"}}}
		tell := teller{item: &item, event: &schemas.Event{}, apart: map[string]api.DestinationItem{"acme/agent": tt.apart}}
		tell.tell()
		if last := tell.items[len(tell.items)-1]; last.What != "destination" || last.Text != tt.text {
			t.Errorf("%s: %+v, want %q", name, last, tt.text)
		}
		if got := tell.next(); got != tt.next {
			t.Errorf("%s: next %q, want %q", name, got, tt.next)
		}
	}
}

// What waits for its next attempt says when that is, and that it need not wait so long where the destination did not work.
func TestNextOfWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 42, 0, 0, time.UTC)
	for class, want := range map[string]string{
		"network":       "it is tried again at 2026-11-23T01:42:00Z, or as soon as acme/agent is back, if it was away",
		"order_unknown": "it is tried again at 2026-11-23T01:42:00Z or later",
	} {
		item := inbox.Item{Decision: gate.Applied, Actions: []inbox.Action{{Destination: "acme/agent", Status: ledger.Failed, Class: class, NextAt: &at}}}
		if got := (&teller{item: &item}).next(); got != want {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
}

// What waits for an approval says so until it has one, and then what else it waits for.
func TestNextOfAnApproval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		approved, away bool
		want           string
	}{
		{false, false, "it runs once somebody approves it"}, {false, true, "it runs once somebody approves it"},
		{true, false, "it was approved, and runs next"}, {true, true, "it runs when acme/agent takes calls again"},
	} {
		tell := teller{item: &inbox.Item{Decision: gate.Applied, Actions: []inbox.Action{{Destination: "acme/agent", Status: ledger.WaitingApproval}}}, approved: tt.approved}
		if tt.away {
			tell.apart = map[string]api.DestinationItem{"acme/agent": {State: "open"}}
		}
		if got := tell.next(); got != tt.want {
			t.Errorf("approved %t, away %t: %q, want %q", tt.approved, tt.away, got, tt.want)
		}
	}
}

// An event that waits says who has paused its subscription, and which command lets it run.
func TestNextOfAPausedSubscription(t *testing.T) {
	t.Parallel()
	tell := teller{item: &inbox.Item{Team: "acme", Subscription: "fulfil", Decision: gate.Buffered}, s: inbox.Story{Wait: &inbox.Wait{}},
		pause: &ledger.Pause{At: time.Date(2026, 11, 23, 1, 42, 0, 0, time.UTC), By: "ann@ops", Reason: "a bad release"}, pausedBy: "acme.fulfil"}
	const want = "nothing before the subscription is resumed, which ann@ops has paused since 2026-11-23T01:42:00Z (a bad release): " +
		"`forebay subscriptions resume acme.fulfil --reason TEXT`"
	if got := tell.next(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An event with something open whose subscription, or whose source of it, is in the file no more says so, and one that is done does not.
func TestNextOfWhatTheFileHasNoMore(t *testing.T) {
	t.Parallel()
	c := &config.Config{Teams: map[string]*config.Team{"acme": {
		Sources:       map[string]*config.Source{"orders": {}, "stripe": {}},
		Subscriptions: map[string]*config.Subscription{"fulfil": {Sources: []string{"orders"}}},
	}}}
	const nothing = "nothing: the file has no %s any more, so no process runs it; it goes on once that is in the file again"
	for _, tt := range []struct{ subscription, source, want string }{
		{"fulfil", "orders", "it runs next, when acme/agent has room for it"},
		{"fulfil", "stripe", fmt.Sprintf(nothing, "source stripe of subscription acme.fulfil")},
		{"refund", "orders", fmt.Sprintf(nothing, "subscription acme.refund")},
	} {
		item := inbox.Item{Team: "acme", Subscription: tt.subscription, Source: tt.source, CESource: "/acme/" + tt.source, Decision: gate.Applied,
			Actions: []inbox.Action{{Destination: "acme/agent", Status: ledger.Pending}}}
		tell := teller{item: &item, gone: gone(c, &item)}
		if got := tell.next(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
		item.Actions[0].Status = ledger.Done
		if got := tell.next(); strings.Contains(got, "any more") {
			t.Errorf("done: %q", got)
		}
	}
}

// An event that ran behind a gap says what is missing before it, as long as it is.
func TestStoryBehindASkippedGap(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 42, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		skipped []gate.Span
		left    *time.Time
		want    string
	}{
		"waited":          {[]gate.Span{{From: 2, To: 2}, {From: 4, To: 6}, {From: 8, To: 8}}, &at, "applied (gap_skipped), and versions 4..6 before it have not come"},
		"not waited for":  {[]gate.Span{{From: 6, To: 6}}, nil, "applied (gap_skipped), and version 6 before it has not come"},
		"has come since":  {[]gate.Span{{From: 2, To: 2}}, &at, "applied (gap_skipped)"},
		"nothing is kept": {nil, &at, "applied (gap_skipped)"},
	} {
		item := inbox.Item{Decision: gate.Applied, Reason: gate.ReasonGapSkipped, Version: "00000000000000000007", VersionKind: string(schemas.Sequence), DecidedAt: at}
		tell := teller{item: &item, event: &schemas.Event{}, s: inbox.Story{Left: tt.left, VersionLine: &inbox.VersionLine{Skipped: tt.skipped}}}
		tell.tell()
		if last := tell.items[len(tell.items)-1]; last.Text != tt.want {
			t.Errorf("%s: %q, want %q", name, last.Text, tt.want)
		}
	}
}
