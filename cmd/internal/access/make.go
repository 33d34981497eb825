package access

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// MaxLife is the longest life of a token.
const MaxLife = 366 * 24 * time.Hour

// Request asks for a token. By is who says so, as the client tells it.
type Request struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Teams     []string  `json:"teams,omitempty"` // without: all
	Payloads  bool      `json:"payloads,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
}

var (
	tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)
	teamName  = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

// Nobody is the actor in the audit of a login that was refused, of somebody who is not known.
const Nobody = "nobody"

// nobodys are the actors in the audit that are no tokens.
var nobodys = []string{"loopback", "ledger", "forebay", Nobody}

// MakeOf makes a token as [Make] does, of teams that there are.
func MakeOf(teams []string, r Request, now time.Time) (kept ledger.Token, token string, err error) {
	for _, team := range r.Teams {
		if err := names.Team(team, teams); err != nil {
			return kept, "", err
		}
	}
	return Make(r, now)
}

// Make makes the token that is asked for, and what is to be kept of it. Errors are of kind Invalid.
func Make(r Request, now time.Time) (kept ledger.Token, token string, err error) {
	refused := func(format string, args ...any) (ledger.Token, string, error) {
		return ledger.Token{}, "", schemas.Errorf(schemas.Invalid, "", format, args...)
	}
	switch {
	case !tokenName.MatchString(r.Name):
		return refused("the name of a token is at most 40 of a-z, 0-9, dot, _ and -, such as ann-laptop; %.60q is none", r.Name)
	case slices.Contains(nobodys, r.Name):
		return refused("%s is in the audit for those who have no token: take another name", r.Name)
	case !slices.Contains(Roles(), r.Role):
		return refused("role %.40q is not one of %s", r.Role, strings.Join(Roles(), ", "))
	case r.Teams != nil && len(r.Teams) == 0:
		return refused("a token is of one team at least, or of all")
	case slices.Contains(RolesWith(Tokens), r.Role) && r.Teams != nil:
		return refused("the role %s makes tokens, which concerns all teams: make it of all, or take operator", r.Role)
	case !r.ExpiresAt.After(now) || r.ExpiresAt.After(now.Add(MaxLife)):
		return refused("a token expires within a year, and not before now")
	}
	for _, team := range r.Teams {
		if !teamName.MatchString(team) {
			return refused("%.60q is no name of a team", team)
		}
	}
	token = NewToken()
	return ledger.Token{Hash: Hash(token), Name: r.Name, Role: r.Role, Teams: r.Teams, Payloads: r.Payloads, ExpiresAt: r.ExpiresAt, CreatedBy: r.By, Reason: r.Reason}, token, nil
}
