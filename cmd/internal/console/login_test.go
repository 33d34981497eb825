package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/html"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// kept keeps sessions in memory, as the ledger does in a table.
type kept struct {
	mu    sync.Mutex
	list  []ledger.Session
	asked int // how often for a session
	used  int // how often one was
	err   error
}

func (k *kept) CreateSession(_ context.Context, s ledger.Session) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.ID, s.UsedAt = int64(len(k.list)+1), time.Now()
	k.list = append(k.list, s)
	return k.err
}

func (k *kept) Session(_ context.Context, hash [32]byte) (s ledger.Session, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	for _, s := range k.list {
		if s.Hash == hash {
			return s, k.err
		}
	}
	return s, schemas.Errorf(schemas.NotFound, "", "it has ended, or never was")
}

func (k *kept) UsedSession(context.Context, int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used++
	return nil
}

func (k *kept) EndSession(_ context.Context, id int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(s ledger.Session) bool { return s.ID == id })
	return nil
}

// fail has every question of the sessions fail from now on; nil: none.
func (k *kept) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// guardedFake is the operator listener of a process that has people log in.
type guardedFake struct {
	*fake
	t        *testing.T
	handler  http.Handler
	console  *Console
	sessions *kept
	log      *bytes.Buffer
	tokens   map[string]*access.Who
}

// OwnAction implements [api.Owners].
func (f *fake) OwnAction(_ context.Context, teams []string, id string) (string, error) {
	for _, d := range f.dead {
		if d.ID == id && slices.Contains(teams, d.Team) {
			return id, nil
		}
	}
	return "", nil
}

// OwnReplay implements [api.Owners].
func (f *fake) OwnReplay(_ context.Context, teams []string, id int64) (bool, error) {
	return f.plan.ID == strconv.FormatInt(id, 10) && slices.Contains(teams, f.plan.Team), nil
}

func guardFake(t *testing.T, change func(*guardedFake, *Login)) *guardedFake {
	t.Helper()
	g := &guardedFake{fake: newFake(), t: t, sessions: &kept{}, log: &bytes.Buffer{}, tokens: map[string]*access.Who{
		"admin": {Name: "root", Role: "admin", Sees: true},
		"ann":   {Name: "ann", Role: "responder", Teams: []string{"acme"}, Sees: true},
		"viv":   {Name: "viv", Role: "viewer", Teams: []string{"acme"}},
		"two":   {Name: "two", Role: "viewer", Teams: []string{"pay", "acme"}},
		"eve":   {Name: "eve", Role: "operator", Teams: []string{"pay"}, Sees: true},
	}}
	cfg := g.config()
	cfg.Logger = slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Owners = g.fake
	cfg.Access = &api.Access{Who: func(_ context.Context, token string) (*access.Who, error) {
		if w := g.tokens[token]; w != nil {
			return w, nil
		}
		return nil, schemas.Errorf(schemas.Unauthenticated, "", "the token is not known")
	}, Host: "forebay.example.com"}
	login := &Login{Token: cfg.Access.Who, Secure: true, Address: func(r *http.Request) string { return r.RemoteAddr },
		Sessions: access.NewSessions(func() (access.SessionStore, error) { return g.sessions, nil }, nil, cfg.Logger)}
	if change != nil {
		change(g, login)
	}
	asked, err := api.InProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if g.console, err = New(Config{API: asked, Ready: cfg.Ready, Stream: true, Gatherer: cfg.Gatherer, Login: login, Logger: cfg.Logger}); err != nil {
		t.Fatal(err)
	}
	cfg.Console = g.console
	if g.handler, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	return g
}

// visitor is somebody with a browser, which keeps cookies.
type visitor struct {
	g       *guardedFake
	cookies map[string]string
}

func (g *guardedFake) visitor() *visitor { return &visitor{g, map[string]string{}} }

// as returns somebody who has logged in with a token.
func (g *guardedFake) as(token string) *visitor {
	g.t.Helper()
	v := g.visitor()
	if s := v.post("/console/login", url.Values{"token": {token}}); s.status != http.StatusSeeOther {
		g.t.Fatalf("%s could not log in: %d %s", token, s.status, text(s.root))
	}
	return v
}

func (v *visitor) get(path string) *screen { return v.send(http.MethodGet, path, nil, nil) }

