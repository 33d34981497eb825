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
)

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
