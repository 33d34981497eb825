package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/stream/ledger"
)

// DestinationMissing is the state of a destination that actions are for, and that the file has no more for their team.
const DestinationMissing = "missing"

// DestinationItem is a destination as the asked process sees it; a pause holds in all of them.
type DestinationItem struct {
	Team        string   `json:"team"`            // whose own it is; empty: it is shared
	Teams       []string `json:"teams,omitempty"` // that may use a shared one; "*": all
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	URL         string   `json:"url,omitempty"` // where its calls go, without what is secret in it; empty: it calls no URL, or is shared and who asks may not see all
	State       string   `json:"state"`         // paused, open, held, half_open, recovering, running or missing
	Breaker     string   `json:"breaker"`       // closed, open, half_open or recovering; empty: it is missing
	Running     int      `json:"running"`       // attempts under way
	Concurrency int      `json:"concurrency"`
	// Rate is the limit on attempts that the configuration gives each process; null: there is none.
	Rate    *RateItem `json:"rate"`
	Waiting int       `json:"waiting"` // actions in memory that wait for a slot, for a retry's time, for the head of their lane or for the ledger, which records an attempt
	// ConsecutiveFailures counts the attempts of the asked process alone.
	ConsecutiveFailures int        `json:"consecutive_failures"`
	FailingSince        *time.Time `json:"failing_since"` // since when nothing gets through, in any process; null: it does, or nothing was attempted
	OnHoldUntil         *time.Time `json:"held_until"`    // end of the pause that the destination asked for (Retry-After)
	OpenUntil           *time.Time `json:"open_until"`    // until when the breaker lets only the floor's attempts through
	Paused              *PauseItem `json:"paused"`
	// LastError is the newest attempt of the asked process that failed, whatever came after it; null: none has, or it is hidden like the URL.
	LastError *FailureItem `json:"last_error"`
	// Elsewhere are subscriptions that use it in processes with another ledger, TEAM.SUBSCRIPTION: a pause is of one ledger.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// FailureItem is an attempt that failed.
type FailureItem struct {
	At    time.Time `json:"at"`
	Class string    `json:"class"`
	Code  int       `json:"code"`
	Error string    `json:"error"`
}

// Text is the failure for people to read, without its time; empty if there is none.
func (f *FailureItem) Text() string {
	if f == nil {
		return ""
	}
	return f.Class + ": " + strings.TrimPrefix(f.Error, f.Class+": ") // with which it begins as a rule
}

// RateItem is a limit on attempts: Limit in the time Per in the long run, Burst at once.
type RateItem struct {
	Limit   int    `json:"limit"`
	Per     string `json:"per"` // a duration as the file has it: 1s
	Burst   int    `json:"burst"`
	OnLimit string `json:"on_limit"` // what becomes of an action that is over it: queue, drop or error
}

// Text is the limit for people to read; empty if there is none.
func (r *RateItem) Text() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("at most %d in %s, %d at once (%s)", r.Limit, r.Per, r.Burst, r.OnLimit)
}

// PauseItem is why a destination is paused. It goes over the wire as the ledger has it.
type PauseItem = ledger.Pause

// PauseRequest pauses or resumes a destination. By is who says so, as the client tells it.
type PauseRequest struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Destinations answers questions about destinations, pauses and resumes them. A shared one has no team: team is empty. Errors are
// *schemas.Error: of kind Conflict, if what is to be paused is paused already or what is to be resumed is not.
type Destinations interface {
	Destinations(ctx context.Context) ([]DestinationItem, error)
	Destination(ctx context.Context, team, name string) (*DestinationItem, error)
	Pause(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error)
	Resume(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error)
}

// destinations answers with the destinations that who asks may see: all, or those of its teams and those shared with them.
func (s *server) destinations(ctx context.Context, _ *http.Request) (any, error) {
	items, err := s.Destinations.Destinations(ctx)
	w := who(ctx)
	if w.All() {
		return listed(items, err)
	}
	var shown []DestinationItem
	for _, i := range items {
		if seen(w, &i) {
			shown = append(shown, *withoutOthers(w, i))
		}
	}
	return listed(shown, err)
}

// withoutOthers returns a destination without the names of other teams that use it, and a shared one without what is for those who keep it.
func withoutOthers(w *access.Who, i DestinationItem) *DestinationItem {
	i.Teams = w.Only(i.Teams)
	if i.Team == "" { // it has what other teams' actions met
		i.URL, i.LastError = "", nil
	}
	i.Elsewhere = ownOf(w, i.Elsewhere)
	return &i
}

// ownOf returns those of subscriptions, TEAM.SUBSCRIPTION, that somebody may ask about.
func ownOf(w *access.Who, subscriptions []string) []string {
	return of(subscriptions, func(subscription string) bool {
		team, _, _ := strings.Cut(subscription, ".")
		return w.Of(team)
	})
}

// seen reports whether who asks may see a destination: it is of one of its teams, or shared with one.
func seen(w *access.Who, i *DestinationItem) bool {
	return i.Team != "" && w.Of(i.Team) || i.Team == "" && w.OfAny(i.Teams)
}

func (s *server) destination(ctx context.Context, r *http.Request) (any, error) {
	item, err := s.Destinations.Destination(ctx, r.PathValue("team"), r.PathValue("destination"))
	switch w := who(ctx); {
	case err != nil || w.All():
		return item, err
	case !seen(w, item):
		return nil, errNotYours
	default:
		return withoutOthers(w, *item), nil
	}
}

func (s *server) pause(ctx context.Context, r *http.Request) (any, error) {
	return changePause(ctx, r, r.PathValue("team"), r.PathValue("destination"), s.Destinations.Pause)
}

func (s *server) resume(ctx context.Context, r *http.Request) (any, error) {
	return changePause(ctx, r, r.PathValue("team"), r.PathValue("destination"), s.Destinations.Resume)
}

// changePause reads a request to pause or resume and calls change, which is the one or the other, with what is named: a destination or a
// subscription of a team, or a name in a scope.
func changePause[T any](ctx context.Context, r *http.Request, of, name string, change func(ctx context.Context, of, name string, r PauseRequest) (T, error)) (any, error) {
	var req PauseRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return change(ctx, of, name, req)
}

func destinationPath(team, name string) string {
	if team == "" {
		return "/v1/destinations/" + url.PathEscape(name)
	}
	return "/v1/destinations/" + url.PathEscape(team) + "/" + url.PathEscape(name)
}

// Destinations lists the configured destinations.
func (c *Client) Destinations(ctx context.Context) (Page[DestinationItem], error) {
	return getJSON[Page[DestinationItem]](ctx, c, "/v1/destinations", nil)
}

// Destination returns one destination; a shared one has no team.
func (c *Client) Destination(ctx context.Context, team, name string) (*DestinationItem, error) {
	return getJSON[*DestinationItem](ctx, c, destinationPath(team, name), nil)
}

// Pause pauses a destination in all processes and returns its state after that; a dry run changes nothing.
func (c *Client) Pause(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	return postJSON[*DestinationItem](ctx, c, destinationPath(team, name)+"/pause", r)
}

// Resume ends a pause in all processes and returns the destination's state after that; a dry run changes nothing.
func (c *Client) Resume(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	return postJSON[*DestinationItem](ctx, c, destinationPath(team, name)+"/resume", r)
}
