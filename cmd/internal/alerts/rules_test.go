package alerts

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write deploy/alerts/forebay.rules.yaml")

const deploy = "../../../deploy"

// The file for Prometheus says what the rules say.
func TestRuleFile(t *testing.T) {
	t.Parallel()
	want, err := RuleFile(Rules(Defaults()))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(deploy, "alerts", "forebay.rules.yaml")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the rules say: run go test ./cmd/internal/alerts -update", file)
	}
}

// Every alert has a name of its own, words, a severity and a page, and no page is left over.
func TestEachAlertIsWhole(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^Forebay[A-Z][A-Za-z]+$`)
	var pages []string
	for _, r := range Rules(Defaults()) {
		page := filepath.Join(deploy, "runbooks", r.Name+".md")
		if slices.Contains(pages, page) || !name.MatchString(r.Name) || r.Severity != Critical && r.Severity != Warning || !strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%+v", r)
		}
		pages = append(pages, page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{"# " + r.Name + "\n", "**Means for users:**", "**Look at:**", "**Do:**", "**Over when:**", "```\nforebay "} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s has no %q", page, part)
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(deploy, "runbooks", "Forebay*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range found {
		if !slices.Contains(pages, page) {
			t.Errorf("%s is of no alert", page)
		}
	}
}

// Thresholds of a file take the place of the defaults.
func TestThresholds(t *testing.T) {
	t.Parallel()
	text, err := RuleFile(Rules(Thresholds{Depth: 7, Oldest: 2 * time.Hour, Lag: time.Minute, Expires: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{kind="dead_letter"}) > 7`, "oldest_seconds) > 7200", "lag_seconds) > 60", "expires_seconds) < 3600"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}
