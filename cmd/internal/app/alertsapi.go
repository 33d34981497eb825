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

// alertsAPI says which alerts fire in this process, and silences them in the ledger.
type alertsAPI struct{ a *App }

// Alerts implements [api.Alerts].
func (s *alertsAPI) Alerts(ctx context.Context) (*api.AlertList, error) {
	out := &api.AlertList{}
	if s.a.stream != nil {
		l, err := s.a.stream.openLedger()
		if err == nil {
			out.Silences, err = l.Silences(ctx)
		}
		switch {
		case err != nil && s.a.alerts == nil:
			return nil, err
		case err != nil: // what fires is to be seen above all when the ledger is away
			out.Silences = s.a.alerts.Silences(time.Now())
		}
	}
	var found []alerts.Alert
	if s.a.alerts != nil {
		found = s.a.alerts.Alerts()
	}
	out.Items = alertItems(alerts.Rules(alerts.Defaults()), s.a.file().Alerts.Rules(), found, out.Silences)
	return out, nil
}

// alertItems lists what has a sample, and then each other alert once.
func alertItems(all, evaluated []alerts.Rule, found []alerts.Alert, silences []ledger.Silence) (items []api.AlertItem) {
	named := map[string]bool{}
	for i := range found {
		f := &found[i]
		named[f.Rule.Name] = true
		item := api.AlertItem{Alert: f.Rule.Name, Severity: f.Rule.Severity, State: api.AlertPending, Team: f.Team(), Labels: f.Labels, Value: &f.Value,
			Since: new(f.Since.UTC()), Summary: f.Summary, RunbookURL: f.Rule.RunbookURL()}
		if f.Firing {
			item.State = api.AlertFiring
		}
		if quiet := alerts.Silenced(f, silences); quiet != nil {
			item.SilencedUntil = &quiet.Until
		}
		items = append(items, item)
	}
	slices.SortStableFunc(items, func(a, b api.AlertItem) int { return cmp.Compare(a.State, b.State) }) // firing before pending
	for i := range all {
		r := &all[i]
		if named[r.Name] {
			continue
		}
		item := api.AlertItem{Alert: r.Name, Severity: r.Severity, State: api.AlertOff, RunbookURL: r.RunbookURL()}
		if slices.ContainsFunc(evaluated, func(e alerts.Rule) bool { return e.Name == r.Name }) {
			item.State = api.AlertQuiet
		}
		if quiet := alerts.Silenced(&alerts.Alert{Rule: r}, silences); quiet != nil { // of all teams
			item.SilencedUntil = &quiet.Until
		}
		items = append(items, item)
	}
	return items
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

// ledger returns the ledger, where silences are kept for all processes.
func (s *alertsAPI) ledger() (*ledger.Ledger, error) {
	if s.a.stream == nil {
		return nil, schemas.Errorf(schemas.Conflict, "", "silences are in the ledger, and %s", noStream)
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
	return schemas.Errorf(schemas.NotFound, "", "there is no alert %q; `forebay alerts list` has them", name)
}
