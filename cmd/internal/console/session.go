package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/openid"
	"github.com/forebay-io/forebay/schemas"
)

// Login has those who look prove who they are. All of it but OIDC, Audit and Known is required.
type Login struct {
	Sessions *access.Sessions
	// OIDC logs people in by a provider; nil: tokens are the one way in. Its fingerprint is what Sessions has as rules.
	OIDC *openid.Login
	// Token returns who has a token. Errors are *schemas.Error.
	Token func(ctx context.Context, token string) (*access.Who, error)
	// Audit keeps who came in and went, and who was not let in; nil, without a ledger, keeps nothing: nobody comes in then.
	Audit api.Audit
	// Secure says that browsers come over TLS, and have cookies that go over nothing else. Without, the listener is on loopback.
	Secure bool
	// Known is told the context of each request whose session is found; nil: nobody is.
	Known func(context.Context)
	// Address returns whom the attempts of a request, and cookies that open nothing, count for.
	Address func(*http.Request) string
}

// session is a session in the context of a request.
type session struct {
	*access.Session
	cookie string // its id
}

type sessionKey struct{}

// sessionOf returns the session of who looks; nil where nobody has to log in.
func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// entrance lets to the pages whoever has logged in, if anybody has to.
func (c *Console) entrance(pages http.Handler) http.Handler {
	if c.Login == nil {
		return pages
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/static/", func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie(c.cookieName("")); err == nil && c.sessions.has(access.Hash(cookie.Value)) {
			c.told(r)
		}
		pages.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /console/login", c.loginPage)
	mux.HandleFunc("POST /console/login", c.logIn)
	if c.Login.OIDC != nil {
		mux.HandleFunc("GET "+providerPath, c.toProvider)
		mux.HandleFunc("GET "+callbackPath, c.fromProvider)
	}
	mux.Handle("POST /console/logout", c.known(http.HandlerFunc(c.logOut)))
	mux.Handle("POST /console/team", c.known(http.HandlerFunc(c.chooseTeam)))
	mux.Handle("/console/", c.known(pages))
	return mux
}

// known answers for those who have logged in: as them, and only to forms that their own session has made.
func (c *Console) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		s, err := c.find(r, r.Header.Get("Sec-Fetch-Dest") != "empty") // which a script asks for: a page that is left open is not used
		if err == nil {
			c.told(r)
		}
		if err == nil && c.visits.Take(s.Name) > 0 {
			err = errTooOften
		}
		if errors.Is(err, access.SessionEnded) {
			c.askToLogIn(w, r)
			return
		}
		if err == nil {
			err = s.made(r)
		}
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		asks := *s.Who
		asks.Team = c.team(r, &asks)
		ctx := context.WithValue(api.As(r.Context(), &asks), sessionKey{}, s)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// told says that a request is of a session.
func (c *Console) told(r *http.Request) {
	if c.Login.Known != nil {
		c.Login.Known(r.Context())
	}
}

// Pages of one session and of one person, and cookies of one address that open nothing: so many a second on the average, and so many at once.
const (
	visitsEvery  = 20.0
	visitsAtOnce = 100
	straysEvery  = 2.0
	straysAtOnce = 60
)

// errTooOften is the error of somebody who looks more often than pages are made.
var errTooOften = schemas.Errorf(schemas.Throttled, "", "too many requests: wait a moment, and load the page again")

// refuse says why there is no page.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errTooOften) {
		w.Header().Set("Retry-After", "1")
	}
	c.write(w, "problem", api.Status(err), view{Title: "Not answered", Path: r.URL.Path, Problem: err.Error()}.seenBy(r))
}

// find returns the session of a request. used says that somebody uses it now, and does not only watch.
func (c *Console) find(r *http.Request, used bool) (*session, error) {
	cookie, err := r.Cookie(c.cookieName(""))
	if err != nil {
		return nil, access.SessionEnded
	}
	hash, address := access.Hash(cookie.Value), c.Login.Address(r)
	if !c.sessions.has(hash) && c.strays.Spent(address) { // who is known goes on, whatever others at the address send
		return nil, errTooOften
	}
	if c.visits.Take(string(hash[:])) > 0 { // before the ledger is asked
		return nil, errTooOften
	}
	found, err := c.Login.Sessions.Find(r.Context(), cookie.Value, used)
	if errors.Is(err, access.SessionEnded) {
		c.sessions.forget(hash)
		c.strays.Take(address)
	}
	if err != nil {
		return nil, err
	}
	c.sessions.add(hash)
	return &session{found, cookie.Value}, nil
}

// knownSessions are the hashes of sessions that this process has found. Safe for concurrent use.
type knownSessions struct {
	mu  sync.Mutex
	all map[[32]byte]struct{} // not nil
}

// mostKnownSessions is how many sessions are kept. Beyond that all are forgotten, and found again.
const mostKnownSessions = 10_000

func (m *knownSessions) has(hash [32]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, is := m.all[hash]
	return is
}

func (m *knownSessions) add(hash [32]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, is := m.all[hash]; !is && len(m.all) >= mostKnownSessions {
		clear(m.all)
	}
	m.all[hash] = struct{}{}
}

