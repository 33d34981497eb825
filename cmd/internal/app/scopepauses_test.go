package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// TestKillSwitch: under load, no call comes later than a second after `pause --all`, in any process and over a restart of all; everything says
// so, and after the resume all runs, once and in order of each entity. A pause of the team or of the agent does the same.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "type: http,", "type: http, agent: coder,", 1)
	intake := r.run(config.RoleIntake)
	one, two := r.start(config.RoleStream), r.start(config.RoleStream)
	one.ready()
	two.ready()
	by := api.PauseRequest{Reason: "an agent runs wild", By: "ann@ops"}
	names, rev := []string{"a", "b", "c", "d"}, 0
	send := func(revs int) {
		t.Helper()
		for range revs {
			rev++
			for _, name := range names {
				intake.accepted("orders", "orders-secret", order(name, rev))
			}
		}
	}
	send(5)
	agent.wait(t, 1)
	asked := one
	for _, scope := range [][2]string{{api.PauseAll, ""}, {api.PauseTeam, "acme"}, {api.PauseAgent, "coder"}} {
		dry := by
		dry.DryRun = true
		if item, err := asked.api.PauseScope(t.Context(), scope[0], scope[1], dry); err != nil || item.Paused != nil {
			t.Fatalf("a dry run: %+v %v", item, err)
		}
		item, err := asked.api.PauseScope(t.Context(), scope[0], scope[1], by)
		if err != nil || item.Paused == nil || item.Paused.By != "ann@ops" {
			t.Fatalf("%+v %v", item, err)
		}
		stopped := time.Now()
		if _, err := asked.api.PauseScope(t.Context(), scope[0], scope[1], by); schemas.KindOf(err) != schemas.Conflict {
			t.Errorf("paused again: %v", err)
		}
		send(3)
		seen, err := asked.api.Attention(t.Context(), api.AttentionFilter{Limit: 10})
		if err != nil || len(seen.Items) == 0 || seen.Items[0].Kind != api.KindPausedScope || !strings.HasPrefix(seen.Items[0].Command, "forebay resume --") {
			t.Errorf("attention: %+v %v", seen, err)
		}
		own, err := asked.api.Attention(t.Context(), api.AttentionFilter{Team: "acme", Limit: 10})
		if err != nil || len(own.Items) == 0 || own.Items[0].Kind != api.KindPausedScope {
			t.Errorf("attention of the team, with %v paused: %+v %v", scope, own, err)
		}
		if page, err := asked.api.Pauses(t.Context()); err != nil || len(page.Items) != 1 || page.Items[0].Scope != scope[0] || page.Items[0].Name != scope[1] {
			t.Errorf("pauses: %+v %v", page, err)
		}
		command := "forebay resume --" + strings.TrimSpace(scope[0]+" "+scope[1]) + " --reason TEXT"
		if scope[0] == api.PauseAgent {
			item, err := asked.api.Destination(t.Context(), "acme", "agent")
			if err != nil || item.Paused == nil || item.Paused.Command("destinations", "acme/agent") != command {
				t.Errorf("the destination: %+v %v", item, err)
			}
			if _, err := asked.api.Resume(t.Context(), "acme", "agent", by); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), command) {
				t.Errorf("resumed alone: %v", err)
			}
			if i := slices.IndexFunc(seen.Items, func(i api.AttentionItem) bool { return i.Kind == api.KindPaused }); i >= 0 {
				t.Errorf("the pause of the agent is listed twice: %+v", seen.Items[i])
			}
		} else if item, err := asked.api.Subscription(t.Context(), "acme", "fulfil"); err != nil || item.Paused == nil || item.Paused.Command("subscriptions", "acme.fulfil") != command {
			t.Errorf("the subscription: %+v %v", item, err)
		}
		if scope[0] == api.PauseAll { // over a restart of all
			if _, err := asked.api.ResumeSubscription(t.Context(), "acme", "fulfil", by); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "forebay resume --all") {
				t.Errorf("resumed alone: %v", err)
			}
			one.clean()
			two.clean()
			one, two = r.start(config.RoleStream), r.start(config.RoleStream)
			one.ready()
			two.ready()
			asked = two
		}
		send(2)
		if _, body := asked.readyz(); scope[0] != api.PauseAgent && !strings.Contains(body, "paused") {
			t.Errorf("/readyz does not say it: %s", body)
		}
		agent.mu.Lock()
		if late := agent.at[len(agent.at)-1].Sub(stopped); late > time.Second {
			t.Errorf("pause of %v: a call came %s later", scope, late)
		}
		agent.mu.Unlock()
		if item, err := asked.api.ResumeScope(t.Context(), scope[0], scope[1], by); err != nil || item.Paused != nil {
			t.Fatalf("%+v %v", item, err)
		}
		agent.wait(t, rev*len(names))
	}
	last := map[string]string{}
	for _, c := range agent.wait(t, rev*len(names)) {
		name, n, _ := strings.Cut(c.ID, "-")
		if n = strings.Repeat("0", 4-len(n)) + n; n <= last[name] {
			t.Errorf("%s came after %s", c.ID, last[name])
		}
		last[name] = n
	}
	if got := len(agent.wait(t, 0)); got != rev*len(names) {
		t.Errorf("%d calls, want %d", got, rev*len(names))
	}
	if _, err := asked.api.ResumeScope(t.Context(), api.PauseAll, "", by); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("resumed again: %v", err)
	}
	if _, err := asked.api.PauseScope(t.Context(), api.PauseTeam, "acne", by); schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "acme") {
		t.Errorf("another team: %v", err)
	}
}

