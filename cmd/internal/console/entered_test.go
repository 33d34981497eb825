package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/openid/openidtest"
	"github.com/forebay-io/forebay/schemas"
)

// entries is an audit in memory.
type entries struct {
	api.Audit // asks nothing more
	mu        sync.Mutex
	list      []api.AuditItem
	err       error
}

func (a *entries) BeginChange(_ context.Context, c api.AuditItem) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return 0, a.err
	}
	a.list = append(a.list, c)
	return int64(len(a.list)), nil
}

func (a *entries) EndChange(_ context.Context, id int64, c api.AuditItem) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list[id-1].Outcome, a.list[id-1].Detail = c.Outcome, c.Detail
	return a.err
}

// texts are the rows, each as a line.
func (a *entries) texts() (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.list {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s (%s) from %s: %s %s", c.Action, c.Actor, c.Role, c.Object, c.Outcome, c.Detail)))
	}
	return list
}

// TestLoginsAreInTheAudit: who came in and went, from where, and who was not let in; nobody comes in without a row.
func TestLoginsAreInTheAudit(t *testing.T) {
	t.Parallel()
	audit := &entries{}
	g := guardFake(t, func(_ *guardedFake, l *Login) { l.Audit = audit })
	g.visitor().post("/console/login", url.Values{"token": {"wrong"}})
	v := g.as("ann")
	v.post("/console/logout", url.Values{formField: {v.field("/console/inbox")}})
	want := []string{
		"console.login nobody () from 192.0.2.1:1234: refused the token is not known",
		"console.login ann (responder) from 192.0.2.1:1234: done",
		"console.logout ann (responder) from 192.0.2.1:1234: done",
	}
	if diff := cmp.Diff(want, audit.texts()); diff != "" {
		t.Error(diff)
	}
	g.sessions.fail(schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused"))
	if s := g.visitor().post("/console/login", url.Values{"token": {"ann"}}); s.status != http.StatusServiceUnavailable || !strings.HasSuffix(audit.texts()[3], "failed ask Postgres: connection refused") {
		t.Errorf("%d %v", s.status, audit.texts())
	}
	g.sessions.fail(nil)
	audit.err = schemas.Errorf(schemas.Unavailable, "keep the change in the audit", "connection refused")
	v = g.visitor()
	if s := v.post("/console/login", url.Values{"token": {"ann"}}); s.status != http.StatusServiceUnavailable || v.cookies[sessionCookie] != "" {
		t.Errorf("without a row, somebody comes in: %d %v", s.status, v.cookies)
	}
	if s := v.post("/console/login", url.Values{"token": {"wrong"}}); s.status != http.StatusUnauthorized || !strings.Contains(g.log.String(), "a login that was refused is not in the audit") {
		t.Errorf("%d %s", s.status, g.log)
	}
}

// TestRefusedLoginsAreBoundedInTheAudit: whoever tries many tokens, from many addresses, fills no table; how many there were, the next row says.
func TestRefusedLoginsAreBoundedInTheAudit(t *testing.T) {
	t.Parallel()
	audit := &entries{}
	g := guardFake(t, func(_ *guardedFake, l *Login) {
		l.Audit, l.Address = audit, func(r *http.Request) string { return r.Header.Get("From") }
	})
	try := func(n int) {
		t.Helper()
		s := g.visitor().send(http.MethodPost, "/console/login", url.Values{"token": {"wrong"}}, http.Header{"From": {fmt.Sprint(n)}, "Sec-Fetch-Site": {"same-origin"}})
		if s.status != http.StatusUnauthorized {
			t.Fatal(s.status)
		}
	}
	for n := range refusalsAtOnce + 7 {
		try(n)
	}
	if n := len(audit.texts()); n != refusalsAtOnce {
		t.Errorf("%d rows", n)
	}
	g.console.refusals.rates = access.NewRates(refusalsEvery, 1) // as after some minutes
	try(99)
	if got := audit.texts(); len(got) != refusalsAtOnce+1 || !strings.HasSuffix(got[refusalsAtOnce], "the token is not known; before it, 7 more were refused that have no row of their own") {
		t.Errorf("%v", got)
	}
}

// TestLoginsByTheProviderAreInTheAudit: by the name that the provider knows, also where no grant is for it.
func TestLoginsByTheProviderAreInTheAudit(t *testing.T) {
	t.Parallel()
	g, p := provided(t)
	audit := &entries{}
	g.console.Login.Audit = audit
	come := func(claims map[string]any) {
		v := g.visitor()
		p.Knows(claims)
		v.get(p.LogIn(t, v.get("/console/login/oidc").header.Get("Location")).RequestURI())
	}
	come(map[string]any{"sub": "u1", "groups": []string{"oncall"}})
	come(map[string]any{"sub": "u2", "groups": []string{"sales"}})
	g.visitor().get("/console/login/callback?state=x&code=y") // not begun here: no login of anybody
	come(map[string]any{"sub": "u1", "nonce": "another", "groups": []string{"oncall"}})
	var got []string
	for _, text := range audit.texts() {
		got = append(got, strings.SplitAfter(text, "1234: ")[0]+strings.Fields(strings.SplitAfter(text, "1234: ")[1])[0])
	}
	want := []string{"console.login oidc:u1 (responder) from 192.0.2.1:1234: done", "console.login oidc:u2 () from 192.0.2.1:1234: refused", "console.login nobody () from 192.0.2.1:1234: refused"}
	if !slices.Equal(got, want) || strings.Contains(strings.Join(audit.texts(), ""), openidtest.Secret) {
		t.Errorf("%q", audit.texts())
	}
}