func (m *knownSessions) forget(hash [32]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, hash)
}

// endedOf returns why somebody who has a page open may see no more of it; nil: they may.
func (c *Console) endedOf(ctx context.Context) error {
	s := sessionOf(ctx)
	if s == nil {
		return nil
	}
	_, err := c.Login.Sessions.Find(ctx, s.cookie, false)
	return err
}

// made checks that a form is of this session: another site has none, nor has somebody who has only looked on.
func (s *session) made(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if err := r.ParseForm(); err != nil {
		return schemas.Errorf(schemas.Invalid, "", "the form cannot be read: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get(formField)), []byte(s.Form)) == 0 {
		return &foreignForm{}
	}
	return nil
}

// foreignForm is the refusal of a form that another session has made, or nobody.
type foreignForm struct{}

func (*foreignForm) Error() string {
	return "this form is not of your session, and nothing was done: go back, load its page again and send it from there"
}

func (f *foreignForm) Unwrap() error {
	return schemas.Errorf(schemas.Unauthenticated, "", "not of this session")
}

const formField = "csrf"

var postForm = regexp.MustCompile(`<form method="post"[^>]*>`)

// withFormField puts a session's field into every form of a rendered page that changes something, so that no template can forget it.
func withFormField(page []byte, of *session) []byte {
	if of == nil {
		return page
	}
	field := []byte(`<input type="hidden" name="` + formField + `" value="` + of.Form + `">`)
	return postForm.ReplaceAllFunc(page, func(form []byte) []byte { return slices.Concat(form, field) })
}

// cookieName returns the name of a cookie. __Host- has browsers keep it for this host alone and send it over TLS alone; on loopback without
// TLS, not all of them take such a cookie.
func (c *Console) cookieName(what string) string {
	name := "forebay" + what
	if c.Login.Secure {
		name = "__Host-" + name
	}
	return name
}

// setCookie sets a cookie, for as long as the browser runs; without a value, it takes it away. Lax: a link that somebody was sent leads to the
// page, and a form of another site has no cookie.
func (c *Console) setCookie(w http.ResponseWriter, what, value string) {
	cookie := http.Cookie{Name: c.cookieName(what), Value: value, Path: "/", Secure: c.Login.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode} //nolint:gosec // Secure wherever there is TLS
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, &cookie)
}

const teamCookie = "-team"

// team returns of which of their teams somebody sees lists; empty: of all.
func (c *Console) team(r *http.Request, w *access.Who) string {
	if len(w.Teams) < 2 {
		return ""
	}
	if cookie, err := r.Cookie(c.cookieName(teamCookie)); err == nil && w.Of(cookie.Value) {
		return cookie.Value
	}
	return w.Teams[0]
}

// chooseTeam takes of which team somebody wants to see lists.
func (c *Console) chooseTeam(w http.ResponseWriter, r *http.Request) {
	team := r.PostForm.Get("team")
	if !api.Asks(r.Context()).Of(team) {
		c.refuse(w, r, schemas.Errorf(schemas.NotFound, "", "there is no such team, or you are not of it"))
		return
	}
	c.setCookie(w, teamCookie, team)
	http.Redirect(w, r, nextPath(r.PostForm.Get("next")), http.StatusSeeOther) //nolint:gosec // nextPath leads to this console alone
}

// logOut ends a session.
func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	s := sessionOf(r.Context())
	if err := c.Login.Sessions.End(r.Context(), s.Session); err != nil {
		c.refuse(w, r, err)
		return
	}
	c.Logger.Info("somebody has logged out of the console", "actor", s.Name)
	if end, err := c.audited(r, api.ConsoleLogout, s.Name, s.Role); err != nil {
		c.Logger.Warn("a logout is not in the audit", "actor", s.Name, "error", err)
	} else {
		end(api.OutcomeDone, nil)
	}
	c.setCookie(w, "", "")
	http.Redirect(w, r, "/console/login", http.StatusSeeOther)
}

// person is who looks, as every page says it.
type person struct {
	Name, Role string
	Teams      string   // in words
	Choice     []string // of which lists can be; nil: of all teams, or there is one
	Team       string   // of which they are
	Next       string   // the page, to which a choice leads back
}

// seenBy returns a view as the page shows it to whoever sends a request.
func (v view) seenBy(r *http.Request) view {
	w := api.Asks(r.Context())
	v.who = w
	if v.session = sessionOf(r.Context()); v.session == nil {
		return v
	}
	p := person{Name: w.Name, Role: w.Role, Teams: "all teams", Team: w.Team, Next: nextPath(r.URL.RequestURI())}
	if !w.All() {
		p.Teams = strings.Join(w.Teams, ", ")
	}
	if len(w.Teams) > 1 {
		p.Choice = w.Teams
	}
	v.Person = &p
	return v
}

// May reports whether who looks has a right: what they may not do, no page offers.
func (v view) May(right string) bool { return v.who != nil && v.who.May(access.Right(right)) }

// hasStream tells whether a request is for a stream of events, which no login page can take the place of.
func hasStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") || strings.HasSuffix(r.URL.Path, "/live")
}
