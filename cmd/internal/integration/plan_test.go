package integration

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

type plannedTopic struct {
	Topic, Action string
	Settings      []struct {
		Name, Is, Want, Why string
		Set                 bool
	}
}

// plan runs `topics plan --check` and returns what it says of the topics of the deployment's team, and the exit code.
func (r *deployment) plan() (list []plannedTopic, code int) {
	r.t.Helper()
	out, err := r.try("127.0.0.1:0", "topics", "plan", "--check", "-o", "json", "-c", r.config)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	}
	var page struct{ Items []plannedTopic }
	if err := json.Unmarshal(out, &page); err != nil {
		r.t.Fatalf("topics plan: %v in %s", err, out)
	}
	for _, i := range page.Items {
		if strings.Contains(i.Topic, "."+r.team+".") {
			list = append(list, i)
		}
	}
	return list, code
}

// TestPlanOfTopics: plan tells a pipeline by its exit code what apply would do, apply does that and nothing else, and the brokers say so.
func TestPlanOfTopics(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	if list, code := r.plan(); code != 0 {
		t.Fatalf("after apply plan --check ends with %d: %+v", code, list)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "events."+r.team+".old"); err != nil {
		t.Fatal(err)
	}
	r.edit("replication: 1, retention: 1d}", "replication: 1, retention: 2d, compression: zstd}")
	r.edit("      github: {preset: github,", "      github: {preset: github, topics: {partitions: 7},")
	planned, code := r.plan()
	actions := map[string]string{}
	for _, p := range planned {
		actions[strings.ReplaceAll(p.Topic, r.team, "TEAM")] = p.Action
	}
	if code != 5 || actions["events.TEAM.old"] != "unknown" || actions["events.TEAM.github"] != "refused" || actions["events.TEAM.orders"] != "alter" {
		t.Errorf("plan --check ends with %d and has %v", code, actions)
	}
	if _, err := r.try("127.0.0.1:0", "topics", "apply", "-c", r.config); err == nil || !strings.Contains(err.Error(), "topics rekey events."+r.team+".github --partitions 7") {
		t.Errorf("apply of another number of partitions: %v", err)
	}
	for _, p := range planned {
		configs, err := adm.DescribeTopicConfigs(t.Context(), p.Topic)
		if err != nil || configs[0].Err != nil {
			t.Fatal(err, configs)
		}
		is := map[string]string{}
		for _, c := range configs[0].Configs {
			is[c.Key] = c.MaybeValue()
		}
		for _, s := range p.Settings {
			want := s.Is
			if s.Set {
				want = s.Want
			}
			if got, known := is[s.Name]; known && got != want {
				t.Errorf("%s of %s is %s, planned was %+v", s.Name, p.Topic, got, s)
			}
		}
		if p.Topic == "events."+r.team+".orders" && (is["retention.ms"] != "172800000" || is["compression.type"] != "zstd") {
			t.Errorf("%s has retention.ms %s and compression.type %s", p.Topic, is["retention.ms"], is["compression.type"])
		}
	}
	topics, err := adm.ListTopics(t.Context(), "events."+r.team+".github")
	if n := len(topics["events."+r.team+".github"].Partitions); err != nil || n != 6 {
		t.Errorf("the topic has %d partitions, it had 6: %v", n, err)
	}
	r.edit("topics: {partitions: 7},", "")
	r.command("topics", "apply", "-c", r.config)
	if list, code := r.plan(); code != 0 {
		t.Errorf("after apply plan --check ends with %d: %+v", code, list)
	}
}
