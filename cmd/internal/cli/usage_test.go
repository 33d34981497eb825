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
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// TestRoleConsole: who wants a process for the console hears where it is.
func TestRoleConsole(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]string{
		"console": `role "console" is not one of intake, stream: both serve the console and the operator API, at listen.operator`,
		"strem":   "role \"strem\" is not one of intake, stream\n",
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), []string{"serve", "-c", "nofile.yaml", "--roles", role}, Options{Stdout: &out, Stderr: &errs})
		if code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d: %s", role, code, errs.String())
		}
	}
}

// TestExitCodesOfSlips: what cannot be right is usage, whether this command notices or the process that it asks; what is well formed and
// names nothing is not found; and an item that is refused has failed.
func TestExitCodesOfSlips(t *testing.T) {
	t.Parallel()
	answers := func(kind schemas.Kind) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTeapot)
			json.NewEncoder(w).Encode(api.Problem{Detail: "because", Kind: string(kind)})
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	invalid, notFound := answers(schemas.Invalid), answers(schemas.NotFound)
	for _, c := range []struct {
		want int
		args []string
	}{
		{exitUsage, []string{"inbox", "list", "--decision", "stail", "--url", invalid}},
		{exitUsage, []string{"dlq", "list", "--class", "reject", "--url", invalid}},
		{exitUsage, []string{"attention", "--kind", "ded_letter", "--url", invalid}},
		{exitUsage, []string{"inbox", "get", "acme/triage/github", "--url", invalid}},
		{exitUsage, []string{"inbox", "list", "--time", "sidereal"}},
		{exitUsage, []string{"inbox", "list", "--url", "nowhere"}},
		{exitUsage, []string{"inbox", "lst"}},
		{exitUsage, []string{"subscriptions", "accept", "acme.triage", "--stop", "0", "--reason", "x", "--url", notFound}},
		{exitUsage, []string{"dlq", "discard", "--class", "rejected", "--group", "", "--reason", "x", "--url", notFound}},
		{exitUsage, []string{"replay", "plan", "--subscription", "acme.triage", "--source", "", "--url", notFound}},
		{exitNotFound, []string{"dlq", "list", "--profile", "", "--token-file", "", "--url", notFound}},
		{exitNotFound, []string{"inbox", "list", "--subscription", "acme.triag", "--url", notFound}},
		{exitNotFound, []string{"inbox", "get", "acme/triage/github/nobody", "--url", notFound}},
		{exitNotFound, []string{"sources", "presets", "githb"}},
		{exitFailed, []string{"quarantine", "redrive", "quarantine.acme.orders/0@1", "--reason", "x", "--url", invalid}},
		{exitFailed, []string{"inbox", "redrive", "acme/triage/github/1", "--reason", "x", "--url", invalid}},
		{exitFailed, []string{"dlq", "replay", "act_1", "--reason", "x", "--url", invalid}},
	} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), c.args, Options{Stdout: &out, Stderr: &errs}); code != c.want {
			t.Errorf("forebay %s: exit code %d, want %d: %s", strings.Join(c.args, " "), code, c.want, errs.String())
		}
	}
}

// TestPresetsFitAndAreWhole: a preset's table fits, however much is known of it, and nothing of it is cut off.
func TestPresetsFitAndAreWhole(t *testing.T) {
	t.Parallel()
	shown := func(name string, more ...string) string {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), append([]string{"sources", "presets", name}, more...), Options{Stdout: &out, Stderr: &errs}); code != exitOK {
			t.Fatal(code, errs.String())
		}
		return out.String()
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	for _, p := range provider.Presets() {
		text := shown(p.Name)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > tableWidth {
				t.Errorf("%s: %d characters: %s", p.Name, n, line)
			}
		}
		if strings.Contains(text, "…") {
			t.Errorf("%s is cut off:\n%s", p.Name, text)
		}
		wide := squeeze(shown(p.Name, "-o", "wide"))
		for _, e := range p.Texts() {
			for _, cell := range []string{e.Event, e.Entity, e.Version, e.Clock} {
				if !strings.Contains(wide, squeeze(cell)) {
					t.Errorf("%s -o wide has no %q", p.Name, cell)
				}
			}
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                            {""},
		"as they arrive":              {"as they", "arrive"},
		"/check_run/completed_at":     {"/check_run/", "completed_", "at"},
		"a /b_c_d_e_f/g":              {"a", "/b_c_d_e_f/", "g"},
		"überlängenwörter sind lange": {"überlängenw", "örter sind", "lange"},
	} {
		if d := cmp.Diff(want, wrap(text, 11)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// TestFullDisk: a command whose answer is lost has failed, and says why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err) // Linux has it
	}
	defer full.Close()
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nkafka: {brokers: [127.0.0.1:9092]}\npostgres: {url: postgres://127.0.0.1/forebay}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"version", "version -o json", "sources presets", "sources presets github", "config show -c " + file, "config init", "--help", completeWord + " inbox",
	} {
		var errs bytes.Buffer
		code := Main(t.Context(), strings.Fields(command), Options{Stdout: full, Stderr: &errs})
		if code != exitFailed || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("forebay %s > /dev/full: exit code %d: %q", command, code, errs.String())
		}
	}
}
