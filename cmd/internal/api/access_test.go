package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// rolesOf says who may ask each path, role by role. It is written here once more, so that a slip in the table of routes is seen.
var rolesOf = map[string]string{
	"GET /v1/audit": "auditor admin", "GET /v1/tokens": "admin", "POST /v1/tokens": "admin", "POST /v1/tokens/{token}/revoke": "admin",
	"POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive": "responder operator source-admin admin",
	"POST /v1/sources/{team}/{source}/test":                            "responder operator source-admin admin",
	"POST /v1/inbox/{team}/{subscription}/{source}/{event}/redrive":    "responder operator admin",
	"POST /v1/dlq/{action}/{verb}":                                     "responder operator admin",
	"POST /v1/alerts/{alert}/silence":                                  "responder operator admin",
	"POST /v1/silences/{silence}/end":                                  "responder operator admin",
	"POST /v1/approvals/{approval}/{verb}":                             "operator approver admin",
	"POST /v1/replays":                                                 "operator admin",
	"POST /v1/replays/{replay}/count":                                  "operator admin",
	"POST /v1/replays/{replay}/start":                                  "operator admin",
	"POST /v1/replays/{replay}/cancel":                                 "operator admin",
	"POST /v1/subscriptions/{team}/{subscription}/accept":              "operator admin",
	"POST /v1/subscriptions/{team}/{subscription}/seek":                "operator admin",
	"POST /v1/subscriptions/{team}/{subscription}/pause":               "responder operator admin",
	"POST /v1/subscriptions/{team}/{subscription}/resume":              "responder operator admin",
	"POST /v1/destinations/{team}/{destination}/pause":                 "responder operator admin",
	"POST /v1/destinations/{team}/{destination}/resume":                "responder operator admin",
	"POST /v1/pause":                                              "responder operator admin",
	"POST /v1/resume":                                             "responder operator admin",
	"POST /v1/teams/{team}/pause":                                 "responder operator admin",
	"POST /v1/teams/{team}/resume":                                "responder operator admin",
	"POST /v1/agents/{agent}/pause":                               "responder operator admin",
	"POST /v1/agents/{agent}/resume":                              "responder operator admin",
	"POST /v1/destinations/{destination}/pause":                   "responder operator admin",
	"POST /v1/destinations/{destination}/resume":                  "responder operator admin",
	"GET /v1/inbox/{team}/{subscription}/{source}/{event}/raw":    "payloads",
	"GET /v1/inbox/{team}/{subscription}/{source}/{event}/record": "payloads",
	"GET /v1/quarantine/{team}/{source}/{partition}/{offset}/raw": "payloads",
	"GET /v1/dlq/{action}/record":                                 "payloads",
}

func mayAsk(pattern, role string, payloads bool) bool {
	switch roles, ok := rolesOf[pattern]; {
	case !ok:
		return strings.HasPrefix(pattern, "GET ")
	case roles == "payloads":
		return payloads
	default:
		return slices.Contains(strings.Fields(roles), role)
	}
}

// tokensOf is a store of tokens in memory.
type tokensOf []ledger.Token

func (s tokensOf) Tokens(context.Context) ([]ledger.Token, error) { return s, nil }
func (s tokensOf) UsedToken(context.Context, string) error        { return nil }
func (s *tokensOf) add(t ledger.Token) (token string) {
	token = access.NewToken()
	t.Hash, t.Name = access.Hash(token), fmt.Sprintf("t%d", len(*s))
	if t.ExpiresAt.IsZero() {
		t.ExpiresAt = time.Now().Add(time.Hour)
	}
	*s = append(*s, t)
	return token
}

