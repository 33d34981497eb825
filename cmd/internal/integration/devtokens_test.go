package integration

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestDevWithTokens: with operator: {auth: tokens}, dev makes the first token and keeps it in the data directory; tokens, roles and the console's
// login are as with `forebay serve`.
func TestDevWithTokens(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("operator: {auth: tokens}", options{})
	p := r.dev("-c", r.config)
	file := filepath.Join(r.dir, "data", "admin.token")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(p.output(), "token     "+file) {
		t.Fatalf("%v %v\n%s", info, err, p.output())
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.try(p.operator, "inbox", "list"); err == nil {
		t.Errorf("without a token: %s", out)
	}
	line := regexp.MustCompile(`(?m)^  (.* subscriptions list.*)$`).FindStringSubmatch(p.output())
	if line == nil {
		t.Fatal(p.output())
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput(); err != nil || !strings.Contains(string(out), "demo.fulfil") {
		t.Errorf("as it is printed: %v %s", err, out)
	}
	ann := filepath.Join(r.dir, "ann.token")
	out, err := r.try(p.operator, "tokens", "create", "ann", "--role", "viewer", "--team", "demo", "--reason", "to try it", "--token-file", file)
	if err != nil || os.WriteFile(ann, out, 0o600) != nil {
		t.Fatalf("%s %v", out, err)
	}
	if out, err := r.try(p.operator, "tokens", "create", "bob", "--role", "viewer", "--team", "demo", "--reason", "x", "--token-file", ann); err == nil {
		t.Errorf("a viewer makes tokens: %s", out)
	}
	login := func(token string) int {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Jar: jar}).PostForm("http://"+p.operator+"/console/login", url.Values{"token": {strings.TrimSpace(token)}, "next": {"/console/health"}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Request.URL.Path != "/console/health" {
			return 0
		}
		return resp.StatusCode
	}
	if a, b, none := login(string(token)), login(string(out)), login("fbo_nothing"); a != http.StatusOK || b != http.StatusOK || none != 0 {
		t.Errorf("logged in: %d, as a viewer %d, with no token %d", a, b, none)
	}
	p.stop()
	p = r.dev("-c", r.config)
	if again, err := os.ReadFile(file); err != nil || string(again) != string(token) {
		t.Errorf("the second start has another token: %v", err)
	}
	if out, err := r.try(p.operator, "tokens", "list", "-o", "id", "--token-file", file); err != nil || strings.Count(string(out), "\n") != 2 {
		t.Errorf("%s %v", out, err)
	}
}

// TestDevWithTLS: with operator.tls, dev's listener ends TLS as with `forebay serve`, dev asks it by its own certificate alone, and commands ask it as
// they do there.
func TestDevWithTLS(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	ca := rig.NewAuthority(t)
	of := ca.Issue("operator", time.Hour)
	r.write(fmt.Sprintf("operator: {auth: tokens, tls: {cert_file: %q, key_file: %q}}", of.Cert, of.Key), options{})
	p := r.dev("-c", r.config)
	line := regexp.MustCompile(`(?m)^  (.* subscriptions list.*)$`).FindStringSubmatch(p.output())
	if line == nil || !strings.Contains(line[1], "--url https://"+p.operator) {
		t.Fatalf("%q\n%s", line, p.output())
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line[1])
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+ca.CAFile)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "demo.fulfil") {
		t.Errorf("as it is printed: %v %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput(); err == nil {
		t.Errorf("by an authority that nobody trusts: %s", out)
	}
}