// A pause says which of its subscriptions it does not stop: their ledger is another process's.
func TestPauseOfAnotherLedger(t *testing.T) {
	t.Parallel()
	a := besideOthers(t)
	for scope, want := range map[[2]string]string{{api.PauseAll}: "[acme.fulfil pay.bills]", {api.PauseTeam, "acme"}: "[acme.fulfil]", {api.PauseAgent, "agent"}: "[acme.fulfil]"} {
		item, err := (&steeringAPI{a}).PauseScope(t.Context(), scope[0], scope[1], api.PauseRequest{Reason: "x", By: "ann", DryRun: true})
		if err != nil || fmt.Sprint(item.Elsewhere) != want {
			t.Errorf("%q: not for %+v, %v, want %s", scope, item, err, want)
		}
	}
}

// TestResumeOfAnAgentThatIsGone: a pause of an agent that the file has no more ends by the command that is shown, and only while it stands. What gets
// the agent by a reload meanwhile is paused with it, and goes on without it.
func TestResumeOfAnAgentThatIsGone(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	plain := r.text
	with := strings.Replace(plain, "type: http,", "type: http, agent: coder,", 1)
	p := r.run(config.RoleStream)
	by := api.PauseRequest{Reason: "it runs wild", By: "ann"}
	if _, err := p.api.PauseScope(t.Context(), api.PauseAgent, "coder", by); schemas.KindOf(err) != schemas.NotFound {
		t.Fatalf("an agent that the file does not have was paused: %v", err)
	}
	states := func(text string, want bool) {
		t.Helper()
		r.text = text
		r.reload(p, config.RoleStream)
		if !rig.Until(time.Minute, func() bool {
			d, err := p.api.Destination(t.Context(), "acme", "agent")
			return err == nil && (d.Paused != nil) == want
		}) {
			t.Errorf("paused is not %t", want)
		}
	}
	states(with, false)
	if _, err := p.api.PauseScope(t.Context(), api.PauseAgent, "coder", by); err != nil {
		t.Fatal(err)
	}
	states(plain, false)
	states(with, true)
	states(plain, false)
	if item, err := p.api.ResumeScope(t.Context(), api.PauseAgent, "coder", by); err != nil || item.Paused != nil {
		t.Errorf("resumed: %+v %v", item, err)
	}
	if _, err := p.api.ResumeScope(t.Context(), api.PauseAgent, "coder", by); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("resumed what is neither there nor paused: %v", err)
	}
	p.clean()
}

// TestBudget: two processes, one of which loses its ledger and dies with what it has taken ahead, never let more runs than the budget through;
// what waits runs once the file allows more.
func TestBudget(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	place := newLedger(t)
	r := deploy(t, agent.URL, place, true)
	const limit = 130
	with := func(n string) string {
		return strings.Replace(r.text, "fulfil: {", "fulfil: {budget: {runs: {limit: "+n+", per: 366d}}, ", 1)
	}
	plain := *r
	r.text = with("130")
	intake := r.run(config.RoleIntake)
	proxy, through := place.through(t)
	killed := *r
	killed.drain = 2 * time.Second
	killed.text = strings.Replace(r.text, place.String(), through.String(), 1)
	one, two := killed.start(config.RoleStream), r.start(config.RoleStream)
	one.ready()
	two.ready()
	const entities, revs = 20, 10
	for rev := 1; rev <= revs; rev++ {
		for e := range entities {
			intake.accepted("orders", "orders-secret", order("e"+string(rune('a'+e)), rev))
		}
		if rev == 3 {
			agent.wait(t, 20)
			proxy.HangAll()
			one.end(nil)
		}
	}
	// Of 130 at most 2 were lost with the process that died, and what it had begun when it did.
	agent.wait(t, limit-8)
	two.lists(t, "waiting_budget")
	if calls := agent.wait(t, 0); len(calls) > limit {
		t.Errorf("%d runs, the budget is %d", len(calls), limit)
	}
	r.text = plain.text
	r.text = with("1000")
	r.reload(two, config.RoleStream)
	agent.wait(t, entities*revs)
}

// lists waits until an event is listed with a status.
func (p *process) lists(t *testing.T, status string) {
	t.Helper()
	if !rig.Until(time.Minute, func() bool {
		page, err := p.api.Items(t.Context(), api.InboxFilter{Team: "acme", Status: status, Limit: 5})
		return err == nil && len(page.Items) > 0
	}) {
		t.Fatalf("no event is %s", status)
	}
}
