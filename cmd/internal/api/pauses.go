package api

import (
	"context"
	"net/http"
	"net/url"
)

// What a pause can be of, beside one subscription and one destination.
const (
	PauseAll   = "all"
	PauseTeam  = "team"
	PauseAgent = "agent"
)

// ScopeItem is a pause of all subscriptions, of those of a team, or of what goes to an agent.
type ScopeItem struct {
	Scope  string     `json:"scope"`
	Name   string     `json:"name"`   // of the team or the agent
	Teams  []string   `json:"teams"`  // whose work it stops; "*": all
	Paused *PauseItem `json:"paused"` // null: it is not paused any more, or was not in a dry run
	// Elsewhere are subscriptions of it in processes with another ledger, TEAM.SUBSCRIPTION: a pause is of one ledger.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

func (s *server) pauses(ctx context.Context, _ *http.Request) (any, error) {
	items, err := s.Steering.Pauses(ctx)
	w := who(ctx)
	items = of(items, func(i ScopeItem) bool { return w.OfAny(i.Teams) })
	for n := range items {
		items[n].Teams, items[n].Elsewhere = w.Only(items[n].Teams), ownOf(w, items[n].Elsewhere)
	}
	return listed(items, err)
}

func (s *server) pauseScope(ctx context.Context, r *http.Request) (any, error) {
	scope, name := scopeOf(r)
	return changePause(ctx, r, scope, name, s.Steering.PauseScope)
}

func (s *server) resumeScope(ctx context.Context, r *http.Request) (any, error) {
	scope, name := scopeOf(r)
	return changePause(ctx, r, scope, name, s.Steering.ResumeScope)
}

// scopeOf returns what a path is about: the opposite of scopePath.
func scopeOf(r *http.Request) (scope, name string) {
	switch team, agent := r.PathValue("team"), r.PathValue("agent"); {
	case team != "":
		return PauseTeam, team
	case agent != "":
		return PauseAgent, agent
	}
	return PauseAll, ""
}

// scopePath is the path below which a scope is paused and resumed.
func scopePath(scope, name string) string {
	switch scope {
	case PauseTeam:
		return "/v1/teams/" + url.PathEscape(name)
	case PauseAgent:
		return "/v1/agents/" + url.PathEscape(name)
	}
	return "/v1"
}

// Pauses lists the pauses of all, of teams and of agents that stand.
func (c *Client) Pauses(ctx context.Context) (Page[ScopeItem], error) {
	return getJSON[Page[ScopeItem]](ctx, c, "/v1/pauses", nil)
}

// PauseScope pauses all, a team or an agent in all processes of the ledger; a dry run changes nothing.
func (c *Client) PauseScope(ctx context.Context, scope, name string, r PauseRequest) (*ScopeItem, error) {
	return postJSON[*ScopeItem](ctx, c, scopePath(scope, name)+"/pause", r)
}

// ResumeScope ends such a pause in all processes of the ledger; a dry run changes nothing.
func (c *Client) ResumeScope(ctx context.Context, scope, name string, r PauseRequest) (*ScopeItem, error) {
	return postJSON[*ScopeItem](ctx, c, scopePath(scope, name)+"/resume", r)
}
