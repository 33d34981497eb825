package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// A topic that keeps events for another time than is configured is no reason not to start, and is told once at the start. What is told of it, and
// what `topics apply` does with it, is tested in package topics.
func TestTopicsOfAnotherRetention(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.alterTopic("events.acme.orders", "retention.ms", "3600000")   // an hour, and a day is configured
	r.alterTopic("events.acme.github", "retention.ms", "864000000") // ten days
	var said lockedBuffer
	r.log = slog.New(slog.NewTextHandler(&said, nil))
	p := r.run(config.RoleIntake)
	for _, want := range []string{"events.acme.github keeps events for 10d", "events.acme.orders keeps events for 1h"} {
		if got := said.String(); strings.Count(got, want) != 1 || !strings.Contains(got, "level=WARN") {
			t.Errorf("the log does not say once: %s\n%s", want, got)
		}
	}
	p.clean()
}

// alterTopic sets a key of a topic's configuration.
func (r *deployment) alterTopic(topic, key, value string) {
	r.t.Helper()
	done, err := kadm.NewClient(r.client()).AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err != nil || len(done) != 1 || done[0].Err != nil {
		r.t.Fatalf("%+v %v", done, err)
	}
}
