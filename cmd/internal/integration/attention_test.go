package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

type attentionItem struct {
	Kind, ID, Reason, Detail, Command, Entity, Topic string
	Since                                            *time.Time
	Events                                           int64
	Partition                                        *int32
}

type attentionList struct {
	Items  []attentionItem
	Counts []struct {
		Kind  string
		Count int64
	}
	Unknown []struct{ Kind, Why string }
}

// waitAttention waits until what is listed is so many rows of each kind, and nothing else, and returns what `forebay attention` says of them.
func (r *deployment) waitAttention(p *process, want map[string]int) map[string][]attentionItem {
	r.t.Helper()
	var list attentionList
	var err error
	if !rig.Until(90*time.Second, func() bool {
		list = attentionList{}
		err = p.get("/v1/attention", url.Values{"team": {r.team}}, &list)
		counts := map[string]int{}
		for _, i := range list.Items {
			counts[i.Kind]++
		}
		return err == nil && len(list.Unknown) == 0 && maps.Equal(counts, want)
	}) {
		r.t.Fatalf("what waits is %+v %v, want %v", list, err, want)
	}
	list = attentionList{}
	if err := json.Unmarshal(r.ask(p, "attention", "--team", r.team, "-o", "json"), &list); err != nil {
		r.t.Fatal(err)
	}
	byKind := map[string][]attentionItem{}
	for _, i := range list.Items {
		if i.Since == nil || time.Since(*i.Since) > time.Hour || i.ID == "" || i.Command == "" {
			r.t.Errorf("a row lacks something: %+v", i)
		}
		byKind[i.Kind] = append(byKind[i.Kind], i)
	}
	counted := 0
	for _, c := range list.Counts {
		if counted += int(c.Count); int(c.Count) != len(byKind[c.Kind]) {
			r.t.Errorf("%d of %s are counted, and %d listed", c.Count, c.Kind, len(byKind[c.Kind]))
		}
	}
	if counted != len(list.Items) {
		r.t.Errorf("%d are counted, and %d listed", counted, len(list.Items))
	}
	return byKind
}

// paste runs a command as it stands in a row.
func (r *deployment) paste(p *process, command string) {
	r.t.Helper()
	words := strings.Fields(command)
	if words[0] != "forebay" {
		r.t.Fatalf("%q is no command of forebay's", command)
	}
	r.ask(p, words[1:]...)
}

// waitPartitions waits until a subscription has so many partitions that run, that are stopped and that nobody reads, and so many rows of attention.
func (r *deployment) waitPartitions(p *process, name string, running, stopped, unread, attention int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%s has %d partitions that run, %d stopped, %d unread and %d rows", name, running, stopped, unread, attention), func() bool {
		var item struct {
			Ready     bool
			Attention int
			Counts    struct{ Running, Stopped, Unread int } `json:"partition_counts"`
		}
		err := p.get("/v1/subscriptions/"+r.team+"/"+name, nil, &item)
		return err == nil && item.Counts.Running == running && item.Counts.Stopped == stopped && item.Counts.Unread == unread &&
			item.Attention == attention && item.Ready == (stopped+unread == 0)
	})
}

// TestAttention makes one thing of each kind wait for an operator, as it comes about outside: all of it is in one list, with since when and
// a command that works as it stands there, and after the command the row is gone.
func TestAttention(t *testing.T) {
	t.Parallel()
	b := rig.Fake(t)
	r := deploy(t, b, options{gap: "{wait: 500ms, then: park}"})
	r.edit("start: first\n", "start: first\n        equal: hold\n")
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.entity == "dead" && !mended.Load() })
	p := r.serve("intake,stream")
	if out, err := r.try(p.operator, "attention", "--team", "nobody"); err == nil {
		t.Errorf("a team that does not exist has nothing that waits: %s", out)
	}
	r.waitAttention(p, map[string]int{})
	r.waitPartitions(p, "fulfil", 6, 0, 0, 0)
	other := order("same", 1)
	other.body = []byte(strings.Replace(string(other.body), "{", `{"note":"another",`, 1))
	r.deliver(order("gap", 1), order("gap", 3), order("gap", 4), order("same", 1), other, order("held", 1), twin(order("held", 1), "held-twin"), order("dead", 1))
	r.junk(b, "events."+r.team+".orders")
	r.forge(p, 5)
	unusable := order("unusable", 1)
	unusable.body = []byte(`{"kind":"com.shop.order.changed","order":{"id":"unusable","rev":1}}`) // without the type
	if status := r.sender.post(t.Context(), unusable); status != http.StatusAccepted {
		t.Fatalf("what cannot be named is answered %d", status)
	}
	r.ask(p, "destinations", "pause", r.team+"/agent", "--reason", "test")
	rows := r.waitAttention(p, map[string]int{"parked": 1, "conflict": 1, "held": 1, "dead_letter": 1, "quarantined_record": 1, "paused_destination": 1, "unmatched_keys": 1,
		"quarantined_delivery": 1})
	if got := rows["parked"][0]; got.Entity != "gap" || got.Events != 2 || got.Reason != "gap_expired" {
		t.Errorf("%+v", got)
	}
	for kind := range rows {
		until(t, "the gauge of "+kind+" is 1", func() bool { return p.metric(`forebay_attention_items{kind="`+kind+`"}`) == "1" })
	}
	r.waitPartitions(p, "fulfil", 6, 0, 0, 5)
	ids, err := r.try(p.operator, "attention", "--team", r.team, "-o", "id")
	if err != nil || len(strings.Fields(string(ids))) != 8 || !strings.Contains(string(ids), r.team+"/fulfil/orders/gap-3\n") {
		t.Errorf("%s %v", ids, err)
	}
	// One after the other: the row of what was dealt with goes, the others stay.
	left := map[string]int{}
	for kind := range rows {
		left[kind] = 1
	}
	mended.Store(true)
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		command := rows[kind][0].Command
		switch kind {
		case "quarantined_delivery": // its command helps once the mapping is mended
			words := strings.Fields(command)[1:]
			if out, err := r.try(p.operator, words...); err == nil {
				t.Errorf("it is redriven although nobody understands it: %s", out)
			}
			r.edit("type: /type\n", "type: /kind\n")
			until(t, command, func() bool { _, err := r.try(p.operator, words...); return err == nil })
		case "unmatched_keys": // as its row says
			r.edit(`secrets: ["${env:GITHUB_SECRET}"]`, `secrets: ["${env:GITHUB_SECRET}", "the provider's of now"]`)
			r.paste(p, command)
		default:
			r.paste(p, command)
		}
		delete(left, kind)
		r.waitAttention(p, left)
	}
	if out, err := r.try(p.operator, "attention", "--team", r.team); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%s %v", out, err)
	}
}

