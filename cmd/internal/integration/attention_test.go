package integration

import (
	"encoding/json"
	"maps"
	"net/http"
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

// attention runs `forebay attention` and gives its rows by kind.
func (r *deployment) attention(p *process, args ...string) (byKind map[string][]attentionItem, list attentionList) {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"attention", "--team", r.team, "-o", "json"}, args...)...)
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		r.t.Fatalf("attention: %v in %s", err, out)
	}
	byKind = map[string][]attentionItem{}
	for _, i := range list.Items {
		if i.Since == nil || time.Since(*i.Since) > time.Hour || i.ID == "" || i.Command == "" {
			r.t.Errorf("a row lacks something: %+v", i)
		}
		byKind[i.Kind] = append(byKind[i.Kind], i)
	}
	for _, c := range list.Counts {
		if int(c.Count) != len(byKind[c.Kind]) {
			r.t.Errorf("%d of %s are counted, and %d listed", c.Count, c.Kind, len(byKind[c.Kind]))
		}
	}
	return byKind, list
}

// waitAttention waits until what is listed is so many rows of each kind, and nothing else.
func (r *deployment) waitAttention(p *process, want map[string]int) map[string][]attentionItem {
	r.t.Helper()
	var got map[string][]attentionItem
	if !rig.Until(90*time.Second, func() bool {
		var list attentionList
		got, list = r.attention(p)
		return len(list.Unknown) == 0 && maps.EqualFunc(got, want, func(rows []attentionItem, n int) bool { return len(rows) == n })
	}) {
		r.t.Fatalf("what waits is %+v, want %v", got, want)
	}
	return got
}

// paste runs a command as it stands in a row.
func (r *deployment) paste(p *process, command string) {
	r.t.Helper()
	words := strings.Fields(command)
	if words[0] != "forebay" {
		r.t.Fatalf("%q is no command of forebay's", command)
	}
	if out, err := r.try(p.operator, words[1:]...); err != nil {
		r.t.Errorf("%s: %s %v", command, out, err)
	}
}

// subscriptionLine is what `subscriptions list` says of one of the team's subscriptions.
func (r *deployment) subscriptionLine(p *process, name string) string {
	r.t.Helper()
	out, err := r.try(p.operator, "subscriptions", "list")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, r.team+"."+name+" ") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	r.t.Fatalf("no %s in %s", name, out)
	return ""
}

// TestAttention makes one thing of each kind wait for an operator, as it comes about outside: all of it is in one list, with since when and
// a command that works as it stands there, and after the command the row is gone.
func TestAttention(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{gap: "{wait: 500ms, then: park}"})
		r.edit("start: first\n", "start: first\n        equal: hold\n")
		var mended atomic.Bool
		r.agent.answer = func(c call) int {
			if c.entity == "dead" && !mended.Load() {
				return http.StatusUnprocessableEntity
			}
			return http.StatusOK
		}
		p := r.serve("intake,stream")
		if out, err := r.try(p.operator, "attention", "--team", "nobody"); err == nil {
			t.Errorf("a team that does not exist has nothing that waits: %s", out)
		}
		r.waitAttention(p, map[string]int{})
		until(t, "all partitions run", func() bool {
			return containsAll(r.subscriptionLine(p, "fulfil"), "true", "6 running, 0 stopped, 0 unread 0")
		})
		other := order("same", 1)
		other.body = []byte(strings.Replace(string(other.body), "{", `{"note":"another",`, 1))
		for _, d := range []delivery{order("gap", 1), order("gap", 3), order("gap", 4), order("same", 1), other, order("held", 1), twin(order("held", 1), "held-twin"), order("dead", 1)} {
			if err := r.sender.deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		r.junk(b, "events."+r.team+".orders")
		r.forge(p, 5)
		unusable := order("unusable", 1)
		unusable.body = []byte(`{"kind":"com.shop.order.changed","order":{"id":"unusable","rev":1}}`) // without the type
		if status := r.sender.post(t.Context(), unusable); status != http.StatusAccepted {
			t.Fatalf("what cannot be named is answered %d", status)
		}
		if out, err := r.try(p.operator, "destinations", "pause", r.team+"/agent", "--reason", "test"); err != nil {
			t.Fatalf("%s %v", out, err)
		}
		rows := r.waitAttention(p, map[string]int{"parked": 1, "conflict": 1, "held": 1, "dead_letter": 1, "quarantined_record": 1, "paused_destination": 1, "unmatched_keys": 1,
			"quarantined_delivery": 1})
		if got := rows["parked"][0]; got.Entity != "gap" || got.Events != 2 || got.Reason != "gap_expired" {
			t.Errorf("%+v", got)
		}
		for kind := range rows {
			until(t, "the gauge of "+kind+" is 1", func() bool { return r.scrape(t, p.operator, `forebay_attention_items{kind="`+kind+`"}`) == "1" })
		}
		if line := r.subscriptionLine(p, "fulfil"); !containsAll(line, "true", "6 running, 0 stopped, 0 unread 5") {
			t.Error(line)
		}
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
	})
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

