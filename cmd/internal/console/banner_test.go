package console

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// Every page says first what is paused and which budgets are used up, with the command that ends it; where that cannot be told, it says so.
func TestBanner(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	const none = "is paused since"
	if s := get(t, h, "/console/audit"); strings.Contains(text(s.all("main")[0]), none) {
		t.Errorf("nothing is paused: %s", text(s.all("main")[0]))
	}
	pause := &api.PauseItem{At: at, By: "jo", Reason: "runs wild"}
	f.scopes = []api.ScopeItem{{Scope: api.PauseAll, Paused: pause}, {Scope: api.PauseTeam, Name: "acme", Paused: pause}, {Scope: api.PauseAgent,
		Name: "coder", Paused: pause}}
	f.to[0].Paused = pause
	f.usedUp = []api.BudgetItem{{Budget: "teams.acme.budget", Team: "acme", Of: "runs", Source: "/acme/orders", Entity: "o-1", Limit: 500, Per: "1d",
		UsedUp: true, RenewsAt: at, Command: "forebay inbox list --status waiting_budget --team acme"}}
	for _, path := range []string{"/console/", "/console/inbox", "/console/attention", "/console/approvals", "/console/dlq", "/console/subscriptions",
		"/console/destinations", "/console/audit", "/console/health", "/console/nothing"} {
		main := text(get(t, h, path).all("main")[0])
		title := text(get(t, h, path).all("h1")[0])
		last := -1
		for _, want := range []string{
			"Everything is paused since", "by jo: runs wild forebay resume --all --reason TEXT", "Team acme is paused",
			"forebay resume --team acme --reason TEXT", "Agent coder is paused",
			"forebay resume --agent coder --reason TEXT", "Destination acme/" + f.to[0].Destination + " is paused",
			"forebay destinations resume acme/" + f.to[0].Destination + " --reason TEXT",
			"Budget teams.acme.budget.runs of entity /acme/orders o-1 is used up: 500 in 1d", "forebay inbox list --status waiting_budget --team acme", title,
		} {
			if now := strings.Index(main, want); now < last || now < 0 {
				t.Errorf("%s: %q is not there, or not in its place:\n%.1500s", path, want, main)
			} else {
				last = now
			}
		}
	}
	f.unknown = errors.New("the ledger is away")
	get(t, h, "/console/audit").says("p", "What is used up is not known", "the ledger is away")
}
