package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
)

// A topic that keeps events for another time than is configured is no reason not to start, and is told at the start and by `topics apply`:
// which topic, what it has and should have, and what to do. Longer is set by `topics apply`; shorter would delete events.
func TestTopicsOfAnotherRetention(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", true)
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	keep := func(topic, ms string) {
		t.Helper()
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, topic); err != nil {
			t.Fatal(err)
		}
	}
	keep("events.acme.orders", "3600000")   // an hour, and a day is configured
	keep("events.acme.github", "864000000") // ten days
	const longer = "events.acme.github keeps events for 10d, configured is 1d: shortening that would delete events, so it stays; write topics: {retention: 10d} for this source, or " +
		"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name events.acme.github --add-config retention.ms=86400000"
	var said lockedBuffer
	r.log = slog.New(slog.NewTextHandler(&said, nil))
	p := r.start(config.RoleIntake)
	p.ready()
	for _, want := range []string{longer, "events.acme.orders keeps events for 1h, configured is 1d: what is read later than that is gone; run `forebay topics apply -c forebay.yaml`, which lengthens it"} {
		if got := said.String(); strings.Count(got, want) != 1 || !strings.Contains(got, "level=WARN") {
			t.Errorf("the log does not say once: %s\n%s", want, got)
		}
	}
	p.clean()

	c := r.load(config.RoleTopics)
	changes, err := topics.Apply(t.Context(), adm, topics.Wanted(c, c.MaxBody), false)
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]topics.Change{
		"events.acme.github": {Action: topics.Differs, Detail: strings.TrimPrefix(longer, "events.acme.github ")},
		"events.acme.orders": {Action: topics.Alter, Detail: "retention.ms 3600000 -> 86400000 (1h -> 1d)"},
	} {
		i := slices.IndexFunc(changes, func(c topics.Change) bool { return c.Topic == topic })
		if i < 0 || changes[i].Action != want.Action || changes[i].Detail != want.Detail {
			t.Errorf("%s: %+v, want %+v", topic, changes, want)
		}
	}
	notes, err := topics.Check(t.Context(), adm, topics.Wanted(c, c.MaxBody), "forebay.yaml")
	if err != nil || len(notes) != 1 || notes[0] != longer {
		t.Errorf("what was lengthened is told still, or what is left is not: %q %v", notes, err)
	}
}
