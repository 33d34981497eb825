package console

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// Attempts to log in: so many at once, and so many a second on the average.
const (
	attemptsOfOne  = 10
	everyOfOne     = 1.0 / 6
	attemptsOfAll  = 100
	everyOfAll     = 10.0
	allAddresses   = ""
	loginPath      = "/console/login"
	mostTypedShown = 20 // fields of a form that is shown again
)

// loginForm is what the login page shows.
type loginForm struct {
	Next     string // where it leads
	Provider string // where a login by the provider begins; empty: there is none
	Typed    []typed
}

// typed is a field of a form that was not taken.
type typed struct{ Name, Text string }

// askToLogIn answers somebody who has no session: with the login page, which leads back.
func (c *Console) askToLogIn(w http.ResponseWriter, r *http.Request) {
	switch {
	case hasStream(r):
		http.Error(w, access.SessionEnded.Error(), http.StatusUnauthorized)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		http.Redirect(w, r, loginPath+"?"+url.Values{"next": {nextPath(r.URL.RequestURI())}}.Encode(), http.StatusSeeOther)
	default:
		from, _ := url.Parse(r.Referer()) // its path alone is read: of another site, too, it leads to a page of ours
		form := loginForm{Next: "/console/"}
		if from != nil {
			form.Next = nextPath(from.RequestURI())
		}
		if r.ParseForm() == nil && r.URL.Path != "/console/logout" {
			form.Typed = typedIn(r.PostForm)
		}
		c.showLogin(w, r, http.StatusUnauthorized, form, "Your session has ended, and nothing was done. Log in again, and send the form once more.")
	}
}

// typedIn returns what somebody has typed into a form, so that it is not lost.
func typedIn(form url.Values) (list []typed) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if text := form.Get(name); name != formField && text != "" && len(list) < mostTypedShown {
			list = append(list, typed{name, text})
		}
	}
	return list
}

// showLogin writes the login page.
func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, status int, form loginForm, problem string) {
	if c.Login.OIDC != nil {
		form.Provider = providerPath + "?" + url.Values{"next": {form.Next}}.Encode()
	}
	c.write(w, "login", status, view{Title: "Log in", Path: r.URL.Path, Problem: problem, Data: form})
}

// loginPage shows the login page, or leads on who has logged in.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	form := loginForm{Next: nextPath(r.URL.Query().Get("next"))}
	_, err := c.find(r, true)
	_, had := r.Cookie(c.cookieName(""))
	switch {
	case err == nil:
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
	case !errors.Is(err, access.SessionEnded):
		c.showLogin(w, r, api.Status(err), form, err.Error())
	case had == nil:
		c.showLogin(w, r, http.StatusOK, form, "Your session has ended: log in again.")
	default:
		c.showLogin(w, r, http.StatusOK, form, "")
	}
}

// logIn begins a session for who has a token.
func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	form := loginForm{Next: "/console/"}
	if !c.mayTry(w, r, form) { // counted before its form is read
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.showLogin(w, r, http.StatusBadRequest, form, "The form cannot be read.")
		return
	}
	form.Next = nextPath(r.PostForm.Get("next"))
	who, err := c.Login.Token(r.Context(), strings.TrimSpace(r.PostForm.Get("token")))
	var id string
	if err == nil {
		id, err = c.enter(r, who, c.Login.Sessions.OpenFor)
	}
	switch {
	case schemas.KindOf(err) == schemas.Unauthenticated && err != nil:
		c.Logger.Info("somebody could not log in to the console", "address", c.Login.Address(r))
		c.recordRefusal(r, access.Nobody, err)
		c.showLogin(w, r, http.StatusUnauthorized, form, "The token is not known, has expired or was revoked. An admin makes a new one.")
	case err != nil:
		c.showLogin(w, r, api.Status(err), form, err.Error())
	default:
		c.begin(w, r, who, id, form.Next)
	}
}

// mayTry reports whether somebody may try to log in once more; else it has answered.
func (c *Console) mayTry(w http.ResponseWriter, r *http.Request, form loginForm) bool {
	wait := c.attempts.Take(c.Login.Address(r))
	if wait == 0 { // an attempt that is refused takes no turn of the others'
		wait = c.allAttempts.Take(allAddresses)
	}
	if wait == 0 {
		return true
	}
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	c.showLogin(w, r, http.StatusTooManyRequests, form, fmt.Sprintf("There were too many attempts: try again in %s.", time.Duration(seconds)*time.Second))
	return false
}

// begin hands a new session to the browser, and ends the one that it had: whoever knew that one's id does not know this one's.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, who *access.Who, id, next string) {
	if had, err := c.find(r, false); err == nil {
		if err := c.Login.Sessions.End(r.Context(), had.Session); err != nil {
			c.Logger.Warn("the session before a login is not ended", "actor", had.Name, "error", err)
		}
	}
	c.Logger.Info("somebody has logged in to the console", "actor", who.Name, "role", who.Role, "address", c.Login.Address(r))
	c.sessions.add(access.Hash(id))
	c.setCookie(w, "", id)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // of nextPath, which leads to this console alone
}

// nextPath returns where a login leads: to the page that a text names, if it is one of this console, else to the first one. What a browser
// could take for another host's address is none.
func nextPath(text string) string {
	const first = "/console/"
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }) {
		return first
	}
	at := u.Path
	switch clean := path.Clean(at); {
	case strings.ContainsFunc(at, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		return first
	case !strings.HasPrefix(at, first) || clean != strings.TrimSuffix(at, "/"):
		return first
	case clean == loginPath || clean == "/console/logout" || clean == "/console/team" || strings.HasPrefix(clean, loginPath+"/") || strings.HasSuffix(clean, "/live"):
		return first
	}
	if u.RawQuery != "" {
		return u.EscapedPath() + "?" + u.RawQuery
	}
	return u.EscapedPath()
}
