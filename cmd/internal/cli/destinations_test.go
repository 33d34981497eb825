package cli

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// places are two destinations; the first is paused and resumed as asked.
type places struct{ items []api.DestinationItem }

func (p *places) Destinations(context.Context) ([]api.DestinationItem, error) { return p.items, nil }

func (p *places) Destination(_ context.Context, team, name string) (*api.DestinationItem, error) {
	for i := range p.items {
		if p.items[i].Team == team && p.items[i].Destination == name {
			return &p.items[i], nil
		}
	}
	return nil, schemas.Errorf(schemas.NotFound, "", "no destination %s", strings.TrimPrefix(team+"/"+name, "/"))
}

func (p *places) Pause(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error) {
	i, err := p.Destination(ctx, team, name)
	switch {
	case err != nil || r.DryRun:
		return i, err
	case i.Paused != nil:
		return nil, schemas.Errorf(schemas.Conflict, "", "paused already")
	}
	i.State, i.Paused = "paused", &api.PauseItem{At: time.Unix(1_800_000_000, 0), By: r.By, Reason: r.Reason}
	return i, nil
}

func (p *places) Resume(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error) {
	i, err := p.Destination(ctx, team, name)
	if err == nil && !r.DryRun {
		i.State, i.Paused = "recovering", nil
	}
	return i, err
}

// TestDestinations drives the commands against the operator's server.
func TestDestinations(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	p := &places{items: []api.DestinationItem{
		{Team: "acme", Destination: "agent", Type: "http", State: "running", Breaker: "closed", Running: 2, Concurrency: 64, URL: "https://agents.example.com/run",
			LastError: &api.FailureItem{At: at, Class: "rejected", Code: 302, Error: "destination answered 302, a redirect to https://login.example.com/"}},
		{Team: "acme", Destination: "mail", Type: "slack", State: "open", Breaker: "open", Concurrency: 8, Waiting: 41, ConsecutiveFailures: 12,
			OpenUntil: &at, OnHoldUntil: new(at.Add(time.Minute)), FailingSince: new(at.Add(-time.Hour))},
		{Destination: "pagers", Teams: []string{"acme", "payments"}, Type: "pagerduty", State: "running", Breaker: "closed", Concurrency: 16},
	}}
	h, err := api.New(api.Config{Ready: func(context.Context, bool) []api.Check { return nil }, Quarantine: noQuarantine{}, Attention: func(context.Context, api.AttentionFilter) (*api.Attention, error) { return nil, nil }, Destinations: p, Gatherer: prometheus.NewRegistry(),
		Sources: func() []api.SourceItem { return nil }, Subscriptions: func(context.Context) []api.SubscriptionItem { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"list --time iso", 0, "DESTINATION  TYPE       STATE    RUNNING  WAITING  FAILURES  UNTIL                 WHY\n" +
			"acme/agent   http       running  2/64     0        0         -                     -\n" +
			"acme/mail    slack      open     0/8      41       12        2027-01-15T08:01:00Z  -\n" +
			"pagers       pagerduty  running  0/16     0        0         -                     -\n", ""},
		{"list -o wide --time iso", 0, "acme            open     2027-01-15T07:00:00Z", ""},
		{"list -o wide", 0, "acme, payments  closed", ""},
		{"get acme/mail", 0, "on hold until   2027-01-15T08:01:00Z\nrunning         0 of 8\nwaiting         41\nfailures        12 in a row\n", ""},
		{"get acme/agent --time iso", 0, "url             https://agents.example.com/run\n", ""},
		{"get acme/agent --time iso", 0, "last error      rejected: destination answered 302, a redirect to https://login.example.com/\nlast error at   2027-01-15T08:00:00Z\n", ""},
		{"get acme/no", 3, "", "no destination acme/no"},
		{"get pagers", 0, "destination     pagers\nteams           acme, payments\ntype            pagerduty\n", ""},
		{"get mail", 3, "", "no destination mail"},
		{"get /mail", 2, "", "is neither TEAM/NAME nor NAME"},
		{"pause acme/agent", 2, "", ""},
		{"resume acme/agent", 2, "", ""},
		{"pause acme/agent --dry-run", 0, "state           running\n", "dry run"},
		{"pause acme/agent --reason moving", 0, "why             moving\n", "paused: nothing more is attempted"},
		{"list", 0, "moving", ""},
		{"get acme/agent", 0, "run             forebay destinations resume acme/agent --reason TEXT\n", ""},
		{"pause acme/agent --reason moving", 6, "", "paused already"},
		{"resume acme/agent --reason moved", 0, "state           recovering\n", "resumed: attempts go on, slowly"},
		{"pause acme/mail --reason moving", 0, "", ""},
		{"resume acme/mail --reason moved", 0, "", "resumed, but it has asked for no calls until 2027-01-15T08:01:00Z (Retry-After): attempts go on then"},
		{"list --team acme -o id", 0, "acme/agent\nacme/mail\npagers\n", ""},
		{"list --team payments -o id", 0, "pagers\n", ""},
		{"list --team acm", 3, "", "did you mean acme?"},
		{"pause pagers --reason moving", 0, "run             forebay destinations resume pagers --reason TEXT\n", "paused: nothing more is attempted"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"destinations"}, strings.Fields(tt.args)...)
		code := Main(context.WithoutCancel(t.Context()), append(args, "--url", s.URL), Options{Stdout: &out, Stderr: &errs})
		if code != tt.code || !strings.Contains(out.String(), tt.stdout) || !strings.Contains(errs.String(), tt.stderr) {
			t.Errorf("%s: code %d, want %d\n%s\n%s", tt.args, code, tt.code, out.String(), errs.String())
		}
	}
}

type noQuarantine struct{ api.Quarantine }

func (noQuarantine) Quarantined(context.Context, api.QuarantineFilter) (api.Page[api.QuarantineItem], error) {
	return api.Page[api.QuarantineItem]{}, nil
}
