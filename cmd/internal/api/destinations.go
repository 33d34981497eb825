package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// DestinationItem is a destination as the asked process sees it; a pause holds in all of them.
type DestinationItem struct {
	Team        string `json:"team"`
	Destination string `json:"destination"`
	Type        string `json:"type"`
	State       string `json:"state"`   // paused, open, held, half_open, recovering or running
	Breaker     string `json:"breaker"` // closed, open, half_open or recovering
	Running     int    `json:"running"` // attempts under way
	Concurrency int    `json:"concurrency"`
	Waiting     int    `json:"waiting"` // loaded actions that wait for their turn, their time or the one before them
	// ConsecutiveFailures are those of this process.
	ConsecutiveFailures int        `json:"consecutive_failures"`
	FailingSince        *time.Time `json:"failing_since"` // since when nothing gets through; null: it does, or nothing was attempted
	HeldUntil           *time.Time `json:"held_until"`    // as its answer asked
	OpenUntil           *time.Time `json:"open_until"`    // when the breaker lets one attempt through
	Paused              *PauseItem `json:"paused"`
}

// PauseItem is why a destination is paused.
type PauseItem struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by"`    // forebay, where nobody asked for it
	Class  string    `json:"class"` // of the last failure then
	Reason string    `json:"reason"`
}

// PauseRequest pauses or resumes a destination. By is who says so, as the client tells it.
type PauseRequest struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Destinations answers of destinations. Errors are *schemas.Error: Conflict where there is nothing to pause or to resume.
type Destinations interface {
	Destinations(ctx context.Context) ([]DestinationItem, error)
	Destination(ctx context.Context, team, name string) (*DestinationItem, error)
	Pause(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error)
	Resume(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error)
}

func (s *server) destinations(w http.ResponseWriter, r *http.Request) {
	s.askDestinations(w, r, func(ctx context.Context) error {
		if err := onlyKnown(r); err != nil {
			return err
		}
		items, err := s.Destinations.Destinations(ctx)
		if err == nil {
			list(w, items, "")
		}
		return err
	})
}

func (s *server) destination(w http.ResponseWriter, r *http.Request) {
	s.askDestinations(w, r, func(ctx context.Context) error {
		item, err := s.Destinations.Destination(ctx, r.PathValue("team"), r.PathValue("destination"))
		if err == nil {
			write(w, http.StatusOK, item)
		}
		return err
	})
}

func (s *server) pause(w http.ResponseWriter, r *http.Request) {
	s.changePause(w, r, func(ctx context.Context, req PauseRequest) (*DestinationItem, error) {
		return s.Destinations.Pause(ctx, r.PathValue("team"), r.PathValue("destination"), req)
	})
}

func (s *server) resume(w http.ResponseWriter, r *http.Request) {
	s.changePause(w, r, func(ctx context.Context, req PauseRequest) (*DestinationItem, error) {
		return s.Destinations.Resume(ctx, r.PathValue("team"), r.PathValue("destination"), req)
	})
}

func (s *server) changePause(w http.ResponseWriter, r *http.Request, change func(context.Context, PauseRequest) (*DestinationItem, error)) {
	s.askDestinations(w, r, func(ctx context.Context) error {
		var req PauseRequest
		if err := readBody(w, r, &req); err != nil {
			return err
		}
		if req.Reason == "" && !req.DryRun {
			return schemas.Errorf(schemas.Invalid, "", "the reason is missing: it is kept with who asked and when")
		}
		item, err := change(ctx, req)
		if err == nil {
			write(w, http.StatusOK, item)
		}
		return err
	})
}

// askDestinations is askInbox for destinations.
func (s *server) askDestinations(w http.ResponseWriter, r *http.Request, ask func(ctx context.Context) error) {
	if s.Destinations == nil {
		s.fail(w, schemas.Errorf(schemas.Conflict, "", "this process has no stream role, so it calls no destination; ask one that runs `forebay serve --roles stream`"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	if err := ask(ctx); err != nil {
		s.fail(w, err)
	}
}

func destinationPath(team, name string) string {
	return fmt.Sprintf("/v1/destinations/%s/%s", url.PathEscape(team), url.PathEscape(name))
}

// Destinations lists the configured destinations.
func (c *Client) Destinations(ctx context.Context) (Page[DestinationItem], error) {
	return ask[Page[DestinationItem]](ctx, c, "/v1/destinations", nil)
}

// Destination is one destination.
func (c *Client) Destination(ctx context.Context, team, name string) (*DestinationItem, error) {
	return ask[*DestinationItem](ctx, c, destinationPath(team, name), nil)
}

// Pause pauses a destination in all processes, or says how it is now.
func (c *Client) Pause(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	return post[*DestinationItem](ctx, c, destinationPath(team, name)+"/pause", r)
}

// Resume ends a pause in all processes, or says how the destination is now.
func (c *Client) Resume(ctx context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	return post[*DestinationItem](ctx, c, destinationPath(team, name)+"/resume", r)
}
