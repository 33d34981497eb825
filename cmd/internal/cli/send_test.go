package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestSendNamesTheCause: the intake answers a source that it does not know as it answers a wrong secret, so that strangers learn nothing. Who
// may ask the process is told which it was.
func TestSendNamesTheCause(t *testing.T) {
	t.Parallel()
	intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer intake.Close()
	for name, tt := range map[string]struct {
		sources []api.SourceItem
		want    string
	}{
		"refused reload": {[]api.SourceItem{{Team: "acme", Source: "orders"}}, "401, unknown_source: the process at http://127.0.0.1:"},
		"another secret": {[]api.SourceItem{{Team: "acme", Source: "github"}}, "has the source, and none of its secrets there made this signature"},
		"nobody to ask":  {nil, "the intake has no source acme/github, or none of its secrets made this signature"},
	} {
		operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.sources == nil || r.URL.Path != "/v1/sources" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_ = json.NewEncoder(w).Encode(api.Page[api.SourceItem]{Items: tt.sources})
		}))
		file := filepath.Join(t.TempDir(), "forebay.yaml")
		text := "version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nlisten: {intake: \"" + intake.Listener.Addr().String() + "\", operator: \"" + operator.Listener.Addr().String() +
			"\"}\nteams:\n  acme:\n    sources: {github: {preset: github, secrets: [s]}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		args := []string{"send", "acme/github", "--sample", "github/issues.labeled", "-c", file}
		code := Main(t.Context(), args, Options{Stdout: &out, Stderr: &errs})
		if code != exitFailed || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: %d %s", name, code, errs.String())
		}
		errs.Reset()
		if code = Main(t.Context(), append(args, "--url", "127.0.0.1:8080"), Options{Stdout: &out, Stderr: &errs}); code != exitUsage {
			t.Errorf("%s, no URL: %d %s", name, code, errs.String())
		}
		errs.Reset()
		code = Main(t.Context(), append(args, "--stale", "1h"), Options{Stdout: &out, Stderr: &errs})
		operator.Close()
		if code != exitFailed || !strings.Contains(errs.String(), tt.want) { // GitHub signs no time: nothing is too old
			t.Errorf("%s, stale: %d %s", name, code, errs.String())
		}
	}
}
