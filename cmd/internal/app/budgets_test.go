package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestBudgetItems: each budget of the file is listed with what is used and left of it, when it renews and what it holds; of one that each entity has,
// those that have used something. The console says first which are used up, and that everything is paused.
func TestBudgetItems(t *testing.T) {
	t.Parallel()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Partitionkey") == "c" {
			w.Header().Set("Forebay-Cost", "1.5") // the limit of cost leaves 1
		}
	}))
	t.Cleanup(agent.Close)
	place := newLedger(t)
	r := deploy(t, agent.URL, place, true)
	r.text = strings.Replace(r.text, "fulfil: {", "fulfil: {budget: {of: entity, runs: {limit: 2, per: 366d}, cost: {limit: 2.5, per: 1d}}, ", 1)
	r.text = strings.Replace(r.text, "  acme:\n", "  acme:\n    budget: {runs: {limit: 100, per: 366d}, on_limit: park}\n", 1)
	r.text = strings.Replace(r.text, "kind: sequence}}\n", "kind: sequence}}\n        share: [pay]\n", 1)
	r.text = strings.Replace(r.text, "teams:\n", `destinations:
  pool: {type: http, url: "`+agent.URL+`", allow_networks: [127.0.0.0/8], teams: [acme, pay], budget: {of: entity, runs: {limit: 1, per: 366d}}}
teams:
  pay:
    subscriptions:
      pays: {sources: [acme/orders], begin: all, actions: [{name: run, to: pool}]}
`, 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	for rev := 1; rev <= 3; rev++ {
		p.accepted("orders", "orders-secret", order("a", rev))
	}
	p.accepted("orders", "orders-secret", order("b", 1))
	p.item("fulfil", "orders", "a-3", "applied", "waiting_budget")
	p.item("fulfil", "orders", "b-1", "applied", "done")
	p.accepted("orders", "orders-secret", order("c", 1))
	p.item("fulfil", "orders", "c-1", "applied", "done")
	p.accepted("orders", "orders-secret", order("c", 2))
	p.item("fulfil", "orders", "c-2", "applied", "waiting_budget")
	pool := func(team string) (found api.BudgetItem) { // what the shared destination has for the entity, as a team sees it
		items, err := p.app.budgetItems(api.As(t.Context(), &access.Who{Role: "viewer", Teams: []string{team}}), false)
		if i := slices.IndexFunc(items, func(i api.BudgetItem) bool { return i.Budget == "destinations.pool.budget" && i.Entity == "a" }); err == nil && i >= 0 {
			found = items[i]
		}
		return found
	}
	if !rig.Until(time.Minute, func() bool { i := pool("pay"); return i.Held != nil && *i.Held == 1 }) {
		t.Errorf("of pay nothing is held: %+v", pool("pay"))
	}
	if i := pool("acme"); i.Team != "" || !slices.Equal(i.Teams, []string{"pay"}) || !i.UsedUp || i.Held == nil || *i.Held != 0 { // the events are acme's, what stands still is pay's
		t.Errorf("%+v", i)
	}
	page, err := p.api.Budgets(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	page.Items = slices.DeleteFunc(page.Items, func(i api.BudgetItem) bool { return i.Budget == "destinations.pool.budget" })
	const each = "teams.acme.subscriptions.fulfil.budget"
	got := map[string]api.BudgetItem{}
	for _, i := range page.Items {
		got[strings.TrimSpace(i.Budget+"."+i.Of+" "+i.Entity)] = i
		if i.Team != "acme" || i.Held == nil || i.RenewsAt.Before(time.Now()) {
			t.Errorf("%+v", i)
		}
	}
	for name, want := range map[string]api.BudgetItem{
		"teams.acme.budget.runs": {Limit: 100, Per: "366d", Left: 97, Used: 3, OnLimit: "park", Command: "forebay dlq list --class budget --team acme"},
		each + ".runs":           {Limit: 2, Per: "366d", Left: 2, Each: true, OnLimit: "hold"},
		each + ".runs a": {Limit: 2, Per: "366d", Used: 2, UsedUp: true, Each: true, Source: "/acme/orders", OnLimit: "hold",
			Command: "forebay inbox list --status waiting_budget --team acme"},
		each + ".runs b": {Limit: 2, Per: "366d", Used: 1, Left: 1, Each: true, Source: "/acme/orders", OnLimit: "hold"},
		each + ".cost":   {Limit: 2.5, Per: "1d", Left: 2.5, Each: true, OnLimit: "hold"},
	} {
		i, ok := got[name]
		if name == "teams.acme.budget.runs" && i.Used > i.Limit { // what processes have taken ahead counts, until it goes back
			t.Errorf("%+v", i)
		}
		if name == "teams.acme.budget.runs" {
			want.Used, want.Left = i.Used, i.Limit-i.Used
		}
		if !ok || i.Limit != want.Limit || i.Per != want.Per || i.Used != want.Used || i.Left != want.Left || i.UsedUp != want.UsedUp ||
			i.Each != want.Each || i.Source != want.Source || i.OnLimit != want.OnLimit ||
			want.Command != "" && i.Command != want.Command {
			t.Errorf("%s: %+v, want %+v", name, i, want)
		}
	}
	if n := *got[each+".runs a"].Held; n != 1 {
		t.Errorf("the used up one holds %d", n)
	}
	if n := *got[each+".runs"].Held + *got[each+".runs b"].Held + *got["teams.acme.budget.runs"].Held; n != 1 {
		t.Errorf("all of the entities hold %d", n)
	}
	if c := got[each+".cost c"]; c.UsedUp || *c.Held != 1 || *got[each+".cost"].Held != 1 {
		t.Errorf("the one of which less is left than the last run has cost: %+v holds %d", c, *c.Held)
	}
	short := func(i api.AttentionItem) bool {
		return i.ID == each+".cost /acme/orders c" && i.Reason == "too_little_left" && strings.Contains(i.Detail, " of 2.5 are used")
	}
	db := pgtest.Connect(t, place.url, place.schema)
	if _, err := db.Exec(t.Context(), `INSERT INTO counters SELECT $1 || n, now(), 9, 10, 1, 1, now() + interval '1 hour' FROM generate_series(1, $2) n`,
		"budget "+each+".cost /acme/orders near-", mostBudgets); err != nil {
		t.Fatal(err)
	}
	if waits, err := p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindBudget}); err != nil || !slices.ContainsFunc(waits.Items, short) {
		t.Errorf("behind %d that are nearly used up, for which nothing waits: %+v %v", mostBudgets, waits, err)
	}
	if _, err := db.Exec(t.Context(), `DELETE FROM counters WHERE starts_with(name, $1)`, "budget "+each+".cost /acme/orders near-"); err != nil {
		t.Fatal(err)
	}
	if tag, err := db.Exec(t.Context(), `UPDATE actions SET next_at = now() - interval '1 minute' WHERE status = 'waiting_budget'`); err != nil || tag.RowsAffected() == 0 {
		t.Fatal(tag, err)
	}
	var waits *api.Attention
	if !rig.Until(time.Minute, func() bool {
		waits, err = p.api.Attention(t.Context(), api.AttentionFilter{Kind: api.KindBudget})
		return err == nil && len(waits.Items) > 0 && !slices.ContainsFunc(waits.Items, short)
	}) {
		t.Errorf("of what does not ask any more nobody knows whether too little is left: %+v %v", waits, err)
	}
	page, err = p.api.Budgets(t.Context(), true)
	setAside := func(i api.BudgetItem) bool { // the last run of c, perhaps
		return i.Entity == "c" && i.Of == "runs" || i.Budget == "destinations.pool.budget"
	}
	page.Items = slices.DeleteFunc(page.Items, setAside)
	if err != nil || len(page.Items) != 1 || page.Items[0].Entity != "a" {
		t.Errorf("used up: %+v %v", page, err)
	}
	if _, err := p.api.PauseScope(t.Context(), api.PauseAll, "", api.PauseRequest{Reason: "runs wild", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + p.app.Addr("operator").String() + "/console/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	for _, want := range []string{"Everything is paused since", "forebay resume --all --reason TEXT",
		"Budget " + each + ".runs of entity /acme/orders a is used up: 2 in 366d", "forebay inbox list --status waiting_budget --team acme"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%q is not on the page:\n%.3000s", want, body)
		}
	}
	p.clean()
}

// What is used is told of the caps that the file has now.
func TestBudgetCaps(t *testing.T) {
	t.Parallel()
	a := &App{}
	a.current.Store(&config.Config{Teams: map[string]*config.Team{"acme": {Budget: &config.Budget{Runs: &config.RunsBudget{}, Cost: &config.CostBudget{}}}, "pay": {Budget: &config.Budget{Cost: &config.CostBudget{}}}}})
	if got, want := strings.Join(a.budgetCaps(), " "), "teams.acme.budget.runs teams.acme.budget.cost teams.pay.budget.cost"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
