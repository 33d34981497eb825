package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTopicsOutputs lists and shows topics of a cluster that has two of three.
func TestTopicsOutputs(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events.acme.github"), kfake.SeedTopics(1, "quarantine.acme.github"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, partition := range []int32{0, 1, 1} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "events.acme.github", Partition: partition}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: postgres://h/d}\ntopics: {partitions: 2, replication: 1, retention: 7d}\nteams:\n  acme:\n"+
		"    sources: {github: {preset: github, secrets: [%s]}}\n    destinations: {agent: {type: http, url: \"https://example.com/\"}}\n"+
		"    subscriptions: {triage: {sources: [github], actions: [{name: run, to: agent}]}}\n", cluster.ListenAddrs()[0], "0123456789abcdef")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (code int, out, errs bytes.Buffer) {
		code = Main(t.Context(), append(args, "-c", file), Options{Stdout: &out, Stderr: &errs})
		return code, out, errs
	}
	for name, args := range map[string][]string{"topics-list": {"topics", "list"}, "topics-get": {"topics", "get", "quarantine.acme.github"}} {
		var all strings.Builder
		for _, form := range formsOf(name) {
			code, out, errs := run(append(args, "-o", form)...)
			if code != 0 {
				t.Errorf("%v: exit code %d: %s", args, code, errs.String())
			}
			if name == "topics-get" || form != "id" {
				wellFormed(t, fmt.Sprint(args), form, out.Bytes())
			}
			fmt.Fprintf(&all, "$ forebay %s -o %s\n%s\n", strings.Join(args, " "), form, out.String()+errs.String())
		}
		golden(t, filepath.Join("testdata", "outputs", name+".txt"), all.String())
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"list --kind events -o id", 0, "events.acme.github\n"},
		{"list --team acm", exitNotFound, "did you mean acme?"},
		{"get events.acme.githb", exitNotFound, "did you mean events.acme.github?"},
		{"get dead.acme.triage", 0, "missing"},
	} {
		if code, out, errs := run(append([]string{"topics"}, strings.Fields(tt.args)...)...); code != tt.code || !strings.Contains(out.String()+errs.String(), tt.want) {
			t.Errorf("%s: exit code %d\n%s%s", tt.args, code, out.String(), errs.String())
		}
	}
}
