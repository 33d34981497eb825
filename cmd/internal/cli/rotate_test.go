package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestRotate: an old secret may go only once another one verifies, and it has verified nothing for as long as the provider may repeat what it
// signed before. One that never verified may be new, and the text says so.
func TestRotate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	github, _ := provider.Lookup("github") // repeats for 3 days
	const day = 24 * time.Hour
	for _, c := range []struct {
		name    string
		last    []*time.Time // when each secret verified last; all are there for ten days
		want    string       // per secret: r removable, k kept
		shown   string
		makes   bool
		noSeen  bool
		presets provider.Info
		ended   int // how many of them have ended, the first
	}{
		{"one", []*time.Time{ago(time.Minute)}, "k", "is read when a process starts: restart the intakes", true, false, github, 0},
		{"one beside one that has ended", []*time.Time{ago(time.Hour), nil}, "rk", "has ended: take it out of the file", true, false, github, 1},
		{"the only one has ended", []*time.Time{ago(time.Hour)}, "r", "nothing is taken until another one is in the file", true, false, github, 1},
		{"old one still used", []*time.Time{ago(time.Hour), ago(time.Minute)}, "kk", "keep it", false, false, github, 0},
		{"old one quiet for four days", []*time.Time{ago(4 * day), ago(time.Minute)}, "rk", "take it out of the file;", false, false, github, 0},
		{"new one has verified nothing", []*time.Time{ago(4 * day), nil}, "kr", "verified nothing yet: take it out of the file, unless it is the new one", false, false, github, 0},
		{"no deliveries at all", []*time.Time{nil, nil}, "kk", "A secret may go once", false, false, github, 0},
		{"horizon of nobody knows", []*time.Time{ago(2 * day), ago(0)}, "kk", "keep it", false, false, provider.Info{}, 0},
		{"no intake", []*time.Time{nil}, "", "has seen nothing", true, true, github, 0},
	} {
		i := &api.SourceItem{Team: "acme", Source: "github", Keys: len(c.last) - c.ended, Seen: &api.SeenItem{}}
		for _, last := range c.last {
			i.Seen.Secrets = append(i.Seen.Secrets, api.SecretItem{Since: now.Add(-10 * day), LastUsed: last, Verified: 7})
		}
		for n := range c.ended {
			i.Seen.Secrets[n].Until = &now
		}
		if c.noSeen {
			i.Seen = nil
		}
		r := rotate(i, c.presets, now)
		got := ""
		for _, s := range r.Secrets {
			got += map[bool]string{true: "r", false: "k"}[s.Removable]
		}
		var text bytes.Buffer
		showRotation(&text, r, "GitHub")
		if got != c.want || (r.NewSecret != "") != c.makes || !strings.Contains(text.String(), c.shown) {
			t.Errorf("%s: %q, want %q; new secret %t; %s", c.name, got, c.want, r.NewSecret != "", &text)
		}
	}
}

// TestRotateMakesWhatIsTaken: a source of any preset is told a new secret that it takes, or none where its provider makes them.
func TestRotateMakesWhatIsTaken(t *testing.T) {
	t.Parallel()
	theirs := map[string]bool{}
	for _, info := range provider.Presets() {
		r := rotate(&api.SourceItem{Team: "acme", Source: "hooks", Keys: 1}, info, time.Now())
		var text bytes.Buffer
		showRotation(&text, r, info.Title)
		if theirs[info.Name] = r.NewSecret == ""; theirs[info.Name] != strings.Contains(text.String(), "A new one is not made here") {
			t.Errorf("%s: %q: %s", info.Name, r.NewSecret, &text)
		}
		if _, err := verify.New(info.Verify, []schemas.Secret{schemas.NewSecret(r.NewSecret)}); err != nil && r.NewSecret != "" && info.Name != "generic" {
			t.Errorf("%s takes no %s: %v", info.Name, r.NewSecret, err)
		}
	}
	for name, want := range map[string]bool{"discord": true, "sendgrid": true, "sns": true, "github": false, "stripe": false, "generic": false, "standard-webhooks": false} {
		if got, known := theirs[name]; got != want || !known {
			t.Errorf("%s: the provider makes them: %t, want %t", name, got, want)
		}
	}
}

// TestNewSecretIsTaken: each form is one that its scheme takes, and no two are the same.
func TestNewSecretIsTaken(t *testing.T) {
	t.Parallel()
	for _, params := range []verify.Params{{Scheme: verify.SchemeStandardWebhooks}, {Scheme: verify.SchemeGitHub}, {Scheme: verify.SchemeToken, Header: "X-Token"}} {
		secret := newSecret(params.Scheme)
		if _, err := verify.New(params, []schemas.Secret{schemas.NewSecret(secret)}); err != nil || secret == newSecret(params.Scheme) {
			t.Errorf("%s: %v", params.Scheme, err)
		}
	}
}