func (v *visitor) post(path string, form url.Values) *screen {
	return v.send(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

func (v *visitor) send(method, path string, form url.Values, header http.Header) *screen {
	v.g.t.Helper()
	r := httptest.NewRequestWithContext(v.g.t.Context(), method, "https://forebay.example.com"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	maps.Copy(r.Header, header)
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	s := send(v.g.t, v.g.handler, r)
	for _, c := range (&http.Response{Header: s.header}).Cookies() {
		if v.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Strict-Transport-Security": "max-age=31536000"} {
		if strings.HasPrefix(path, "/console/") && s.header.Get(name) != want && s.status != http.StatusForbidden {
			v.g.t.Errorf("%s %s answers %d with %s %q", method, path, s.status, name, s.header.Get(name))
		}
	}
	return s
}

const sessionCookie = "__Host-forebay"

// field returns what the forms of a page have as the session's own.
func (v *visitor) field(path string) string {
	v.g.t.Helper()
	for _, n := range v.get(path).all("input") {
		if attr(n, "name") == formField {
			return attr(n, "value")
		}
	}
	v.g.t.Fatalf("%s has no form", path)
	return ""
}

// TestLogin: nobody sees a page before, and everybody is named on it after; a login that fails says the same of every token.
func TestLogin(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	v := g.visitor()
	for _, path := range append([]string{"/console/event/raw?id=acme/fulfil/orders/e-2", "/console/inbox/"}, screens...) {
		s := v.get(path)
		if to := s.header.Get("Location"); s.status != http.StatusSeeOther || !strings.HasPrefix(to, "/console/login?next=") || s.source != "" && !strings.Contains(s.source, "See Other") {
			t.Errorf("%s answers %d, leads to %q", path, s.status, to)
		}
	}
	if s := v.get("/console/static/console.css"); s.status != http.StatusOK {
		t.Errorf("the stylesheet: %d", s.status)
	}
	if s := v.get("/v1/sources"); s.status != http.StatusUnauthorized || s.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the API answers %d %v", s.status, s.header)
	}
	page := v.get(v.get("/console/inbox?entity=o-1").header.Get("Location"))
	page.says("button", "Log in")
	if page.status != http.StatusOK || strings.Contains(text(page.root), "ended") {
		t.Errorf("%d %s", page.status, text(page.root))
	}
	said := map[string]bool{}
	for _, token := range []string{"", "nobody", "fbo_" + strings.Repeat("x", 43), access.NewToken()} {
		s := v.post("/console/login", url.Values{"token": {token}, "next": {"/console/dlq"}})
		if said[text(s.root)] = true; s.status != http.StatusUnauthorized || len(v.cookies) != 0 || len(said) != 1 {
			t.Errorf("%q: %d %v %v", token, s.status, v.cookies, said)
		}
	}
	s := v.post("/console/login", url.Values{"token": {" ann\n"}, "next": {"/console/inbox?entity=o-1"}})
	if s.status != http.StatusSeeOther || s.header.Get("Location") != "/console/inbox?entity=o-1" {
		t.Fatalf("%d %v", s.status, s.header)
	}
	if set := s.header.Values("Set-Cookie"); len(set) != 1 || !strings.HasSuffix(set[0], "; Path=/; HttpOnly; Secure; SameSite=Lax") || len(v.cookies[sessionCookie]) != 43 {
		t.Error(set)
	}
	v.get("/console/inbox").says("span", "ann, responder of acme")
	if s := v.get("/console/login?next=/console/dlq"); s.header.Get("Location") != "/console/dlq" {
		t.Errorf("who has logged in is asked to: %d", s.status)
	}
	if s := v.get("/v1/sources"); s.status != http.StatusUnauthorized {
		t.Errorf("the cookie opens the API: %d", s.status)
	}
	if s := v.get("/console/event/raw?id=acme/fulfil/orders/e-2"); s.status != http.StatusOK || s.source != `{"order": 1}` {
		t.Errorf("%d %q", s.status, s.source)
	}
	old := v.cookies[sessionCookie]
	if s := v.post("/console/logout", url.Values{formField: {v.field("/console/inbox")}}); s.header.Get("Location") != "/console/login" || len(v.cookies) != 0 {
		t.Errorf("%d %v %v", s.status, s.header, v.cookies)
	}
	v.cookies[sessionCookie] = old
	if s := v.get("/console/inbox"); s.status != http.StatusSeeOther {
		t.Errorf("a session that was ended opens: %d", s.status)
	}
	v.get("/console/login").says("p", "Your session has ended")
	if strings.Contains(g.log.String(), old) || strings.Contains(g.log.String(), "fbo_") || !strings.Contains(g.log.String(), "actor=ann") {
		t.Errorf("the log:\n%s", g.log)
	}
}

// TestSessionsAreNew: what a browser had before a login is no session after it, whoever has put it there; and a login ends the one before.
func TestSessionsAreNew(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	planted := g.as("eve").cookies[sessionCookie]
	victim := g.visitor()
	victim.cookies[sessionCookie] = planted
	victim.post("/console/login", url.Values{"token": {"ann"}})
	got := victim.cookies[sessionCookie]
	victim.get("/console/").says("span", "ann, responder of acme")
	eve := g.visitor()
	for _, id := range []string{planted, "x", strings.Repeat("A", 43), got[:42], got + "x"} {
		if eve.cookies[sessionCookie] = id; id == got || eve.get("/console/").status != http.StatusSeeOther {
			t.Errorf("%q opens", id)
		}
	}
	if kept := g.sessions.list; len(kept) != 1 || kept[0].Hash != access.Hash(got) {
		t.Errorf("kept: %+v", kept)
	}
}

// TestForms: what changes something is taken from the forms of one's own session alone, in a page of this console.
func TestForms(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	ann, other := g.as("ann"), g.as("admin")
	forms := 0
	for _, path := range screens {
		for n := range ann.get(path).root.Descendants() {
			if n.Data == "form" && attr(n, "method") != "get" {
				forms++
				if first := n.FirstChild; first == nil || attr(first, "name") != formField || len(attr(first, "value")) != 43 {
					t.Errorf("%s: a form without the session's field", path)
				}
			}
		}
	}
	if forms == 0 {
		t.Error("no page has a form")
	}
	form := url.Values{"action": {"act_1"}, "until": {at.Format(time.RFC3339Nano)}, "reason": {"mended"}, "by": {"mallory"}}
	try := func(field string, header http.Header) int {
		if form.Del(formField); field != "" {
			form.Set(formField, field)
		}
		return ann.send(http.MethodPost, "/console/dlq/replay", form, header).status
	}
	same, own := http.Header{"Sec-Fetch-Site": {"same-origin"}}, ann.field("/console/dlq")
	for what, status := range map[string]int{
		"none": try("", same), "another's": try(other.field("/console/dlq"), same), "the cookie": try(ann.cookies[sessionCookie], same),
		"cross-site": try(own, http.Header{"Sec-Fetch-Site": {"cross-site"}}), "same-site": try(own, http.Header{"Sec-Fetch-Site": {"same-site"}}),
		"origin": try(own, http.Header{"Origin": {"https://evil.example"}}), "null": try(own, http.Header{"Origin": {"null"}}),
	} {
		if status != http.StatusForbidden && status != http.StatusUnauthorized || len(g.asked) != 0 {
			t.Errorf("%s: %d, %v", what, status, g.asked)
		}
	}
	if status := try(own, same); status != http.StatusOK || len(g.asked) != 1 || g.asked[0].By != "ann" || g.asked[0].Reason != "mended" {
		t.Errorf("%d %+v", status, g.asked)
	}
	if s := ann.send(http.MethodPost, "/console/logout", nil, http.Header{"Sec-Fetch-Site": {"same-origin"}}); s.status == http.StatusSeeOther {
		t.Error("another page logs people out")
	}
	if s := g.visitor().send(http.MethodPost, "/console/login", url.Values{"token": {"eve"}}, http.Header{"Sec-Fetch-Site": {"cross-site"}}); s.status != http.StatusForbidden {
		t.Errorf("another site logs people in: %d", s.status)
	}
}

// TestNextPath: a login leads to a page of this console, whatever its address says.
func TestNextPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/console/inbox?entity=o-1": "/console/inbox?entity=o-1", "/console/": "/console/", "/console/event?id=a%2Fb%2Fc%2Fd%20e": "/console/event?id=a%2Fb%2Fc%2Fd%20e",
		"": "", "//evil.example": "", "/\\evil.example": "", "https:evil.example": "", "https://evil.example/console/": "", "///evil.example/console/": "", "\\\\evil.example": "",
		"/console/../../evil": "", "/console/%2e%2e/%2e%2e//evil.example": "", "/console//evil.example": "", "/console/\\evil": "", "/console/%5cevil": "", "/%2fevil.example": "",
		"/console/\r\nLocation: https://evil.example": "", "/console/%0d%0aLocation:evil": "", "\t//evil.example": "", "/console/x\x00": "", "javascript:alert(1)": "", "data:text/html,x": "",
		"//evil.example/console/": "", "/console": "", "/v1/tokens": "", "/console/login": "", "/console/login?next=/console/": "", "/console/logout": "", "/console/inbox/live?after=1": "",
		"console/": "", "http://forebay.example.com/console/": "", "//user@evil.example/console/": "", "/console/%": "", "/consoleevil": "",
	} {
		if want == "" {
			want = "/console/"
		}
		if got := nextPath(text); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
	g := guardFake(t, nil)
	if s := g.visitor().post("/console/login?next=//evil.example", url.Values{"token": {"ann"}, "next": {"https:evil.example"}}); s.header.Get("Location") != "/console/" {
		t.Errorf("%v", s.header)
	}
}

// TestRightsOfWhoLooks: pages show, offer and do what somebody may, and tell of another team what they tell of what is not there.
func TestRightsOfWhoLooks(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	g.subs = append(g.subs, api.SubscriptionItem{Team: "pay", Subscription: "settle", Ready: true})
	g.checks = []api.Check{{Name: "topic events.pay.till", Error: "is not there"}}
	g.console.hour.grown = map[int64]map[counter]float64{time.Now().Unix() / 60: {{of: "Decisions", name: "applied"}: 7}}
	for _, token := range []string{"admin", "ann", "viv", "two", "eve"} {
		v, who := g.as(token), g.tokens[token]
		home := v.get("/console/")
		home.says("span", who.Name+", "+who.Role+" of ")
		if said := text(home.root); strings.Contains(said, "acme.fulfil") != who.Of("acme") || strings.Contains(said, "pay.settle") != who.Of("pay") ||
			strings.Contains(said, "The last hour") != who.All() || strings.Contains(said, "events.pay.till") != who.All() {
			t.Errorf("%s: %s", token, said)
		}
		if len(who.Teams) < 2 == slices.ContainsFunc(home.all("select"), func(n *html.Node) bool { return attr(n, "name") == "team" }) {
			t.Errorf("%s has a choice of teams, or lacks it", token)
		}
		for _, path := range []string{eventURL, entityURL, deadURL, "/console/inbox?team=acme"} {
			s := v.get(path)
			if who.Of("acme") == (s.status == http.StatusNotFound) {
				t.Errorf("%s at %s: %d", token, path, s.status)
			}
			if !who.Of("acme") && !strings.Contains(text(s.root), "there is nothing at this path, or not for your token") {
				t.Errorf("%s at %s: %s", token, path, text(s.root))
			}
		}
		elsewhere := g.visitor()
		elsewhere.cookies = v.cookies
		if !who.Of("acme") {
			none, other := elsewhere.get("/console/event?id=none/fulfil/orders/e-2"), elsewhere.get(eventURL)
			if none.status != other.status || text(none.root) != text(other.root) {
				t.Errorf("another team's event is told from none: %s, %s", text(none.root), text(other.root))
			}
		}
		if offered := strings.Contains(text(v.get("/console/dlq").root), "Replay group g1"); offered != who.May(access.Respond) {
			t.Errorf("%s is offered a replay: %v", token, offered)
		}
		if s := v.get(entityURL); who.Of("acme") && strings.Contains(text(s.root), "Redrive…") != who.May(access.Respond) {
			t.Errorf("%s at an entity: %s", token, text(s.root))
		}
		if s := v.get(deadURL); who.Of("acme") && (s.status != http.StatusOK || strings.Contains(s.source, "Replay 1 dead letter") != who.May(access.Respond)) {
			t.Errorf("%s at a dead letter: %d %s", token, s.status, text(s.root))
		}
		body := v.get("/console/event/raw?id=acme/fulfil/orders/e-2")
		switch {
		case !who.Of("acme") && body.status != http.StatusNotFound, who.Of("acme") && !who.Sees && body.status != http.StatusForbidden, who.Of("acme") && who.Sees && body.status != http.StatusOK:
			t.Errorf("%s has the body: %d", token, body.status)
		}
		if said := text(v.get(eventURL).root); strings.Contains(said, `{"order": 1}`) != (who.Sees && who.Of("acme")) || strings.Contains(said, "no such item") != (who.Sees && who.Of("acme")) {
			t.Errorf("%s sees: %s", token, said)
		}
		g.asked = nil
		v.post("/console/dlq/replay", url.Values{formField: {v.field("/console/dlq")}, "action": {"act_1"}, "until": {at.Format(time.RFC3339Nano)}, "reason": {"mended"}})
		if may := who.May(access.Respond) && who.Of("acme"); may != (len(g.asked) == 1) {
			t.Errorf("%s replays: %v", token, g.asked)
		}
		g.replayed = nil
	}
}

// TestChoiceOfTeam: whoever is of several teams sees the lists of one, and chooses which.
func TestChoiceOfTeam(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	v := g.as("two")
	list := func() string { v.get("/console/inbox"); return g.filter.Team }
	if got := list(); got != "pay" {
		t.Errorf("at first it is %q", got)
	}
	choose := func(team string) *screen {
		return v.post("/console/team", url.Values{formField: {v.field("/console/inbox")}, "team": {team}, "next": {"/console/inbox?entity=o-1"}})
	}
	if s := choose("acme"); s.header.Get("Location") != "/console/inbox?entity=o-1" || list() != "acme" {
		t.Errorf("%d %v, then %q", s.status, s.header, list())
	}
	if s := v.get("/console/inbox?team=pay"); s.status != http.StatusOK || g.filter.Team != "pay" {
		t.Errorf("%d %q", s.status, g.filter.Team)
	}
	for _, team := range []string{"other", ""} {
		if s := choose(team); s.status != http.StatusNotFound || list() != "acme" {
			t.Errorf("%q: %d, then %q", team, s.status, list())
		}
	}
	v.cookies["__Host-forebay-team"] = "other"
	if got := list(); got != "pay" {
		t.Errorf("of %q, which a cookie names", got)
	}
}

// TestAnOpenPageIsNotUsed: what a page asks for by itself keeps no session alive; what somebody opens does.
func TestAnOpenPageIsNotUsed(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	v := g.as("ann")
	g.sessions.list[0].UsedAt = time.Now().Add(-time.Hour)
	v.send(http.MethodGet, "/console/inbox", nil, http.Header{"Sec-Fetch-Dest": {"empty"}}).says("h1", "Inbox")
	if g.sessions.used != 0 {
		t.Error("a page that is open uses the session")
	}
	v.send(http.MethodGet, "/console/inbox", nil, http.Header{"Sec-Fetch-Dest": {"document"}}).says("h1", "Inbox")
	if g.sessions.used != 1 {
		t.Error("nobody uses the session who opens a page")
	}
}

// TestSessionEndsWhileAPageIsOpen: a form says so, and keeps what was typed; the live view says so, and ends.
func TestSessionEndsWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	g.console.liveEvery, g.console.looks.every = time.Millisecond, time.Millisecond
	v := g.as("ann")
	form := url.Values{formField: {v.field("/console/dlq")}, "action": {"act_1"}, "reason": {"they mended the <b>shop</b>"}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://forebay.example.com/console/inbox/live?after=1", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: v.cookies[sessionCookie]})
	watched, streamed := make(chan string, 1), httptest.NewRecorder()
	first := &firstWrite{ResponseWriter: streamed, done: make(chan struct{})}
	go func() { g.handler.ServeHTTP(first, r); watched <- streamed.Body.String() }()
	<-first.done
	g.sessions.mu.Lock()
	g.sessions.list = nil
	g.sessions.mu.Unlock()
	if got := <-watched; !strings.HasSuffix(got, "event: ended\ndata: your session has ended: log in again\n\n") {
		t.Errorf("%q", got)
	}
	s := v.send(http.MethodPost, "/console/dlq/replay", form, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Referer": {"https://forebay.example.com/console/dlq?group=g1"}})
	s.says("dd", "they mended the <b>shop</b>")
	s.says("p", "Your session has ended, and nothing was done")
	next := ""
	for _, n := range s.all("input") {
		if attr(n, "name") == "next" {
			next = attr(n, "value")
		}
	}
	if s.status != http.StatusUnauthorized || next != "/console/dlq?group=g1" || strings.Contains(s.source, form.Get(formField)) || len(g.asked) != 0 {
		t.Errorf("%d %q %v", s.status, next, g.asked)
	}
	if s := v.send(http.MethodGet, "/console/inbox/live?after=1", nil, http.Header{"Accept": {"text/event-stream"}}); s.status != http.StatusUnauthorized {
		t.Errorf("%d: a browser would connect again and again", s.status)
	}
	again := g.as("ann")
	g.sessions.fail(schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused"))
	if s := again.get("/console/inbox"); s.status != http.StatusServiceUnavailable || !strings.Contains(text(s.root), "connection refused") {
		t.Errorf("%d %s", s.status, text(s.root))
	}
}

// firstWrite closes done with the first bytes that are written.
type firstWrite struct {
	http.ResponseWriter
	once sync.Once
	done chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	defer f.once.Do(func() { close(f.done) })
	return f.ResponseWriter.Write(p)
}

func (f *firstWrite) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// TestAttemptsAreBounded: of one address, and of all together.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	g := guardFake(t, func(_ *guardedFake, l *Login) {
		l.Address = func(r *http.Request) string { return r.Header.Get("From") }
	})
	const ofOne, ofAll = 3, 10
	g.console.attempts, g.console.allAttempts = access.NewRates(1e-6, ofOne), access.NewRates(1e-6, ofAll) // none comes back while the test runs
	try := func(from, token string) *screen {
		return g.visitor().send(http.MethodPost, "/console/login", url.Values{"token": {token}}, http.Header{"From": {from}, "Sec-Fetch-Site": {"same-origin"}})
	}
	for n := range ofOne {
		if s := try("a", "wrong"); s.status != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", n, s.status)
		}
	}
	s := try("a", "ann")
	if s.status != http.StatusTooManyRequests || s.header.Get("Retry-After") == "" || s.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", s.status, s.header)
	}
	unread := httptest.NewRequest(http.MethodPost, "/console/login", iotest.ErrReader(errors.New("read")))
	unread.Header = http.Header{"From": {"a"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	w := httptest.NewRecorder()
	if g.console.ServeHTTP(w, unread); w.Code != http.StatusTooManyRequests {
		t.Errorf("its form is read before it is counted: %d", w.Code)
	}
	if s := try("b", "ann"); s.status != http.StatusSeeOther {
		t.Errorf("another address: %d", s.status)
	}
	for range 2 * ofAll {
		try("a", "wrong")
	}
	if s := try("d", "ann"); s.status != http.StatusSeeOther {
		t.Errorf("attempts of one address that were refused keep another out: %d", s.status)
	}
	for n := range ofAll {
		if s := try(fmt.Sprint("c", n), "wrong"); s.status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("many addresses try as often as they like")
}

// TestCookiesOfOneAddress: cookies that open nothing keep out others of their kind, and nobody whose session is known.
func TestCookiesOfOneAddress(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	const atOnce = 3
	g.console.strays = access.NewRates(1e-6, atOnce)
	ann, stray := g.as("ann"), g.visitor()
	refused := 0
	for n := range atOnce + 2 {
		stray.cookies[sessionCookie] = fmt.Sprintf("%043d", n)
		if stray.get("/console/inbox").status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("cookies that open nothing are looked up without end")
	}
	if s := ann.get("/console/inbox"); s.status != http.StatusOK {
		t.Errorf("others at the address keep a session out: %d", s.status)
	}
	if s := g.as("viv").get("/console/inbox"); s.status != http.StatusOK {
		t.Errorf("others at the address keep a new session out: %d", s.status)
	}
}

// TestVisitsAreBounded: who asks for pages without end has no more of them looked up than are made.
func TestVisitsAreBounded(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	const atOnce = 10
	g.console.visits = access.NewRates(1e-6, atOnce)
	ann := g.as("ann")
	g.sessions.asked = 0
	refused := 0
	for range 2 * atOnce {
		if ann.get("/console/nothing").status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != atOnce || g.sessions.asked != atOnce {
		t.Errorf("%d of %d visits refused, and the session looked up %d times", refused, 2*atOnce, g.sessions.asked)
	}
}