// guardedWorld is a listener on the world that answers to those with tokens.
func guardedWorld(t *testing.T, tokens *tokensOf, change func(*Config)) (*Client, *world) {
	t.Helper()
	w := &world{}
	c, _ := setup(t, func(cfg *Config) {
		w.config(cfg)
		keeper := access.NewKeeper(func() (access.Store, error) { return tokens, nil }, slog.New(slog.DiscardHandler))
		cfg.Access = &Access{Who: func(ctx context.Context, token string) (*access.Who, error) {
			hash := access.Hash(token)
			if !slices.ContainsFunc(*tokens, func(k ledger.Token) bool { return k.Hash == hash }) {
				return nil, schemas.Errorf(schemas.Unauthenticated, "", "the token is not known") // the keeper would wait a second for it
			}
			return keeper.Who(ctx, token)
		}, Address: func(*http.Request) string { return rand.Text() }} // so that nobody has asked too often
		if change != nil {
			change(cfg)
		}
	})
	return c, w
}

// bodies are what is posted; others take a reason.
func bodyOf(pattern, team string) string {
	switch {
	case strings.HasPrefix(pattern, "GET "):
		return ""
	case pattern == "POST /v1/replays":
		return fmt.Sprintf(`{"team": %q, "subscription": "triage", "mode": "fill", "by": "mallory"}`, team)
	case pattern == "POST /v1/alerts/{alert}/silence":
		return fmt.Sprintf(`{"team": %q, "seconds": 3600, "reason": "x", "by": "mallory"}`, team)
	case pattern == "POST /v1/tokens":
		return `{"name": "eve", "role": "admin", "expires_at": "2027-01-01T00:00:00Z", "reason": "x", "by": "mallory"}`
	case strings.HasSuffix(pattern, "/count"):
		return "{}"
	case strings.HasSuffix(pattern, "/seek"):
		return `{"to": "end", "reason": "x", "by": "mallory"}`
	}
	return `{"reason": "x", "by": "mallory"}`
}

// pathOf makes a path of a pattern, about what a team has.
func pathOf(pattern, team string) string {
	_, path, _ := strings.Cut(pattern, " ")
	replay := map[string]string{"acme": "1", "pay": "2", "none": "3"}[team]
	destination := "agent"
	if !strings.Contains(pattern, "{team}") {
		destination = "shared-" + team
	}
	verb := "replay"
	if strings.Contains(pattern, "{approval}") {
		verb = "approve"
	}
	return strings.NewReplacer("{approval}", replay, "{team}", team, "{subscription}", "triage", "{source}", "github", "{event}", "e1", "{entity}", "1", "{partition}", "0", "{offset}", "1",
		"{action}", "act-"+team, "{replay}", replay, "{silence}", replay, "{alert}", "ForebayLag", "{verb}", verb, "{token}", "ann", "{destination}", destination, "{agent}", "coder").Replace(path)
}

type reply struct {
	Status int
	Body   string
	Calls  []string // of the world
}

