package console

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/openid"
	"github.com/forebay-io/forebay/cmd/internal/openid/openidtest"
	"github.com/forebay-io/forebay/schemas"
)

// provided is a console whose people a provider knows.
func provided(t *testing.T) (*guardedFake, *openidtest.Provider) {
	t.Helper()
	const back = "https://forebay.example.com/console/login/callback"
	p := openidtest.New(t, back)
	g := guardFake(t, func(g *guardedFake, l *Login) {
		l.OIDC = openid.New(openid.Config{Issuer: p.URL, ClientID: openidtest.Client, ClientSecret: schemas.NewSecret(openidtest.Secret), Redirect: back,
			Rules: []openid.Rule{{Claim: "groups", Value: "oncall", Role: "responder", Teams: []string{"acme"}, Payloads: true}}})
		l.Sessions = access.NewSessions(func() (access.SessionStore, error) { return g.sessions, nil }, l.OIDC.Fingerprint(), slog.New(slog.DiscardHandler))
	})
	p.Knows(map[string]any{"sub": "u1", "email": "ann@example.com", "email_verified": true, "groups": []string{"oncall"}})
	return g, p
}

// TestLoginByTheProvider: from the login page to the page that was asked for, as who the provider says; with a session of its own.
func TestLoginByTheProvider(t *testing.T) {
	t.Parallel()
	g, p := provided(t)
	v := g.visitor()
	planted := g.as("eve").cookies[sessionCookie]
	page := v.get(v.get("/console/inbox?entity=o-1").header.Get("Location"))
	begun := v.get(page.link("Log in with your account"))
	v.cookies[sessionCookie] = planted
	if set := begun.header.Values("Set-Cookie"); begun.status != http.StatusSeeOther || len(set) != 1 || !strings.HasPrefix(set[0], "__Host-forebay-login=") || !strings.HasSuffix(set[0], "; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Fatalf("%d %v", begun.status, set)
	}
	back := p.LogIn(t, begun.header.Get("Location"))
	cookie := v.cookies["__Host-forebay-login"]
	in := v.get(back.RequestURI())
	if in.status != http.StatusSeeOther || in.header.Get("Location") != "/console/inbox?entity=o-1" || v.cookies["__Host-forebay-login"] != "" || v.cookies[sessionCookie] == planted {
		t.Fatalf("%d %v %v", in.status, in.header, v.cookies)
	}
	v.get("/console/").says("span", "oidc:ann@example.com, responder of acme")
	if got := g.visitor(); got.get("/console/").status != http.StatusSeeOther {
		t.Error("open")
	}
	form := url.Values{formField: {v.field("/console/dlq")}, "action": {"act_1"}, "until": {"2026-11-23T09:00:00Z"}, "reason": {"mended"}}
	if s := v.post("/console/dlq/replay", form); s.status != http.StatusOK || len(g.asked) != 1 || g.asked[0].By != "oidc:ann@example.com" {
		t.Errorf("%d %+v", s.status, g.asked)
	}
	again := g.visitor()
	again.cookies["__Host-forebay-login"] = cookie
	if s := again.get(back.RequestURI()); s.status != http.StatusUnauthorized || again.cookies[sessionCookie] != "" {
		t.Errorf("the code once more: %d", s.status)
	}
	for _, secret := range []string{cookie, v.cookies[sessionCookie], back.Query().Get("code"), openidtest.Secret} {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	g.sessions.mu.Lock()
	g.sessions.list[0].Rules = make([]byte, 32)
	g.sessions.mu.Unlock()
	if s := v.get("/console/"); s.status != http.StatusSeeOther {
		t.Errorf("a session of other grants opens: %d", s.status)
	}
}

// TestLoginByTheProviderFails: who has no role, and who comes with another's answer, is told so and gets no session.
func TestLoginByTheProviderFails(t *testing.T) {
	t.Parallel()
	g, p := provided(t)
	none := func(v *visitor, s *screen, status int, says string) {
		t.Helper()
		s.says("p", says)
		s.says("button", "Log in")
		if s.status != status || v.cookies[sessionCookie] != "" {
			t.Errorf("%d %v", s.status, v.cookies)
		}
	}
	begin := func(v *visitor) string {
		return p.LogIn(t, v.get("/console/login/oidc?next=//evil.example").header.Get("Location")).RequestURI()
	}
	stranger := g.visitor()
	p.Knows(map[string]any{"sub": "u2", "groups": []string{"sales"}})
	none(stranger, stranger.get(begin(stranger)), http.StatusForbidden, "the provider knows you as u2, but none of operator.oidc.grants is for you")
	p.Knows(map[string]any{"sub": "u1", "groups": []string{"oncall"}})
	victim := g.visitor()
	none(victim, victim.get(begin(g.visitor())), http.StatusBadRequest, "this login was not begun in this browser")
	begin(victim)
	none(victim, victim.get(begin(g.visitor())), http.StatusBadRequest, "this login was not begun in this browser")
	v := g.visitor()
	if s := v.get(begin(v)); s.header.Get("Location") != "/console/" {
		t.Errorf("%v", s.header)
	}
	away := guardFake(t, func(_ *guardedFake, l *Login) { l.OIDC = openid.New(openid.Config{Issuer: "http://127.0.0.1:1"}) }).visitor()
	none(away, away.get("/console/login/oidc"), http.StatusServiceUnavailable, "ask the provider http://127.0.0.1:1")
}
