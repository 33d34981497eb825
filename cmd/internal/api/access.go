package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// Access is how those who ask prove who they are.
type Access struct {
	// Who returns who has a token. Errors are *schemas.Error. Required.
	Who func(ctx context.Context, token string) (*access.Who, error)
	// Host is the one host, with its port if that is not the scheme's own, under which the listener answers; empty: the names of loopback.
	Host string
	// BehindProxy are the networks of the proxies that end TLS, and whose X-Forwarded-Proto is believed. Others are refused then. Empty:
	// the listener ends TLS itself, or is on loopback.
	BehindProxy []netip.Prefix
	// Address returns whom a request counts for that has no token; nil: the other end of the connection.
	Address func(*http.Request) string
}

// Owners says whether teams have something that a path names by its id alone. What another team has is looked for as what is not there is.
// Errors are *schemas.Error.
type Owners interface {
	// OwnAction takes the beginning of an id, too, and returns the whole one; empty if these teams have none.
	OwnAction(ctx context.Context, teams []string, text string) (id string, err error)
	OwnReplay(ctx context.Context, teams []string, id int64) (bool, error)
}

// scope is how a path says of which team it is.
type scope int

const (
	ofPath     scope = iota // by {team}
	ofFilter                // by the parameter team, which is set where somebody has one team
	ofAction                // by {action}, a dead letter
	ofReplay                // by {replay}
	ofApproval              // by {approval}
	ofItems                 // its question leaves out what is not of the teams of who asks
	ofAll                   // of all teams
)

type whoKey struct{}

// who returns who asks in a context.
func who(ctx context.Context) *access.Who {
	if w, ok := ctx.Value(whoKey{}).(*access.Who); ok {
		return w
	}
	return access.Anybody
}

// forbidden is what somebody may not do who is known. The API answers 403.
type forbidden struct{ text string }

func (e *forbidden) Error() string { return e.text }

// Unwrap returns an error of the kind that package schemas has for it.
func (e *forbidden) Unwrap() error { return schemas.Errorf(schemas.Unauthenticated, "", "%s", e.text) }

// errNotYours is the answer about every name of a team that somebody may not ask about, whether or not there is such a team or name.
var errNotYours = schemas.Errorf(schemas.NotFound, "", "there is nothing at this path, or not for your token")

// asks returns who sends a request: everybody may do everything where nobody has to prove who they are.
func (s *server) asks(r *http.Request) (*access.Who, error) {
	if w, ok := r.Context().Value(whoKey{}).(*access.Who); ok { // of a client in this process
		return w, nil
	}
	if s.Access == nil {
		return access.Anybody, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, schemas.Errorf(schemas.Unauthenticated, "", "this listener answers to those who have a token: set FOREBAY_TOKEN or --token-file (Authorization: Bearer ...); `forebay tokens create` makes one")
	}
	return s.Access.Who(r.Context(), token)
}

// admit checks that w has the route's right, and that what the path names is of w's teams. It returns the request to answer, in which a team
// may be filled in and an action's id completed.
func (s *server) admit(ctx context.Context, w *access.Who, q route, r *http.Request) (*http.Request, error) {
	if !w.May(q.right) {
		return nil, mayNot(w, q.right)
	}
	if w.All() {
		return r, nil
	}
	var own bool
	var err error
	switch q.scope {
	case ofPath:
		own = w.Of(r.PathValue("team"))
	case ofFilter:
		return ofTeams(w, r)
	case ofAction:
		var id string
		id, err = s.Owners.OwnAction(ctx, w.Teams, r.PathValue("action"))
		r.SetPathValue("action", id) // the whole id: by the time that it is looked up, its beginning could stand for another team's action
		own = id != ""
	case ofReplay:
		var id int64
		if id, err = replayID(r); err == nil {
			own, err = s.Owners.OwnReplay(ctx, w.Teams, id)
		}
	case ofApproval:
		_, _, err = s.oneApproval(context.WithValue(ctx, whoKey{}, w), r)
		own = err == nil
	case ofItems: // the handler leaves out of its answer what is not of w's teams
		own = true
	case ofAll:
		return nil, &forbidden{fmt.Sprintf("this concerns all teams, and %s is of %s: use a token made with --all-teams", w, teamsText(w))}
	}
	if err == nil && !own {
		err = errNotYours
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ofTeams returns a request for a list with the team that it is to be of.
func ofTeams(w *access.Who, r *http.Request) (*http.Request, error) {
	q := r.URL.Query()
	team := q.Get("team")
	switch {
	case team != "" && w.Of(team):
		return r, nil
	case team != "":
		return nil, errNotYours
	case w.Team != "" && w.Of(w.Team):
		team = w.Team
	case len(w.Teams) > 1:
		return nil, schemas.Errorf(schemas.Invalid, "", "%s is of %s: choose one with --team (parameter team)", w, teamsText(w))
	default:
		team = w.Teams[0]
	}
	q.Set("team", team)
	changed := *r
	changed.URL = new(url.URL)
	*changed.URL = *r.URL
	changed.URL.RawQuery = q.Encode()
	return &changed, nil
}

func teamsText(w *access.Who) string { return "team " + strings.Join(w.Teams, ", ") }

// mayNot says what somebody lacks, and who has it.
func mayNot(w *access.Who, right access.Right) error {
	if right == access.Content {
		return &forbidden{fmt.Sprintf("%s may not see what events carry: that is the right of a token made with --payloads", w)}
	}
	return &forbidden{fmt.Sprintf("%s has the role %s, which may not do that; %s may", w, w.Role, strings.Join(access.RolesWith(right), ", "))}
}

// reachable answers 421 under any other host than the declared one, and 403 to what does not come over TLS by a declared proxy. Where
// nothing is declared, the names of loopback are the hosts.
func (s *server) reachable(next http.Handler) http.Handler {
	a := s.Access
	if a == nil || a.Host == "" {
		next = loopbackOnly(next)
	}
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.Host != "" && !strings.EqualFold(r.Host, a.Host):
			write(w, http.StatusMisdirectedRequest, problemOf(http.StatusMisdirectedRequest, "the operator listener answers under the host of operator.public_url only"))
		case len(a.BehindProxy) > 0 && !byProxy(a.BehindProxy, r):
			write(w, http.StatusForbidden, problemOf(http.StatusForbidden, "the operator listener is asked over TLS, by a proxy in operator.behind_proxy that says so with X-Forwarded-Proto: https"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// byProxy reports whether a request has come from one of the proxies, and to that over TLS.
func byProxy(proxies []netip.Prefix, r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap()
	protos := r.Header.Values("X-Forwarded-Proto") // of two, a client may have sent one
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) && len(protos) == 1 && protos[0] == "https"
}

func problemOf(status int, detail string) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// guarded has a handler that is no question answer those alone who have a right over all teams.
func (s *server) guarded(right access.Right, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks, err := s.asks(r)
		if often := s.counted(r, asks, err); often != nil {
			err = often
		}
		if err == nil {
			_, err = s.admit(r.Context(), asks, route{right: right, scope: ofAll}, r)
		}
		if err != nil {
			s.fail(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, asks)))
	})
}
