package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
)

const day = 24 * time.Hour

// TestRemembered holds windows against what GitHub delivers again, for 3 days, and what a topic keeps, which may be a segment's day more.
func TestRemembered(t *testing.T) {
	t.Parallel()
	source := config.NamedSource{Team: "acme", Name: "github", Source: &config.Source{Preset: "github", Topic: "events.acme.github"}}
	source.Topics.Retention = config.Duration(2 * day)
	for _, tt := range []struct {
		name         string
		kept, window time.Duration
		want         []Finding
	}{
		{"as long as both", 2 * day, 3 * day, nil},
		{"longer than the provider, shorter than the log", 3 * day, 3 * day, []Finding{
			{Severity: Warning, Evidence: "is 3d, and the log of events.acme.github has events for up to 4d", Fix: "dedupe: {window: 11d}"}}},
		{"as long as the log, shorter than the provider", day, 2 * day, []Finding{
			{Severity: Problem, Evidence: "is 2d, and github delivers again for 3d: what comes after the window runs twice", Fix: "dedupe: {window: 4d}"}}},
		{"shorter than both", 2 * day, day, []Finding{
			{Severity: Problem, Evidence: "delivers again for 3d", Fix: "dedupe: {window: 4d}"},
			{Severity: Warning, Evidence: "has events for up to 3d", Fix: "dedupe: {window: 10d}"}}},
		{"a log for ever", -1, 3 * day, []Finding{
			{Severity: Warning, Evidence: "events.acme.github keeps events for ever", Fix: "--entity-name events.acme.github --add-config retention.ms=172800000"}}},
	} {
		wantAll(t, tt.name, remembered("acme", "triage", source, tt.kept, config.Duration(tt.window)), "teams.acme.subscriptions.triage.dedupe.window", tt.want)
	}
}

// TestServer: a server that is too old, and one that cannot be written, have what no server of a test has.
func TestServer(t *testing.T) {
	t.Parallel()
	sound := ledger.Examined{Server: 140000, Version: "14.0", Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}}
	old, standby := sound, sound
	old.Server, old.Version = 130022, "13.22"
	standby.Standby = true
	for _, tt := range []struct {
		name string
		is   ledger.Examined
		want []Finding
	}{
		{"the oldest", sound, nil},
		{"one older", old, []Finding{{Severity: Problem, Evidence: "PostgreSQL 13.22: 14 is the oldest that works", Fix: "upgrade the server"}}},
		{"a standby", standby, []Finding{{Severity: Problem, Evidence: "the server is a standby and cannot be written", Fix: "postgres.url: the primary's address"}}},
	} {
		x := examined{Ledger: config.Ledger{Path: "postgres"}, found: &tt.is}
		wantAll(t, tt.name, (&doctor{}).server(x), "postgres", tt.want)
	}
}

// wantAll fails the test unless the findings are those wanted and no others, all of one subject; evidence and fix of each have the texts wanted.
func wantAll(t *testing.T, name string, found []Finding, subject string, want []Finding) {
	t.Helper()
	same := len(found) == len(want)
	for i := 0; same && i < len(want); i++ {
		f, w := found[i], want[i]
		same = f.Severity == w.Severity && f.Subject == subject && strings.Contains(f.Evidence, w.Evidence) && strings.Contains(f.Fix, w.Fix)
	}
	if !same {
		t.Errorf("%s:\n%swant:\n%s", name, told(&Report{Findings: found}), told(&Report{Findings: want}))
	}
}
