// Package access says who may ask the operator API, and what: roles and their rights, tokens, and the teams that a token is for. Which right
// each path needs is package api's table.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// Right is something that may be done.
type Right string

// The rights.
const (
	See     Right = "see"     // metadata: names, decisions, states, counts
	Content Right = "content" // what events carry and what destinations answer; of a token, and of no role
	Respond Right = "respond" // run again, discard or resolve what waits; pause and resume
	Operate Right = "operate" // move positions, accept losses, replay
	Sources Right = "sources" // make events of quarantined deliveries
	Approve Right = "approve" // say yes or no to actions that wait for approval, where these name the role
	Audit   Right = "audit"   // see who changed what
	Tokens  Right = "tokens"  // make and revoke tokens
	Debug   Right = "debug"   // take profiles of the process
)

// rights has what each role may do.
var rights = map[string][]Right{
	"viewer":       {See},
	"responder":    {See, Respond, Sources},
	"operator":     {See, Respond, Sources, Operate, Approve},
	"source-admin": {See, Sources},
	"approver":     {See, Approve},
	"auditor":      {See, Audit},
	"admin":        {See, Respond, Sources, Operate, Approve, Audit, Tokens, Debug},
}

// Roles lists the roles, from the least.
func Roles() []string {
	return []string{"viewer", "responder", "operator", "source-admin", "approver", "auditor", "admin"}
}

// RolesWith lists the roles that have a right.
func RolesWith(r Right) (roles []string) {
	for _, role := range Roles() {
		if slices.Contains(rights[role], r) {
			roles = append(roles, role)
		}
	}
	return roles
}

// Who is somebody that asks.
type Who struct {
	Name  string // of the token; empty: nobody was asked to prove who they are
	Role  string
	Teams []string // nil: all
	Sees  bool     // what events carry
	Team  string   // which of Teams lists are of that name none; empty: they must name one, if there are several
}

// Provided begins the names of those whom the OIDC provider knows. No token's name has a colon.
const Provided = "oidc:"

// String names somebody as messages do.
func (w *Who) String() string {
	if strings.HasPrefix(w.Name, Provided) {
		return w.Name
	}
	return "token " + w.Name
}

// Anybody is who asks a listener that has nobody prove who they are: it may do everything.
var Anybody = &Who{Role: "admin", Sees: true}

// May reports whether somebody has a right.
func (w *Who) May(r Right) bool {
	if r == Content {
		return w.Sees
	}
	return slices.Contains(rights[w.Role], r)
}

// All reports whether somebody may ask about all teams.
func (w *Who) All() bool { return w.Teams == nil }

// Of reports whether somebody may ask about a team.
func (w *Who) Of(team string) bool { return w.All() || slices.Contains(w.Teams, team) }

// OfAny reports whether somebody may ask about what several teams have; "*" is all teams.
func (w *Who) OfAny(teams []string) bool {
	return w.All() || slices.ContainsFunc(teams, func(t string) bool { return t == "*" || w.Of(t) })
}

// Only returns those of teams that somebody may ask about.
func (w *Who) Only(teams []string) (own []string) {
	for _, t := range teams {
		if t == "*" || w.Of(t) {
			own = append(own, t)
		}
	}
	return own
}

// prefix begins every token, so that those who look for leaked secrets recognize one.
const prefix = "fbo_"

// NewToken makes a token, of 256 random bits.
func NewToken() string { return prefix + RandomText() }

// RandomText makes a text of 256 random bits.
func RandomText() string {
	var bits [32]byte
	rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// Hash returns what is kept of a token. Its bits are random, so a hash that is slow would protect nothing more.
func Hash(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// looksLikeOne reports whether a text has the form of a token.
func looksLikeOne(text string) bool {
	bits, ok := strings.CutPrefix(text, prefix)
	return ok && len(bits) == base64.RawURLEncoding.EncodedLen(32)
}
