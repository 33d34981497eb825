package integration

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/openid/openidtest"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestLoginByAProvider serves a console whose people an OpenID provider knows, which runs on loopback: by its login, with code and PKCE, each
// gets the role of their claims; who has none gets in nowhere. In a browser, the way there and back keeps the cookies that it needs.
func TestLoginByAProvider(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	ca := rig.NewAuthority(t)
	cert := ca.Issue("operator", time.Hour)
	provider := openidtest.New(t, "")
	r.edit("topics: {", `operator:
  auth: tokens
  public_url: "https://${env:OPERATOR}"
  tls: {cert_file: `+cert.Cert+`, key_file: `+cert.Key+`}
  oidc:
    issuer: `+provider.URL+`
    client_id: `+openidtest.Client+`
    client_secret: "${env:OIDC_SECRET}"
    grants: [{claim: groups, value: oncall, role: responder, teams: [`+r.team+`], payloads: true}, {claim: groups, value: staff, role: viewer, teams: ["*"]}]
topics: {`)
	r.variables = []string{"SSL_CERT_FILE=" + ca.CAFile, "OIDC_SECRET=" + openidtest.Secret}
	r.agent.answer = func(call) int { return http.StatusUnprocessableEntity }
	p := r.start("intake,stream")
	k := &keys{r, "https://" + p.operator}
	k.waitReady(k.client(ca))
	provider.LeadsTo(k.url + "/console/login/callback")
	r.deliver(issue(7, 1, 1))
	root := k.make("", "root", "--role", "admin", "--all-teams", "-c", r.config)
	dead := k.waitDead(root)

	// ann is of those on call, and looks for herself.
	provider.Knows(map[string]any{"sub": "u1", "email": "ann@example.com", "email_verified": true, "groups": []string{"staff", "oncall"}})
	ann := k.visitor(ca)
	page := "/console/dlq/replay?action=" + url.QueryEscape(dead)
	begun, back := ann.toProvider(provider, page)
	if q := begun.Query(); q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		t.Errorf("the provider is asked by %s", begun)
	}
	thief := k.visitor(ca)
	if status, said, _ := thief.look(back); status != http.StatusBadRequest || !strings.Contains(said, "not begun in this browser") {
		t.Errorf("a code in another browser: %d %s", status, said)
	}
	if status, said, to := ann.look(back); status != http.StatusSeeOther || to != page {
		t.Fatalf("%d %s %s", status, to, said)
	}
	if status, said, _ := ann.look(page); status != http.StatusOK || !containsAll(said, "oidc:ann@example.com, responder of "+r.team, "Replay 1 dead letter") {
		t.Errorf("%d %s", status, said)
	}
	if status, said, _ := ann.look("/console/audit"); status != http.StatusForbidden {
		t.Errorf("a responder looks at the audit: %d %s", status, said)
	}
	ann.noSecretIsLogged(p, root)
	if status, _, to := ann.send("/console/logout", nil); status != http.StatusSeeOther || to != "/console/login" {
		t.Errorf("%d %s", status, to)
	}
	if status, _, _ := ann.look(page); status != http.StatusSeeOther {
		t.Errorf("after the logout: %d", status)
	}

	// sue is of the sales people, to whom nothing gives a role.
	provider.Knows(map[string]any{"sub": "u3", "email": "sue@example.com", "email_verified": true, "groups": []string{"sales"}})
	sue := k.visitor(ca)
	_, back = sue.toProvider(provider, page)
	if status, said, _ := sue.look(back); status != http.StatusForbidden || !strings.Contains(said, "the provider knows you as sue@example.com") {
		t.Errorf("%d %s", status, said)
	}
	if status, _, _ := sue.look(page); status != http.StatusSeeOther {
		t.Errorf("who has no role looks: %d", status)
	}

	// vic looks on, in a browser: he may see and not replay.
	provider.Knows(map[string]any{"sub": "u2", "email": "vic@example.com", "email_verified": true, "groups": []string{"staff"}})
	b := openBrowser(t, k.url)
	b.open(page)
	b.check("login-provider")
	b.click("link", "Log in with your account")
	b.waitAt(page)
	b.see("heading", "What a replay would do")
	if said := b.do("body").(string); !strings.Contains(said, "oidc:vic@example.com, viewer of all teams") || strings.Contains(said, "Reason, which is kept") {
		t.Errorf("a viewer sees %s", said)
	}
	b.do("complaints") // that the way led over the provider
	b.check("provided")
	b.click("button", "Log out")
	b.waitAt("/console/login")
	b.open("/console/")
	b.waitAt("/console/login?next=%2Fconsole%2F")
	k.entered(root, "oidc:ann@example.com console.login done", "oidc:ann@example.com console.logout done", "oidc:sue@example.com console.login refused",
		"oidc:vic@example.com console.login done", "oidc:vic@example.com console.logout done")
	for _, secret := range []string{openidtest.Secret, begun.Query().Get("state"), back[strings.Index(back, "code=")+len("code="):][:26]} {
		if strings.Contains(p.output(), secret) {
			t.Error("the log has a secret of a login")
		}
	}
}

// toProvider asks for a page, and follows the login by the provider up to before the way back.
func (v *visitor) toProvider(p *openidtest.Provider, page string) (begun *url.URL, back string) {
	v.t.Helper()
	_, _, to := v.look(page)
	_, said, _ := v.look(to)
	if want := `href="/console/login/oidc?next=` + url.QueryEscape(page) + `"`; !strings.Contains(said, want) {
		v.t.Fatalf("the login page does not lead to the provider: %s", said)
	}
	status, said, to := v.look("/console/login/oidc?next=" + url.QueryEscape(page))
	begun, err := url.Parse(to)
	if err != nil || status != http.StatusSeeOther || !strings.HasPrefix(to, p.URL) {
		v.t.Fatalf("%d %s %s %v", status, to, said, err)
	}
	return begun, p.LogIn(v.t, to).RequestURI()
}