// askAs sends a request with a token, or without one if that is empty.
func askAs(t *testing.T, c *Client, w *world, token, method, path, body string) (got reply, by []string) {
	t.Helper()
	w.taken()
	req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if (resp.StatusCode == http.StatusUnauthorized) != (resp.Header.Get("WWW-Authenticate") == "Bearer") {
		t.Errorf("%s %s: %d with WWW-Authenticate %q", method, path, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
	got = reply{Status: resp.StatusCode, Body: string(text)}
	got.Calls, by = w.taken()
	return got, by
}

// TestEveryRouteForEveryRole walks every route with every role, with and without the right to payloads, about the own team, another one, one
// that is not there, and with what is no token. Where it is not to be answered, nothing is asked or changed behind it; and of another
// team's things the answer and what is asked for it are those for what is not there.
func TestEveryRouteForEveryRole(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	scoped, everywhere := map[string]string{}, map[string]string{}
	for _, role := range access.Roles() {
		for _, payloads := range []bool{false, true} {
			scoped[fmt.Sprint(role, payloads)] = tokens.add(ledger.Token{Role: role, Payloads: payloads, Teams: []string{"acme"}})
			everywhere[fmt.Sprint(role, payloads)] = tokens.add(ledger.Token{Role: role, Payloads: payloads})
		}
	}
	closed := map[string]string{
		"none": "", "unknown": access.NewToken(), "no token's form": "letmein", "its hash": fmt.Sprintf("%x", tokens[0].Hash),
		"expired": tokens.add(ledger.Token{Role: "admin", Payloads: true, ExpiresAt: time.Now().Add(-time.Second)}),
		"revoked": tokens.add(ledger.Token{Role: "admin", Payloads: true, RevokedAt: new(time.Now())}),
	}
	c, w := guardedWorld(t, &tokens, nil)
	for _, r := range (&server{}).routes() {
		t.Run(r.pattern, func(t *testing.T) {
			method, _, _ := strings.Cut(r.pattern, " ")
			send := func(token, team string) (reply, []string) {
				return askAs(t, c, w, token, method, pathOf(r.pattern, team), bodyOf(r.pattern, team))
			}
			for name, token := range closed {
				if got, by := send(token, "acme"); got.Status != http.StatusUnauthorized || got.Calls != nil || by != nil {
					t.Errorf("token %s: %+v, changed by %q", name, got, by)
				}
			}
			for _, role := range access.Roles() {
				for _, payloads := range []bool{false, true} {
					may := mayAsk(r.pattern, role, payloads)
					holds(t, r, may, payloads, "pay", everywhere[fmt.Sprint(role, payloads)], send)
					if may && r.scope == ofAll {
						if got, by := send(scoped[fmt.Sprint(role, payloads)], "acme"); got.Status != http.StatusForbidden || by != nil {
							t.Errorf("%s of one team: %+v", role, got)
						}
						continue
					}
					holds(t, r, may, payloads, "acme", scoped[fmt.Sprint(role, payloads)], send)
					strangers(t, r, may, scoped[fmt.Sprint(role, payloads)], send)
				}
			}
		})
	}
}

// holds asks about a team with a token that is for it.
func holds(t *testing.T, r route, may, payloads bool, team, token string, send func(token, team string) (reply, []string)) {
	t.Helper()
	got, by := send(token, team)
	switch {
	case !may && (got.Status != http.StatusForbidden || got.Calls != nil || by != nil):
		t.Errorf("may not, and got %+v, changed by %q", got, by)
	case may && got.Status != http.StatusOK:
		t.Errorf("may, and got %+v", got)
	case may && !payloads && strings.Contains(got.Body, answered):
		t.Errorf("sees what events carry: %s", got.Body)
	case may && len(by) > 0 && (len(by) > 1 || !strings.HasPrefix(by[0], "t")):
		t.Errorf("changed by %q, which is not the token's name", by)
	case may && strings.HasPrefix(r.pattern, "POST") && !strings.HasSuffix(r.pattern, "/count") && len(by) == 0:
		t.Error("nothing was changed: the test says nothing")
	}
	if team == "acme" && (strings.Contains(got.Body, "pay") && !strings.Contains(got.Body, "payloads") || strings.Contains(got.Body, "third")) {
		t.Errorf("has another team's: %s", got.Body)
	}
}

// strangers asks about another team's things, and about what is not there.
func strangers(t *testing.T, r route, may bool, token string, send func(token, team string) (reply, []string)) {
	t.Helper()
	if r.scope == ofFilter || pathOf(r.pattern, "pay") == pathOf(r.pattern, "none") && bodyOf(r.pattern, "pay") == bodyOf(r.pattern, "none") {
		return // lists; see TestListsOfOneTeam
	}
	theirs, changed := send(token, "pay")
	nobodys, changed2 := send(token, "none")
	if changed != nil || changed2 != nil {
		t.Errorf("changed by %q %q", changed, changed2)
	}
	want := http.StatusNotFound
	if !may {
		want = http.StatusForbidden
	}
	if diff := cmp.Diff(nobodys, theirs); diff != "" || theirs.Status != want {
		t.Errorf("%+v, want %d; what is another team's can be told from what is not there: %s", theirs, want, diff)
	}
}

// Lists with a parameter team are of the token's team; one of several teams says which.
func TestListsOfOneTeam(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	one, two := tokens.add(ledger.Token{Role: "auditor", Teams: []string{"acme"}}), tokens.add(ledger.Token{Role: "auditor", Teams: []string{"acme", "fourth"}})
	c, w := guardedWorld(t, &tokens, nil)
	lists := 0
	for _, r := range (&server{}).routes() {
		if r.scope != ofFilter {
			if slices.Contains(r.query, "team") {
				t.Errorf("%s has a parameter team, and its scope does not follow it", r.pattern)
			}
			continue
		}
		lists++
		path := pathOf(r.pattern, "")
		own, _ := askAs(t, c, w, one, "GET", path, "")
		named, _ := askAs(t, c, w, two, "GET", path+"?team=acme&limit=7", "")
		if own.Status != 200 || named.Status != 200 || len(own.Calls) != 1 || !strings.HasSuffix(own.Calls[0], " acme") || !slices.Equal(own.Calls, named.Calls) || own.Body != named.Body {
			t.Errorf("%s: %+v, with the team named %+v", path, own, named)
		}
		theirs, _ := askAs(t, c, w, one, "GET", path+"?team=pay", "")
		nobodys, _ := askAs(t, c, w, one, "GET", path+"?team=none", "")
		if diff := cmp.Diff(theirs, nobodys); diff != "" || theirs.Status != http.StatusNotFound || theirs.Calls != nil {
			t.Errorf("%s: %+v %s", path, theirs, diff)
		}
		if several, _ := askAs(t, c, w, two, "GET", path, ""); several.Status != http.StatusBadRequest || !strings.Contains(several.Body, "acme, fourth") || several.Calls != nil {
			t.Errorf("%s for several teams: %+v", path, several)
		}
	}
	if lists != 10 {
		t.Errorf("%d lists", lists)
	}
}

// What is no question: metrics are for those of all teams, paths that are none and why the process is not ready for those who are known.
func TestTheRestOfTheListener(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	one, all := tokens.add(ledger.Token{Role: "admin", Teams: []string{"acme"}}), tokens.add(ledger.Token{Role: "viewer"})
	root := tokens.add(ledger.Token{Role: "admin"})
	c, w := guardedWorld(t, &tokens, nil)
	for path, want := range map[string]string{
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total", "/debug/pprof/heap?debug=1": "heap profile", "/debug/runtime": "go_gc_heap_live_bytes",
	} {
		if got, _ := askAs(t, c, w, root, "GET", path, ""); got.Status != 200 || !strings.Contains(got.Body, want) {
			t.Errorf("%s to an admin: %d %.200q, want %q", path, got.Status, got.Body, want)
		}
	}
	for path, want := range map[string]int{"/debug/pprof/nothing": 404, "/debug/pprof/cmdline": 404, "/debug/pprof/": 404, "/debug/": 404} {
		if got, _ := askAs(t, c, w, root, "GET", path, ""); got.Status != want {
			t.Errorf("%s to an admin: %+v, want %d", path, got, want)
		}
	}
	for _, tt := range []struct {
		path                string
		nobody, one, viewer int
	}{
		{"/debug/pprof/heap", 401, 403, 403}, {"/debug/pprof/profile", 401, 403, 403}, {"/debug/runtime", 401, 403, 403},
		{"/metrics", 401, 403, 200}, {"/v1/nothing", 401, 404, 404}, {"/", 401, 404, 404}, {"/v1/inbox/", 401, 404, 404},
		{"/v1/openapi.yaml", 200, 200, 200}, {"/livez", 200, 200, 200}, {"/readyz", 200, 200, 200},
	} {
		for token, want := range map[string]int{"": tt.nobody, one: tt.one, all: tt.viewer} {
			if got, _ := askAs(t, c, w, token, "GET", tt.path, ""); got.Status != want {
				t.Errorf("%s with %.8q: %+v, want %d", tt.path, token, got, want)
			}
		}
	}
	if got, _ := askAs(t, c, w, "", "GET", "/readyz", ""); strings.Contains(got.Body, "pay") || !strings.Contains(got.Body, `"ready":true`) || len(got.Calls) > 0 {
		t.Errorf("readiness to strangers: %+v", got)
	}
	if got, _ := askAs(t, c, w, one, "GET", "/readyz", ""); strings.Contains(got.Body, "pay") || !strings.Contains(got.Body, `"ready":true`) {
		t.Errorf("readiness to a token of another team: %s", got.Body)
	}
	if got, _ := askAs(t, c, w, all, "GET", "/readyz", ""); !strings.Contains(got.Body, "pay.triage") || len(got.Calls) != 1 {
		t.Errorf("readiness: %+v", got)
	}
}

// The listener answers under the declared host alone, and behind proxies only to those, for what came to them over TLS.
func TestDeclaredHostAndProxy(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	token := tokens.add(ledger.Token{Role: "viewer"})
	for _, tt := range []struct {
		access      Access
		host, proto string
		remote      string
		want        int
	}{
		{Access{}, "127.0.0.1:9090", "", "", 200},
		{Access{}, "forebay.example.com", "", "", 421},
		{Access{Host: "forebay.example.com"}, "forebay.example.com", "", "", 200},
		{Access{Host: "forebay.example.com"}, "Forebay.Example.com", "", "", 200},
		{Access{Host: "forebay.example.com"}, "forebay.example.com:9090", "", "", 421},
		{Access{Host: "forebay.example.com"}, "127.0.0.1", "", "", 421},
		{Access{Host: "forebay.example.com"}, "evil.example", "", "", 421},
		{Access{Host: "h", BehindProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "h", "https", "", 200},
		{Access{Host: "h", BehindProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "h", "http", "", 403},
		{Access{Host: "h", BehindProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "h", "", "", 403},
		{Access{Host: "h", BehindProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "h", "https,http", "", 403}, // a proxy that adds to what a client says
		{Access{Host: "h", BehindProxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "h", "https", "", 403},
		{Access{BehindProxy: []netip.Prefix{}}, "127.0.0.1:9090", "", "", 200},
	} {
		c, w := guardedWorld(t, &tokens, func(cfg *Config) {
			tt.access.Who = cfg.Access.Who
			cfg.Access = &tt.access
		})
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.base+"/v1/sources", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		req.Header.Set("Authorization", "bearer "+token)
		for proto := range strings.SplitSeq(tt.proto, ",") {
			req.Header.Add("X-Forwarded-Proto", proto)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if calls, _ := w.taken(); resp.StatusCode != tt.want || calls != nil {
			t.Errorf("%+v: %d", tt, resp.StatusCode)
		}
	}
}

// Access is there whole, or the listener is not made.
func TestNewRefusesHalfOfAccess(t *testing.T) {
	t.Parallel()
	w := &world{}
	for name, change := range map[string]func(*Config){
		"without Who":    func(cfg *Config) { cfg.Access = &Access{} },
		"without Owners": func(cfg *Config) { cfg.Access, cfg.Owners = &Access{Who: (&access.Keeper{}).Who}, nil },
	} {
		var cfg Config
		w.config(&cfg)
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Error(name)
		}
	}
}

// The client sends its token, over TLS or on this machine alone, and tells what it may not do from what went wrong.
func TestClientWithToken(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	token := tokens.add(ledger.Token{Role: "viewer", Teams: []string{"acme"}})
	c, w := guardedWorld(t, &tokens, nil)
	if _, err := c.Sources(t.Context()); schemas.KindOf(err) != schemas.Unauthenticated || !strings.Contains(err.Error(), "FOREBAY_TOKEN") {
		t.Errorf("without: %v", err)
	}
	with, err := c.WithToken(token)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := with.Sources(t.Context()); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v %v", page, err)
	}
	if _, err := with.Pause(t.Context(), "acme", "agent", PauseRequest{Reason: "x"}); schemas.KindOf(err) != schemas.Unauthenticated || !strings.Contains(err.Error(), "responder, operator, admin may") {
		t.Errorf("what it may not: %v", err)
	}
	if _, err := with.Raw(t.Context(), "acme", "triage", "github", "e1"); schemas.KindOf(err) != schemas.Unauthenticated || !strings.Contains(err.Error(), "--payloads") {
		t.Errorf("what it may not see: %v", err)
	}
	if _, err := with.Item(t.Context(), "pay", "triage", "github", "e1"); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("another team's: %v", err)
	}
	if p, err := with.Approval(t.Context(), "1"); err != nil || p.Sends != withheld {
		t.Errorf("what an approval is for: %+v %v", p, err)
	}
	if d, err := with.Item(t.Context(), "acme", "triage", "github", "e1"); err != nil || d.Actions[0].Attempts[0].Response != withheld {
		t.Errorf("%+v %v", d, err)
	}
	w.taken()
	for base, ok := range map[string]bool{"https://forebay.example.com": true, "http://forebay.example.com": false, "http://10.0.0.1:9090": false, "http://[::1]:9090": true, "http://localhost": true} {
		c, err := NewClient(base)
		if err == nil {
			_, err = c.WithToken(token)
		}
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// A client goes where it was told to and nowhere else: what answers with another address, such as the same host without TLS, gets no token there.
func TestClientFollowsNobody(t *testing.T) {
	t.Parallel()
	var got []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("Authorization")) }))
	defer elsewhere.Close()
	asked := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/sources", http.StatusTemporaryRedirect))
	defer asked.Close()
	c, err := NewClient(asked.URL)
	if err == nil {
		c, err = c.WithToken("fbo_secret")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sources(t.Context()); err == nil || !strings.Contains(err.Error(), "307") || got != nil {
		t.Errorf("%v; it was sent to where the answer leads: %q", err, got)
	}
}

// Where whoever reaches the listener may ask everything, it makes no key to where that is not so; and no token makes one that may see more.
func TestTokensAreMadeByThoseWhoMay(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	blind, seeing := tokens.add(ledger.Token{Role: "admin"}), tokens.add(ledger.Token{Role: "admin", Payloads: true})
	c, w := guardedWorld(t, &tokens, nil)
	const body = `{"name": "eve", "role": "admin", "payloads": true, "expires_at": "2027-01-01T00:00:00Z", "reason": "x"}`
	if got, by := askAs(t, c, w, blind, "POST", "/v1/tokens", body); got.Status != http.StatusForbidden || by != nil {
		t.Errorf("more than it has itself: %+v", got)
	}
	if got, by := askAs(t, c, w, seeing, "POST", "/v1/tokens", body); got.Status != http.StatusOK || len(by) != 1 {
		t.Errorf("%+v", got)
	}
	open, w2 := guardedWorld(t, &tokens, func(cfg *Config) { cfg.Access = nil })
	for path, body := range map[string]string{"/v1/tokens": body, "/v1/tokens/ann/revoke": `{"reason": "x"}`} {
		if got, by := askAs(t, open, w2, "", "POST", path, body); got.Status != http.StatusConflict || by != nil || !strings.Contains(got.Body, "-c FILE") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// A team sees its own alerts, and neither another's nor those of what is nobody's alone.
func TestOthersAlertsAreNotListed(t *testing.T) {
	t.Parallel()
	var tokens tokensOf
	token := tokens.add(ledger.Token{Role: "viewer", Teams: []string{"acme"}})
	c, w := guardedWorld(t, &tokens, nil)
	got, _ := askAs(t, c, w, token, "GET", "/v1/alerts", "")
	var list AlertList
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || got.Status != http.StatusOK {
		t.Fatalf("%v: %+v", err, got)
	}
	if len(list.Items) != 1 || list.Items[0].Team != "acme" || strings.Contains(got.Body, "pay") || !list.NotLookedFor {
		t.Errorf("%s", got.Body)
	}
}
