package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProfiles asks two processes by profiles. No token goes to another process than its profile's, and none that others can read is used.
func TestProfiles(t *testing.T) {
	seen := map[string]string{} // the token of the last question, by process
	process := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen[name] = r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/v1/attention" {
				w.Write([]byte(`{"items":[{"kind":"parked","id":"acme/triage/github/1","command":"forebay inbox redrive acme/triage/github/1 --reason TEXT"}],"counts":[],"unknown":[]}`))
				return
			}
			w.Write([]byte(`{"items":[{"team":"acme","source":"` + name + `"}]}`))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	prod, stage := process("prod"), process("stage")
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home) // where other systems look
	path, err := profilesPath()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		clear(seen)
		if got := Main(t.Context(), args, Options{Stdout: &out, Stderr: &errs}); got != code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}
	list := []string{"sources", "list"}
	with := func(more ...string) []string { return append(more, list...) }

	if _, errs := run(0, "profiles", "list"); !strings.Contains(errs, "there are no profiles: "+path) {
		t.Errorf("without a file: %s", errs)
	}
	write("profiles.yaml", "profiles:\n  prod: {url: "+prod+", token_file: prod.token, output: id}\n  stage: {url: "+stage+"}\n", 0o644)
	write("prod.token", "token-of-prod\n", 0o600)

	out, _ := run(0, with("--profile", "prod")...)
	if out != "acme/prod\n" || seen["prod"] != "Bearer token-of-prod" {
		t.Errorf("by the profile: %q, asked with %v", out, seen)
	}
	if out, _ = run(0, with("--profile", "stage")...); !strings.Contains(out, "SOURCE") || seen["stage"] != "" {
		t.Errorf("a profile without token and output: %q, %v", out, seen)
	}
	if out, _ = run(0, with("--profile", "prod", "-o", "jsonl")...); !strings.HasPrefix(out, `{"team":"acme"`) {
		t.Errorf("-o wins: %q", out)
	}
	if run(0, append(with("--profile", "prod"), "--url", stage)...); seen["stage"] != "" || seen["prod"] != "" {
		t.Errorf("--url wins, and the token of a profile is for its process alone: %v", seen)
	}
	t.Run("environment", func(t *testing.T) {
		t.Setenv("FOREBAY_PROFILE", "prod")
		if out, _ := run(0, list...); out != "acme/prod\n" {
			t.Errorf("FOREBAY_PROFILE: %q", out)
		}
		if out, _ := run(0, with("--profile", "stage")...); !strings.Contains(out, "acme/stage") {
			t.Errorf("--profile wins over it: %q", out)
		}
		if out, _ := run(0, "attention", "-o", "table"); !strings.Contains(out, "--reason TEXT\n") {
			t.Errorf("the command is to be pasted into the same shell: %q", out)
		}
		t.Setenv("FOREBAY_TOKEN", "token-of-the-environment")
		if run(0, list...); seen["prod"] != "Bearer token-of-the-environment" {
			t.Errorf("FOREBAY_TOKEN wins: %v", seen)
		}
		t.Setenv("FOREBAY_URL", stage)
		if out, _ := run(0, list...); out != "acme/stage\n" {
			t.Errorf("FOREBAY_URL wins: %q", out)
		}
	})
	if out, _ := run(0, "attention", "--profile", "prod", "-o", "table"); !strings.Contains(out, "--reason TEXT --profile prod\n") {
		t.Errorf("the command does not say whom it asks: %q", out)
	}
	if _, errs := run(exitNotFound, with("--profile", "prd")...); !strings.Contains(errs, "did you mean prod?") {
		t.Errorf("a slip: %s", errs)
	}

	write("prod.token", "token-of-prod\n", 0o640)
	if _, errs := run(exitPermission, with("--profile", "prod")...); !strings.Contains(errs, "chmod 600 ") || len(seen) > 0 || strings.Contains(errs, "token-of-prod") {
		t.Errorf("a token that others can read: %s %v", errs, seen)
	}
	if out, _ := run(0, "profiles", "list", "-o", "json"); !strings.Contains(out, `"token_file": "`+filepath.Join(dir, "prod.token")) || !strings.Contains(out, "chmod 600") {
		t.Errorf("profiles list: %s", out)
	}
	write("profiles.yaml", "profiles: {prod: {url: "+prod+"}}\n", 0o666)
	if _, errs := run(exitPermission, with("--profile", "prod")...); !strings.Contains(errs, "chmod go-w ") {
		t.Errorf("profiles that others can write: %s", errs)
	}
	write("profiles.yaml", "profiles: {prod: {uri: "+prod+"}}\n", 0o600)
	if _, errs := run(exitUsage, with("--profile", "prod")...); !strings.Contains(errs, "field uri not found") {
		t.Errorf("a key that there is not: %s", errs)
	}
}
