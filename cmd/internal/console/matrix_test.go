package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
)

// ofTeam are the pages about what one team has, and what is sent to them, by paths with TEAM in them. Which right each needs is written here
// once more, so that a page is seen that asks as somebody else.
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
	{"GET", "/console/alerts/ForebayLag/silence?team=TEAM", access.Respond},
	{"POST", "/console/alerts/ForebayLag/silence?team=TEAM", access.Respond},
	{"POST", "/console/event/redrive?id=TEAM/fulfil/orders/e-5", access.Respond},
	{"POST", "/console/quarantine/TEAM/orders/1/7", access.Sources},
	{"POST", "/console/subscriptions/TEAM/fulfil/pause", access.Respond},
	{"POST", "/console/subscriptions/TEAM/fulfil/resume", access.Respond},
	{"POST", "/console/subscriptions/TEAM/fulfil/seek", access.Operate},
	{"POST", "/console/destinations/TEAM/agent/pause", access.Respond},
	{"POST", "/console/destinations/TEAM/agent/resume", access.Respond},
	{"GET", "/console/inbox?team=TEAM", access.See},
	{"GET", "/console/attention?team=TEAM", access.See},
	{"GET", "/console/dlq?team=TEAM", access.See},
	{"GET", "/console/gaps?team=TEAM", access.See},
	{"GET", "/console/quarantine?team=TEAM", access.See},
	{"GET", "/console/replays?team=TEAM", access.See},
	{"GET", "/console/audit?team=TEAM", access.Audit},
}

// TestEveryPageForEveryRole: of another team there is what there is of none, in the same words; a role that may not is refused; and whoever
// may is not.
func TestEveryPageForEveryRole(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	g.console.visits = access.NewRates(1e6, 1e6)
	g.console.attempts, g.console.allAttempts = g.console.visits, g.console.visits
	for _, role := range access.Roles() {
		for _, team := range []string{"acme", "pay"} {
			g.tokens["t"] = &access.Who{Name: "t", Role: role, Teams: []string{team}, Sees: true}
			if role == "admin" && team == "acme" {
				g.tokens["t"].Teams = nil
			}
			v := g.as("t")
			form := url.Values{formField: {v.field("/console/health")}, "id": {"acme/fulfil/orders/e-5"}, "to": {"end"}, "after": {"0"}, "seconds": {"1800"}, "reason": {"x"}, "by": {"mallory"}, "until": {at.Format(time.RFC3339Nano)}}
			for _, p := range ofTeam {
				what := role + " of " + team + " at " + p.method + " " + p.path
				look := func(of string) *screen {
					path := strings.ReplaceAll(p.path, "TEAM", of)
					if p.method == "GET" {
						return v.get(path)
					}
					form.Set("id", of+"/fulfil/orders/e-5")
					return v.post(path, form)
				}
				g.seeks, g.alerts.Silences = nil, nil
				s := look("acme")
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
					none := look("none")
					said, ofNone := strings.ReplaceAll(text(s.root), "acme", "none"), text(none.root)
					if s.status != http.StatusNotFound || none.status != s.status || said != ofNone {
						t.Errorf("%s: %d %s\nof none: %d %s", what, s.status, said, none.status, ofNone)
					}
				}
				if s.status >= 500 {
					t.Errorf("%s: %d %s", what, s.status, text(s.root))
				}
			}
			for _, path := range []string{"/console/", "/console/alerts", "/console/subscriptions", "/console/destinations", "/console/sources", "/console/schemas", "/console/health"} {
				said := text(v.get(path).root)
				if who := g.tokens["t"]; !who.Of("acme") && (strings.Contains(said, "acme.fulfil") || strings.Contains(said, "acme/orders") || strings.Contains(said, "acme/agent")) {
					t.Errorf("%s of %s at %s: %s", role, team, path, said)
				}
			}
		}
	}
}
