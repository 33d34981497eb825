package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
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
		facts, err := p.app.stream.readPartitions(t.Context(), kadm.NewClient(r.client()))
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