// junk writes a record that is no event into a topic.
func (r *deployment) junk(b rig.Broker, topic string) {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(r.t.Context(), &kgo.Record{Topic: topic, Key: []byte("junk"), Value: []byte("no event")}).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// forge delivers n times, signed with a secret that is not the source's.
func (r *deployment) forge(p *process, n int) {
	r.t.Helper()
	for i := range n {
		d := issue(8, 1, i+1)
		req := d.request(r.t.Context(), p.intake, r.team)
		req.Header.Set("X-Hub-Signature-256", "sha256="+sign("another", d.body))
		resp, err := r.sender.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			r.t.Errorf("forged, and answered %d", resp.StatusCode)
		}
	}
}

// TestAttentionOfStoppedPartitions: a partition that is stopped, and one that nobody reads because the topic has grown, are listed with
// what to run, and its subscription says so.
func TestAttentionOfStoppedPartitions(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{gap: "{wait: 5s, then: park}"})
	p := r.serve("intake,stream")
	const entities = 30
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	p.stop()
	intake := r.serve("intake")
	r.deliverAll(entities, 2, issues)
	intake.stop()
	adm, topic := admin(t, b), "events."+r.team+".github"
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	var to kadm.Offsets
	end, _ := ends.Lookup(topic, 0)
	to.Add(kadm.Offset{Topic: topic, Partition: 0, At: end.Offset - 1})
	if _, err := adm.DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	p = r.serve("intake,stream")
	rows := r.waitAttention(p, map[string]int{"stopped_partition": 1})
	if got := rows["stopped_partition"][0]; got.Reason != "below_log_start" || got.Topic != topic || *got.Partition != 0 {
		t.Errorf("%+v", got)
	}
	r.waitPartitions(p, "triage", 5, 1, 0, 1)
	r.paste(p, rows["stopped_partition"][0].Command)
	r.waitAttention(p, map[string]int{})
	r.waitPartitions(p, "triage", 6, 0, 0, 0)

	// A gap whose wait nobody ends, because the topic has grown meanwhile.
	orders := "events." + r.team + ".orders"
	for _, n := range []int{1, 3} {
		r.deliver(order("o-1", n))
	}
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--decision", "buffered")
	if _, err := adm.UpdatePartitions(t.Context(), 8, orders); err != nil {
		t.Fatal(err)
	}
	rows = r.waitAttention(p, map[string]int{"stopped_partition": 6, "unread_partition": 2, "overdue_gap": 1})
	for _, row := range append(rows["stopped_partition"], rows["unread_partition"]...) {
		if want := "forebay topics rekey " + orders + " --partitions 8 -c " + r.config; row.Command != want {
			t.Errorf("%q, want %q", row.Command, want)
		}
	}
	r.waitPartitions(p, "fulfil", 0, 6, 2, 9)
	r.paste(p, rows["overdue_gap"][0].Command)
	r.waitAttention(p, map[string]int{"stopped_partition": 6, "unread_partition": 2})
	waitItems(t, r, p, 2, "--subscription", "fulfil", "--status", "done")
	r.paste(p, rows["unread_partition"][0].Command)
	p.stop()
	r.paste(p, rows["unread_partition"][0].Command+" --run")
	r.edit("      orders:\n", "      orders:\n        topic: "+orders+".8\n        topics: {partitions: 8}\n")
	p = r.serve("intake,stream")
	r.waitAttention(p, map[string]int{})
	r.waitPartitions(p, "fulfil", 8, 0, 0, 0)
}
