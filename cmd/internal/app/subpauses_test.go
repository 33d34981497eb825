package app

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// TestPausedSubscription: from the pause on nothing is decided and nothing called, in every process and over a restart of all; membership
// and readiness stay, everything says so, and what came meanwhile runs after the resume, once and in order.
func TestPausedSubscription(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	intake := r.run(config.RoleIntake)
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
	if !rig.Until(time.Minute, func() bool { return paused(two) }) {
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
	// The lag says that the subscription is paused, by whom and why; the ledger that nothing was decided.
	last.lag(number, func(i api.LagItem) bool {
		return i.State == "paused" && strings.HasPrefix(i.Detail, "ann@ops ") && strings.Contains(i.Detail, req.Reason) &&
			*i.Records == 3 && *i.Position == 1 && *i.Seconds > 0
	})
	seen, err := last.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindPausedSubscription, Limit: 10})
	if err != nil || len(seen.Items) != 1 || seen.Items[0].ID != "acme.fulfil" {
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