// readyz asks a process whether it is ready, or whether one of its roles is.
func (p *process) readyz(query string) (status int) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.operator + "/readyz" + query)
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestAttentionOfStoppedPartitions: a partition that is stopped, and one that nobody reads because the topic has grown, are listed with
// what to run; subscriptions list and readiness tell, and the intake in the same process stays ready.
func TestAttentionOfStoppedPartitions(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
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
		until(t, "it is said of the subscription", func() bool {
			return containsAll(r.subscriptionLine(p, "triage"), "false", "5 running, 1 stopped, 0 unread 1", "1 of 6")
		})
		if p.readyz("") != http.StatusOK { // what rolls out a mend must not wait for it
			t.Error("not ready as soon as a partition is stopped")
		}
		if !rig.Until(100*time.Second, func() bool { return p.readyz("") == http.StatusServiceUnavailable }) {
			t.Error("still ready after a minute and more")
		}
		if stream, intake := p.readyz("?role=stream"), p.readyz("?role=intake"); stream != 503 || intake != 200 {
			t.Errorf("stream %d, intake %d", stream, intake)
		}
		r.paste(p, rows["stopped_partition"][0].Command)
		r.waitAttention(p, map[string]int{})
		until(t, "the process is ready again", func() bool { return p.readyz("") == http.StatusOK })
		until(t, "all partitions run", func() bool {
			return containsAll(r.subscriptionLine(p, "triage"), "true", "6 running, 0 stopped, 0 unread 0")
		})

		// A gap whose wait nobody ends, because the topic has grown meanwhile.
		orders := "events." + r.team + ".orders"
		for _, n := range []int{1, 3} {
			if err := r.sender.deliver(t.Context(), order("o-1", n)); err != nil {
				t.Fatal(err)
			}
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
		until(t, "it is said of the subscription", func() bool {
			return containsAll(r.subscriptionLine(p, "fulfil"), "false", "0 running, 6 stopped, 2 unread 9")
		})
		log := p.output()
		if !containsAll(log, `msg="waits for an operator" kind=unread_partition`, `msg="waits for an operator" kind=overdue_gap`) {
			t.Error("the log does not tell")
		}
		r.paste(p, rows["overdue_gap"][0].Command)
		r.waitAttention(p, map[string]int{"stopped_partition": 6, "unread_partition": 2})
		waitItems(t, r, p, 2, "--subscription", "fulfil", "--status", "done")
		r.paste(p, rows["unread_partition"][0].Command)
		p.stop()
		r.paste(p, rows["unread_partition"][0].Command+" --run")
		r.edit("      orders:\n", "      orders:\n        topic: "+orders+".8\n        topics: {partitions: 8}\n")
		p = r.serve("intake,stream")
		r.waitAttention(p, map[string]int{})
		until(t, "all partitions run", func() bool {
			return containsAll(r.subscriptionLine(p, "fulfil"), "true", "8 running, 0 stopped, 0 unread 0")
		})
	})
}
