package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
)

// ofTeam are the pages about what one team has, and what is sent to them, by paths with TEAM in them, or with DEAD, REPLAY for the id of
// something of the team. Which right each needs is written here once more, so that a page is seen that asks as somebody else.
var ofTeam = []struct {
	method, path string
	right        access.Right
}{
	{"GET", "/console/event?id=TEAM/fulfil/orders/e-2", access.See},
	{"GET", "/console/event/raw?id=TEAM/fulfil/orders/e-2", access.Content},
	{"GET", "/console/entity?of=TEAM/fulfil/orders&entity=o-1", access.See},
	{"GET", "/console/event/redrive?id=TEAM/fulfil/orders/e-5", access.Respond},
	{"GET", "/console/quarantine/TEAM/orders/1/7", access.See},
	{"GET", "/console/quarantine/TEAM/orders/1/7/raw", access.Content},
	{"GET", "/console/subscriptions/TEAM/fulfil", access.See},
	{"GET", "/console/subscriptions/TEAM/fulfil/seek?to=end", access.Operate},
	{"GET", "/console/destinations/TEAM/agent", access.See},
	{"GET", "/console/sources/TEAM/orders", access.See},
	{"GET", "/console/sources/TEAM/orders/test", access.Sources},
	{"POST", "/console/sources/TEAM/orders/test", access.Sources},
	{"POST", "/console/event/redrive?id=TEAM/fulfil/orders/e-5", access.Respond},
	{"POST", "/console/quarantine/TEAM/orders/1/7", access.Sources},
	{"POST", "/console/subscriptions/TEAM/fulfil/pause", access.Respond},
	{"POST", "/console/subscriptions/TEAM/fulfil/resume", access.Respond},
	{"POST", "/console/subscriptions/TEAM/fulfil/seek", access.Operate},
	{"POST", "/console/destinations/TEAM/agent/pause", access.Respond},
	{"POST", "/console/destinations/TEAM/agent/resume", access.Respond},
	{"GET", "/console/subscriptions/TEAM/fulfil/accept?stop=7", access.Operate},
	{"POST", "/console/subscriptions/TEAM/fulfil/accept", access.Operate},
	{"GET", "/console/dlq/replay?action=DEAD", access.See},
	{"GET", "/console/dlq/discard?action=DEAD", access.See},
	{"GET", "/console/dlq/resolve?action=DEAD", access.See},
	{"POST", "/console/dlq/replay", access.Respond},
	{"POST", "/console/dlq/discard", access.Respond},
	{"POST", "/console/dlq/resolve", access.Respond},
	{"GET", "/console/approvals/REPLAY", access.See},
	{"POST", "/console/approvals/REPLAY/approve", access.Approve},
	{"POST", "/console/approvals/REPLAY/deny", access.Approve},
	{"GET", "/console/approvals?team=TEAM", access.See},
	{"GET", "/console/replays/REPLAY", access.See},
	{"POST", "/console/replays/REPLAY/start", access.Operate},
	{"POST", "/console/replays/REPLAY/cancel", access.Operate},
	{"GET", "/console/inbox?team=TEAM", access.See},
	{"GET", "/console/attention?team=TEAM", access.See},
	{"GET", "/console/dlq?team=TEAM", access.See},
	{"GET", "/console/gaps?team=TEAM", access.See},
	{"GET", "/console/quarantine?team=TEAM", access.See},
	{"GET", "/console/replays?team=TEAM", access.See},
	{"GET", "/console/audit?team=TEAM", access.Audit},
}

// ofAll are the pages of what whoever looks may see.
var ofAll = []string{"/console/", "/console/subscriptions", "/console/destinations", "/console/sources", "/console/schemas", "/console/health", "/console/schemas/forebay.event",
	"/console/dlq/replay?group=g1", "/console/dlq/progress?verb=replay&group=g1&asked=3&until=2026-11-23T09:00:00Z"}

// notHere are the routes that are in neither list. The live view does not end: live_test.go looks at it. Of a shared destination, which is no one
// team's, the API's own matrix holds who may do what.
var notHere = []string{"/console/", "GET /console/static/", "GET /console/inbox/live",
	"GET /console/destinations/{destination}", "POST /console/destinations/{destination}/pause", "POST /console/destinations/{destination}/resume"}

