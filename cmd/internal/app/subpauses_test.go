package app

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// TestPausedSubscription: from the pause on nothing is decided and nothing called, in every process and over a restart of all; membership
// and readiness stay, everything says so, and what came meanwhile runs after the resume, once and in order.
func TestPausedSubscription(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, database(t), true)
	intake := r.start(config.RoleIntake)
	intake.ready()
	one, two := r.start(config.RoleStream), r.start(config.RoleStream)
	one.ready()
	two.ready()
	intake.accepted("orders", "orders-secret", order("o", 1))
	agent.wait(t, 1)
	number := r.partitionOf(1)

	req := api.PauseRequest{Reason: "agent is being moved", By: "ann@ops", DryRun: true}
	if item, err := one.api.PauseSubscription(t.Context(), "acme", "fulfil", req); err != nil || item.Paused != nil {
		t.Fatalf("a dry run: %+v %v", item, err)
	}
	req.DryRun = false
	item, err := one.api.PauseSubscription(t.Context(), "acme", "fulfil", req)
	if err != nil || item.Paused == nil || item.Paused.By != "ann@ops" || item.Paused.Reason != req.Reason {
		t.Fatalf("%+v %v", item, err)
	}
	if _, err := two.api.PauseSubscription(t.Context(), "acme", "fulfil", req); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "ann@ops: agent is being moved") {
		t.Errorf("paused again: %v", err)
	}
	paused := func(p *process) bool {
		page, err := p.api.Subscriptions(t.Context())
		return err == nil && page.Items[0].Paused != nil
	}
	if !rig.Until(30*time.Second, func() bool { return paused(two) }) {
		t.Fatal("the other process does not follow")
	}
	for rev := 2; rev <= 4; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	one.clean()
	two.clean()
	last := r.start(config.RoleStream)
	last.ready() // green although nothing goes on
	if !paused(last) {
		t.Error("a process that begins does not know of the pause")
	}
	// The lag says that the subscription is paused, by whom, and the command; the ledger that nothing was decided.
	last.lag(number, func(i api.LagItem) bool {
		return i.State == "paused" && strings.HasPrefix(i.Detail, "ann@ops has paused it since ") &&
			strings.HasSuffix(i.Detail, " (agent is being moved): `forebay subscriptions resume acme.fulfil --reason TEXT`") &&
			*i.Records == 3 && *i.Position == 1 && *i.Seconds > 0
	})
	seen, err := last.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindPausedSubscription, Limit: 10})
	if err != nil || len(seen.Items) != 1 || seen.Items[0].Command != "forebay subscriptions resume acme.fulfil --reason TEXT" || seen.Items[0].Detail != "ann@ops: agent is being moved" {
		t.Errorf("attention: %+v %v", seen, err)
	}
	last.metric("forebay_subscription_paused", 1)
	if calls := agent.wait(t, 1); len(calls) != 1 {
		t.Errorf("%d calls while paused, want the one of before", len(calls))
	}
	if item, err := last.api.ResumeSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "moved", By: "ann@ops"}); err != nil || item.Paused != nil {
		t.Fatalf("%+v %v", item, err)
	}
	calls := agent.wait(t, 4)
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	if got := strings.Join(ids, " "); got != "o-1 o-2 o-3 o-4" {
		t.Errorf("calls %s", got)
	}
	if _, err := last.api.ResumeSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "again", By: "ann@ops"}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("resumed again: %v", err)
	}
}

// TestPauseOfASubscriptionThatBegins: it does not go by what was read before a sync that is under way.
func TestPauseOfASubscriptionThatBegins(t *testing.T) {
	t.Parallel()
	p := &subscriptionPauses{s: &streams{}}
	p.syncing.Lock() // a sync has begun
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		p.follow(t.Context(), nameInTeam{"acme", "fulfil"})
	}()
	select {
	case <-followed:
		t.Error("it followed what the sync makes old")
	case <-time.After(100 * time.Millisecond):
	}
	p.syncing.Unlock()
	<-followed
}

// TestStoryOfAPausedSubscription: an event whose action is open says who has paused its subscription, and which command lets it run.
func TestStoryOfAPausedSubscription(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, database(t), true)
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	r.waitsForRev2(p)
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a bad release", By: "ann@ops"}); err != nil {
		t.Fatal(err)
	}
	item, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "o-3")
	if err != nil || !strings.Contains(item.Next, "nothing before the subscription is resumed, which ann@ops has paused since ") ||
		!strings.Contains(item.Next, "(a bad release): `forebay subscriptions resume acme.fulfil --reason TEXT`") {
		t.Errorf("%+v %v", item, err)
	}
}

// waitsForRev2 has an order's third version wait for its second.
func (r *deployment) waitsForRev2(p *process) {
	r.t.Helper()
	p.accepted("orders", "orders-secret", order("o", 1))
	p.accepted("orders", "orders-secret", order("o", 3))
	p.listed(1, gate.Buffered, "")
}
