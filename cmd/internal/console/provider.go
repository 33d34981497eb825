package console

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/openid"
	"github.com/forebay-io/forebay/schemas"
)

const (
	providerPath = loginPath + "/oidc"
	callbackPath = loginPath + "/callback" // the provider knows it
	begunCookie  = "-login"                // has what a login that is under way is known by, and where it leads
)

// toProvider begins a login by the provider.
func (c *Console) toProvider(w http.ResponseWriter, r *http.Request) {
	form := loginForm{Next: nextPath(r.URL.Query().Get("next"))}
	if !c.mayTry(w, r, form) {
		return
	}
	to, secret, err := c.Login.OIDC.Begin(r.Context())
	if err != nil {
		c.showLogin(w, r, api.Status(err), form, err.Error())
		return
	}
	c.setCookie(w, begunCookie, secret+"."+base64.RawURLEncoding.EncodeToString([]byte(form.Next)))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fromProvider is where the provider sends a browser back to: it finishes the login, opens a session and redirects.
func (c *Console) fromProvider(w http.ResponseWriter, r *http.Request) {
	form := loginForm{Next: "/console/"}
	var secret, next string
	if cookie, err := r.Cookie(c.cookieName(begunCookie)); err == nil {
		secret, next, _ = strings.Cut(cookie.Value, ".")
	}
	if text, err := base64.RawURLEncoding.DecodeString(next); err == nil {
		form.Next = nextPath(string(text))
	}
	if !c.mayTry(w, r, form) {
		return
	}
	c.setCookie(w, begunCookie, "")
	who, err := c.Login.OIDC.Finish(r.Context(), secret, r.URL.Query())
	var id string
	if err == nil {
		id, err = c.enter(r, who, c.Login.Sessions.Open)
	}
	if none, ok := errors.AsType[*openid.NoRole](err); ok {
		c.Logger.Info("somebody whom the provider knows has no role", "actor", none.Name, "address", c.Login.Address(r))
		c.recordRefusal(r, access.Provided+none.Name, err)
		c.showLogin(w, r, http.StatusForbidden, form, err.Error())
		return
	}
	if err != nil {
		if schemas.KindOf(err) == schemas.Unauthenticated {
			c.recordRefusal(r, access.Nobody, err)
		} else {
			c.Logger.Warn("a login by the provider could not be finished", "error", err)
		}
		c.showLogin(w, r, api.Status(err), form, err.Error())
		return
	}
	c.begin(w, r, who, id, form.Next)
}
