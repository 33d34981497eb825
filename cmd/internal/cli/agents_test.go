package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// What is different in each run: the key, times, and who runs the test.
var ofThisRun = regexp.MustCompile(`fbk_[A-Za-z0-9_-]{43}|\d{4}-\d\d-\d\dT[0-9:]+Z|\d+s ago|\bnow\b|` + regexp.QuoteMeta(whoAmI()))

// TestAgentsOutputs makes, lists and revokes agents, and does what cannot be done.
func TestAgentsOutputs(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "agents.acme"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	url, schema := pgtest.Schema(t)
	of := ledger.Config{URL: schemas.NewSecret(url), Schema: schema}
	if _, err := ledger.Migrate(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: %q, schema: %q}\ntopics: {partitions: 2, replication: 1, retention: 7d}\nteams:\n"+
		"  acme: {sources: {plans: {preset: agent}, reviews: {preset: agent}, github: {preset: github, secrets: [0123456789abcdef]}}}\n"+
		"  pay: {sources: {runs: {preset: agent}}}\n", cluster.ListenAddrs()[0], url, schema)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, c := range []struct {
		args string
		code int
	}{
		{"create planner --team acme --sources plans --types com.acme.plan.* --reason trial", 0},
		{"create coder --team acme --sources plans,reviews --reason trial -o json", 0},
		{"create dry --team acme --sources plans --dry-run", 0},
		{"create planner --team acme --sources plans --reason again", exitConflict},
		{"create Planner --team acme --sources plans --reason name", exitFailed},
		{"create other --team acme --sources github --reason source", exitNotFound},
		{"create other --team acme --reason sources", exitUsage},
		{"create other --team acme --sources plans", exitUsage},
		{"create other --sources plans --reason team", exitUsage},
		{"create other --team acm --sources plans --reason slip", exitNotFound},
		{"create other --team pay --reason topic", exitNotFound},
		{"revoke planner --team acme --dry-run", 0},
		{"revoke planner --team acme", exitUsage},
		{"revoke planner --team acme --reason leaked", 0},
		{"revoke planner --team acme --reason twice", exitConflict},
		{"revoke nobody --team acme --reason slip", exitNotFound},
		{"list --team acme", 0},
		{"list --team acme -o json", 0},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append(append([]string{"agents"}, strings.Fields(c.args)...), "-c", file), Options{Stdout: &out, Stderr: &errs})
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, code, c.code, errs.String())
		}
		fmt.Fprintf(&all, "$ forebay agents %s\n%s%s\n", c.args, out.String(), errs.String())
	}
	golden(t, filepath.Join("testdata", "outputs", "agents.txt"), ofThisRun.ReplaceAllString(all.String(), "~"))

	// What was made and ended, and what could not be, is in the audit; a ledger that does not answer keeps nobody from ending a key.
	l, err := ledger.Open(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	kept, _, err := l.Changes(t.Context(), ledger.ChangeQuery{Team: "acme", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, c := range kept {
		rows = append(rows, strings.Join([]string{c.Actor, c.Action, c.Object, c.Reason, c.Outcome}, " "))
		if c.By != whoAmI() || (c.Outcome == "done") != strings.Contains(string(c.After), `"created_by"`) || strings.Contains(string(c.After), "fbk_") || strings.Contains(string(c.After), "sha256") {
			t.Errorf("%+v, after it %s", c, c.After)
		}
	}
	slices.Reverse(rows)
	want := []string{"ledger agent.create planner trial done", "ledger agent.create coder trial done", "ledger agent.create planner again refused",
		"ledger agent.create Planner name refused",
		"ledger agent.revoke planner leaked done", "ledger agent.revoke planner twice refused", "ledger agent.revoke nobody slip refused"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, url, "postgres://127.0.0.1:1/none", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"agents", "revoke", "coder", "--team", "acme", "--reason", "leaked", "-c", file}, Options{Stdout: &out,
		Stderr: &errs}); code != 0 ||
		!strings.Contains(errs.String(), "the audit does not have this change") || !strings.Contains(errs.String(), "revoked agent coder") {
		t.Errorf("without a ledger: exit code %d: %s", code, errs.String())
	}
}
