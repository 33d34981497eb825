package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// alertsAPI says which alerts fire, and silences them, in the ledger.
type alertsAPI struct{ a *App }

// Alerts implements [api.Alerts].
func (s *alertsAPI) Alerts(ctx context.Context) (*api.AlertList, error) {
	l, err := s.ledger()
	if err != nil {
		return nil, err
	}
	firing, err := l.FiringAlerts(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.AlertList{NotLookedFor: s.a.alerts == nil}
	if out.Silences, err = l.Silences(ctx); err != nil {
		return nil, err
	}
	for _, f := range firing {
		item := api.AlertItem{Alert: f.Name, Severity: f.Severity, Team: alerts.TeamOf(f.Labels), Labels: f.Labels, Since: f.Since, Summary: f.Summary, RunbookURL: alerts.RunbookURL(f.Name)}
		if quiet := alerts.Silenced(f.Name, f.Labels, out.Silences); quiet != nil {
			item.SilencedUntil = &quiet.Until
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// SilenceAlert implements [api.Alerts].
func (s *alertsAPI) SilenceAlert(ctx context.Context, alert string, r api.SilenceRequest) (*api.SilenceItem, error) {
	l, err := s.ledger()
	if err != nil {
		return nil, err
	}
	if err := knownAlert(alert); err != nil {
		return nil, err
	}
	if r.Team != "" {
		if err := names.Team(r.Team, configured(s.a.file()).teams); err != nil {
			return nil, err
		}
	}
	length := time.Duration(min(max(r.Seconds, 0), int64(2*ledger.MaxSilence/time.Second))) * time.Second
	item := ledger.Silence{Alert: alert, Team: r.Team, Reason: r.Reason, By: cmp.Or(r.By, "unknown")}
	if r.DryRun {
		now := time.Now().UTC()
		item.CreatedAt, item.Until = now, now.Add(length)
		return &item, ledger.CheckSilence(alert, length)
	}
	item, err = l.Silence(ctx, item, length)
	return &item, err
}

// EndSilence implements [api.Alerts].
func (s *alertsAPI) EndSilence(ctx context.Context, id int64, r api.SilenceEnd) (*api.SilenceItem, error) {
	l, err := s.ledger()
	if err != nil {
		return nil, err
	}
	item, err := l.Unsilence(ctx, id, cmp.Or(r.By, "unknown"), r.Reason)
	return &item, err
}

// ledger returns the ledger, where alerts and silences are kept for all processes.
func (s *alertsAPI) ledger() (*ledger.Ledger, error) {
	if s.a.stream == nil {
		return nil, schemas.Errorf(schemas.Conflict, "", "which alerts fire and which are silenced is in the ledger, and %s", noStream)
	}
	return s.a.stream.openLedger()
}

// knownAlert returns an error that says what may have been meant, if there is no alert of a name.
func knownAlert(name string) error {
	var all []string
	for _, r := range alerts.Rules(alerts.Defaults()) {
		all = append(all, r.Name)
	}
	switch near := names.Nearest(name, all); {
	case slices.Contains(all, name):
		return nil
	case near != "":
		return schemas.Errorf(schemas.NotFound, "", "there is no alert %q; was %s meant?", name, near)
	}
	return schemas.Errorf(schemas.NotFound, "", "there is no alert %q; deploy/runbooks has a page for each", name)
}
