package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestATeamWithProblemsIsLeftOut: the ledger is migrated, and the other teams' topics are made, though one team's file has problems. These are the
// error at the end, and the team's topics are no strangers.
func TestATeamWithProblemsIsLeftOut(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events.broken.github", "events.gone.github"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	url, schema := pgtest.Schema(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "teams.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	const team = "version: 1\nteams: {%s: {sources: {github: {preset: %s, secrets: [\"0123456789abcdef\"]}}}}\n"
	for name, text := range map[string]string{
		"forebay.yaml":        fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: %q, schema: %s}\ntopics: {partitions: 1, replication: 1}\nteams_dir: {path: teams.d}\n", cluster.ListenAddrs()[0], url, schema),
		"teams.d/acme.yaml":   fmt.Sprintf(team, "acme", "github"),
		"teams.d/broken.yaml": fmt.Sprintf(team, "broken", "githup"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ command, out, errs string }{
		{"migrate -o jsonl", `{"migration":"`, ""},
		{"migrate", "", "the ledger is up to date\n"},
		{"topics apply", "events.acme.github create", ""},
		{"topics plan", "events.gone.github", ""},
		{"topics plan --check -o jsonl", `"topic":"events.acme.github"`, ""},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append(strings.Fields(c.command), "-c", filepath.Join(dir, "forebay.yaml")), Options{Stdout: &out, Stderr: &errs})
		if code != exitProblems || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), c.out) || strings.Contains(out.String(), "broken") ||
			!strings.Contains(errs.String(), c.errs) || !strings.Contains(errs.String(), "broken.yaml:2: teams.broken.sources.github.preset:") {
			t.Errorf("%s: exit code %d\n%s%s", c.command, code, out.String(), errs.String())
		}
	}
}

// TestTopicsThatMayNotBeSeen: one that the brokers refuse is a line, as the others are, and the exit code tells.
func TestTopicsThatMayNotBeSeen(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events.acme.github"), kfake.SeedTopics(1, "quarantine.acme.github"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "events.acme.github", Err: kerr.TopicAuthorizationFailed, Count: -1})
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\ntopics: {partitions: 2}\nteams: {acme: {sources: {github: {preset: github, secrets: [\"0123456789abcdef\"]}}}}\n", cluster.ListenAddrs()[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const right = "user ANONYMOUS has no right Describe on topic events.acme.github"
	for _, command := range []string{"topics list", "topics plan", "topics plan --check", "topics plan -o jsonl", "topics apply --dry-run", "topics get events.acme.github"} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append(strings.Fields(command), "-c", file), Options{Stdout: &out, Stderr: &errs})
		both := strings.Contains(out.String(), "quarantine.acme.github") || strings.HasPrefix(command, "topics get")
		if code != exitFailed || !both || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), right) || !strings.Contains(errs.String(), "`forebay acls export` prints what each role needs: "+right) {
			t.Errorf("%s: exit code %d\n%s%s", command, code, out.String(), errs.String())
		}
	}
}