// TestEveryRouteIsOfSomebody: a new page is in one of the lists, and none of them has a page that is gone.
func TestEveryRouteIsOfSomebody(t *testing.T) {
	t.Parallel()
	routes := pagesOf(t, newFake().config()).routes()
	mux := http.NewServeMux()
	for pattern, answer := range routes {
		mux.HandleFunc(pattern, answer)
	}
	listed := map[string]bool{}
	for _, pattern := range notHere {
		if listed[pattern] = true; routes[pattern] == nil {
			t.Errorf("%s is no route", pattern)
		}
	}
	at := func(method, path string) {
		_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if listed[pattern] = true; pattern == "/console/" {
			t.Errorf("%s %s is no page", method, path)
		}
	}
	for _, p := range ofTeam {
		at(p.method, p.path)
	}
	for _, path := range ofAll {
		at(http.MethodGet, path)
	}
	for pattern := range routes {
		if !listed[pattern] {
			t.Errorf("%s is seen by no test of roles: add it to ofTeam or ofAll", pattern)
		}
	}
}

// ids are those of something that acme has, and of nothing.
var ids = map[bool]*strings.Replacer{
	true:  strings.NewReplacer("TEAM", "acme", "DEAD", "act_1", "REPLAY", "7001"),
	false: strings.NewReplacer("TEAM", "none", "DEAD", "act_none", "REPLAY", "4041"),
}

// asNone is what is said of acme's, as it would be said of nothing.
var asNone = strings.NewReplacer("acme", "none", "act_1", "act_none", "7001", "4041")

// TestEveryPageForEveryRole: of another team there is what there is of none, in the same words; a role that may not is refused; and whoever
// may is not.
func TestEveryPageForEveryRole(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	g.plan.ID, g.question.ID = "7001", "7001"
	stop, dead := g.stopped, slices.Clone(g.dead)
	g.console.visits = access.NewRates(1e6, 1e6)
	g.console.attempts, g.console.allAttempts = g.console.visits, g.console.visits
	for _, role := range access.Roles() {
		teams := []string{"acme", "pay"}
		if role != "admin" && role != "viewer" { // what another team sees does not depend on the role, once it may
			teams = teams[:1]
		}
		for _, team := range teams {
			g.tokens["t"] = &access.Who{Name: "t", Role: role, Teams: []string{team}, Sees: true}
			if role == "admin" && team == "acme" {
				g.tokens["t"].Teams = nil
			}
			v := g.as("t")
			form := url.Values{formField: {v.field("/console/health")}, "id": {"acme/fulfil/orders/e-5"}, "to": {"end"}, "stop": {"7"}, "after": {"0"}, "seconds": {"1800"}, "reason": {"x"}, "by": {"mallory"}, "until": {at.Format(time.RFC3339Nano)}}
			for _, p := range ofTeam {
				what := role + " of " + team + " at " + p.method + " " + p.path
				look := func(own bool) *screen {
					of := ids[own].Replace
					if p.method == "GET" {
						return v.get(of(p.path))
					}
					form.Set("id", of("TEAM/fulfil/orders/e-5"))
					form.Set("action", of("DEAD"))
					form.Set("after", "0")
					return v.post(of(p.path), form)
				}
				g.seeks, g.replayed, g.accepted, g.stopped, g.dead, g.plan.State, g.question.State = nil, nil, nil, stop, slices.Clone(dead), "planned", "waiting"
				s := look(true)
				switch who := g.tokens["t"]; {
				case !who.May(p.right):
					if s.status != http.StatusForbidden && !strings.Contains(text(s.root), "which may not do that") && (who.Of("acme") || s.status != http.StatusNotFound) {
						t.Errorf("%s: %d %s", what, s.status, text(s.root))
					}
				case who.Of("acme"):
					if s.status == http.StatusForbidden || s.status == http.StatusNotFound || s.status == http.StatusUnauthorized {
						t.Errorf("%s: %d %s", what, s.status, text(s.root))
					}
				default:
					none := look(false)
					said, ofNone := asNone.Replace(text(s.root)), text(none.root)
					if s.status != http.StatusNotFound || none.status != s.status || said != ofNone {
						t.Errorf("%s: %d %s\nof none: %d %s", what, s.status, said, none.status, ofNone)
					}
				}
				if s.status >= 500 {
					t.Errorf("%s: %d %s", what, s.status, text(s.root))
				}
			}
			for _, path := range ofAll {
				said := text(v.get(path).root)
				if who := g.tokens["t"]; !who.Of("acme") && (strings.Contains(said, "acme.fulfil") || strings.Contains(said, "acme/orders") || strings.Contains(said, "acme/agent")) {
					t.Errorf("%s of %s at %s: %s", role, team, path, said)
				}
			}
		}
	}
}
