package app

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// A process opens by tokens of a ledger that the main file names: not by those of a team's, who could make some for all teams, and by none
// without a ledger.
func TestWhoseTokensOpen(t *testing.T) {
	t.Parallel()
	const main, own = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://u:p@127.0.0.1/main"}
operator: {auth: tokens}
teams_dir: {path: teams.d, references: {networks: [127.0.0.0/8]}}
`, `version: 1
teams:
  beta:
    sources: {s: {preset: github, secrets: ["0123456789abcdef"]}}
    destinations: {out: {type: log}}
    subscriptions:
      fulfil: {sources: [s], actions: [{name: run, to: out}]}
      billing: {sources: [s], postgres: {url: "postgres://u:p@127.0.0.1/billing"}, actions: [{name: run, to: out}]}
`
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "teams.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"forebay.yaml": main, "teams.d/beta.yaml": own} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		subscriptions []string
		want          schemas.Kind
	}{
		{nil, schemas.Unavailable}, // its ledger is not open yet
		{[]string{"beta.billing"}, schemas.Conflict},
	} {
		file, err := config.Load(config.Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: []config.Role{config.RoleStream}, Subscriptions: tt.subscriptions})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(Config{File: file, Roles: []config.Role{config.RoleStream}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.keys(); schemas.KindOf(err) != tt.want {
			t.Errorf("%q: %v, want %s", tt.subscriptions, err, tt.want)
		}
	}
	if _, err := (&App{}).keys(); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("without the stream role: %v", err)
	}
}

// An empty list of proxies is none: browsers come to loopback itself, without TLS.
func TestEmptyListOfProxiesIsNone(t *testing.T) {
	t.Parallel()
	for proxies, secure := range map[string]bool{"[]": false, "[127.0.0.0/8]": true} {
		r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:1") +
			"operator: {auth: tokens, behind_proxy: " + proxies + "}\n"}
		a := r.app(config.RoleStream)
		defer a.waits.close(t.Context())
		if login := a.login(&api.Access{}, nil); login.Secure != secure {
			t.Errorf("behind_proxy: %s: cookies that go over TLS alone: %t", proxies, login.Secure)
		}
	}
}
