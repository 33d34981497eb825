package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// AlertItem is an alert that fires, about one thing.
type AlertItem struct {
	Alert         string            `json:"alert"`
	Severity      string            `json:"severity"`
	Team          string            `json:"team"`   // whose; empty: nobody's alone
	Labels        map[string]string `json:"labels"` // what it is about
	Since         time.Time         `json:"since"`
	Summary       string            `json:"summary"`
	SilencedUntil *time.Time        `json:"silenced_until"` // null: receivers are told
	RunbookURL    string            `json:"runbook_url"`
}

// SilenceItem keeps an alert from being sent for a time. It goes over the wire as the ledger has it.
type SilenceItem = ledger.Silence

// AlertList is which alerts fire and which are silenced, as the processes of the ledger know it together.
type AlertList struct {
	Items    []AlertItem   `json:"items"`
	Next     string        `json:"next"` // always empty: the list has one page
	Silences []SilenceItem `json:"silences"`
	// NotLookedFor says that this process looks for no alerts: its file names no receiver. Others of the ledger may.
	NotLookedFor bool `json:"not_looked_for"`
}

// SilenceRequest silences an alert. By is who says so, as the client tells it.
type SilenceRequest struct {
	Team    string `json:"team,omitempty"` // empty: of all teams, and of none
	Seconds int64  `json:"seconds"`        // for how long
	Reason  string `json:"reason"`
	By      string `json:"by"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// SilenceEnd ends a silence.
type SilenceEnd struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// Alerts says which alerts fire, and silences them. Errors are *schemas.Error.
type Alerts interface {
	Alerts(ctx context.Context) (*AlertList, error)
	// SilenceAlert silences an alert, unless it is a dry run: then it only checks what is asked.
	SilenceAlert(ctx context.Context, alert string, r SilenceRequest) (*SilenceItem, error)
	EndSilence(ctx context.Context, id int64, r SilenceEnd) (*SilenceItem, error)
}

func (s *server) alerts(ctx context.Context, _ *http.Request) (any, error) {
	found, err := s.Alerts.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	shown := AlertList{Items: []AlertItem{}, Silences: []SilenceItem{}, NotLookedFor: found.NotLookedFor}
	for _, i := range found.Items {
		if who(ctx).All() || i.Team != "" && who(ctx).Of(i.Team) {
			shown.Items = append(shown.Items, i)
		}
	}
	for _, i := range found.Silences {
		if i.Team == "" || who(ctx).Of(i.Team) {
			shown.Silences = append(shown.Silences, i)
		}
	}
	return &shown, nil
}

func (s *server) silenceAlert(ctx context.Context, r *http.Request) (any, error) {
	var req SilenceRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	if err := maySilence(who(ctx), req.Team); err != nil {
		return nil, err
	}
	return s.Alerts.SilenceAlert(ctx, r.PathValue("alert"), req)
}

// maySilence refuses what concerns other teams than those of who asks.
func maySilence(w *access.Who, team string) error {
	switch {
	case w.Of(team):
		return nil
	case team == "":
		return &forbidden{w.Name + " is of " + teamsText(w) + ", and this concerns all teams: say which of them (--team)"}
	}
	return errNotYours
}

func (s *server) endSilence(ctx context.Context, r *http.Request) (any, error) {
	var req SilenceEnd
	if err := readBody(r, &req, &req.By, &req.Reason, new(bool)); err != nil {
		return nil, err
	}
	id, err := strconv.ParseInt(r.PathValue("silence"), 10, 64)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "%q is no id of a silence", r.PathValue("silence"))
	}
	if w := who(ctx); !w.All() {
		all, err := s.Alerts.Alerts(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all.Silences, func(o SilenceItem) bool { return o.ID == id })
		if i < 0 {
			return nil, errNotYours
		}
		if err := maySilence(w, all.Silences[i].Team); err != nil {
			return nil, err
		}
	}
	return s.Alerts.EndSilence(ctx, id, req)
}

// Alerts lists alerts and silences.
func (c *Client) Alerts(ctx context.Context) (*AlertList, error) {
	return getJSON[*AlertList](ctx, c, "/v1/alerts", nil)
}

// SilenceAlert silences an alert.
func (c *Client) SilenceAlert(ctx context.Context, alert string, r SilenceRequest) (*SilenceItem, error) {
	return postJSON[*SilenceItem](ctx, c, "/v1/alerts/"+url.PathEscape(alert)+"/silence", r)
}

// EndSilence ends a silence.
func (c *Client) EndSilence(ctx context.Context, id int64, r SilenceEnd) (*SilenceItem, error) {
	return postJSON[*SilenceItem](ctx, c, "/v1/silences/"+strconv.FormatInt(id, 10)+"/end", r)
}
