package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/inbox"
)

// TestRenamedSourceLeavesNothingUnsaid: what was accepted under the name that a source had before is told of for as long as nobody reads it, also in
// another process, and not any more once the file has the source again and all of it is done.
func TestRenamedSourceLeavesNothingUnsaid(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("waits", 2)) // for its first
	p.item("fulfil", "orders", "waits-2", "buffered", "")
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		p.accepted("orders", "orders-secret", order(name, 1))
	}
	left := func(p *process, unread, waiting string) bool {
		facts, err := p.app.stream.readPartitions(t.Context(), r.client())
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for key, why := range facts.left {
			if key.of.name != "fulfil" || key.topic != "events.acme.orders" {
				t.Errorf("%+v: %s", key, why)
			}
			text += why
		}
		return (unread == "" || strings.Contains(text, unread)) && (waiting == "" || strings.Contains(text, waiting)) && (unread+waiting != "" || text == "")
	}
	if !left(p, "", "") {
		t.Error("what a subscription reads was left")
	}
	whole := r.text
	r.text = strings.NewReplacer("      orders:\n", "      purchases:\n", "[orders]", "[purchases]").Replace(r.text)
	r.createTopics()
	r.reload(p, roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "records are unread", "1 events wait") }) {
		t.Fatal("what was left is not told of")
	}
	p.clean()
	p = r.run(roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "records are unread", "1 events wait") }) { // what is open may not have been counted in time
		t.Error("another process does not tell of it")
	}
	if _, err := p.api.ResumeSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	r.text = strings.Replace(whole, "{sources: [orders]", "{sources: [orders, purchases]", 1)
	r.text = strings.Replace(r.text, "      orders:\n", "      purchases: {preset: github, secrets: [third-secret]}\n      orders:\n", 1)
	r.reload(p, roles...)
	p.accepted("orders", "orders-secret", order("waits", 1))
	to.wait(t, 5)
	for _, event := range []string{"a-1", "b-1", "c-1", "waits-1", "waits-2"} {
		p.item("fulfil", "orders", event, "applied", "done")
	}
	r.text = strings.NewReplacer("      orders:\n", "      old:\n        topic: events.acme.orders\n", "[orders, purchases]", "[purchases]").Replace(r.text)
	r.reload(p, roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "", "") }) {
		t.Error("what is done was left")
	}
	p.clean()
}

// TestRefusedTopicsAreNoOtherTeams: a topic that the login may not look at, be it read or left, hides none of the others.
func TestRefusedTopicsAreNoOtherTeams(t *testing.T) {
	t.Parallel()
	var may []kfake.ACL
	for _, name := range []string{"events.acme.orders", "events.acme.purchases"} {
		may = append(may, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true})
	}
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), false, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "secret"), kfake.User("PLAIN", "reader", "secret", may...))
	r.text = strings.Replace(r.text, "session_timeout: 6s}", "session_timeout: 6s, sasl: {mechanism: PLAIN, user: root, password: secret}}", 1)
	r.createTopics()
	p := r.run(config.RoleStream)
	as := func(user string) *kgo.Client {
		return r.client(kgo.SASL(plain.Auth{User: user, Pass: "secret"}.AsMechanism()), kgo.WithHooks(record.User("user "+user)))
	}
	root, reader := as("root"), as("reader")
	read := func(cl *kgo.Client) partitionFacts {
		facts, err := p.app.stream.readPartitions(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	left := func(f partitionFacts) (topics []string) {
		for key := range f.left {
			topics = append(topics, key.topic)
		}
		slices.Sort(topics)
		return topics
	}
	if !rig.Until(time.Minute, func() bool { return len(read(root).claimed) == 6 }) {
		t.Fatal("not all partitions are claimed")
	}
	r.text = strings.NewReplacer("      orders:\n", "      purchases:\n", "[orders]", "[purchases]", "      github:", "      hub:", "[github]", "[hub]").Replace(r.text)
	r.createTopics()
	r.reload(p, config.RoleStream)
	for _, name := range []string{"events.acme.github", "events.acme.orders"} {
		if err := root.ProduceSync(t.Context(), &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if !rig.Until(time.Minute, func() bool { return len(left(read(root))) == 2 }) {
		t.Fatalf("left: %v", left(read(root)))
	}
	f := read(reader)
	if got := left(f); !slices.Equal(got, []string{"events.acme.orders"}) {
		t.Errorf("left: %v", got)
	}
	if d := cmp.Diff(map[string]int32{"events.acme.purchases": 3}, f.counts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"events.acme.hub": "user reader has no right Describe on topic events.acme.hub"}, f.refused); d != "" {
		t.Error(d)
	}
	p.clean()
}

// What was left is unread, whichever process looks, and keeps none of them from being ready.
func TestWhatWasLeftIsUnread(t *testing.T) {
	t.Parallel()
	at, now := nameInTeam{"acme", "triage"}, time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	key := partitionKey{at, "before", 1}
	f := partitionFacts{claimed: map[partitionKey]bool{{at, "t", 0}: true}, counts: map[string]int32{"t": 1},
		left: map[partitionKey]string{key: "3 records", {nameInTeam{"beta", "gone"}, "x", 0}: "of a subscription that is gone"}}
	first, topics := map[partitionKey]time.Time{}, map[nameInTeam][]string{at: {"t"}}
	if got := f.judge(topics, first, now); len(got.standing) != 0 {
		t.Errorf("told at once, though its process may only be stopping: %+v", got.standing)
	}
	got := f.judge(topics, first, now.Add(unreadAfter))
	if d := cmp.Diff(map[nameInTeam]api.PartitionCounts{at: {Total: 2, Running: 1, Unread: 1}}, got.counts); d != "" {
		t.Error(d)
	}
	if len(got.standing) != 1 || got.standing[0].mine {
		t.Fatalf("%+v", got.standing)
	}
	row := standingRow(&got.standing[0], "")
	if row.Kind != api.KindUnread || row.Reason != reasonLeft || row.Topic != "before" || *row.Partition != 1 || row.Detail != "3 records" {
		t.Errorf("%+v", row)
	}
}

// What could not be counted is not nothing: its row stays.
func TestWhatIsLeftAndNotCounted(t *testing.T) {
	t.Parallel()
	if got := leftText(0, nil); !strings.Contains(got, "could not be counted") {
		t.Errorf("not counted: %q", got)
	}
	if got := leftText(0, &inbox.Counts{}); got != "" {
		t.Errorf("nothing: %q", got)
	}
}
