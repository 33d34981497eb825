package integration

import (
	"bytes"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestOpenWorkOutlivesTheLog has topics that do not keep their records for long, an agent that fails one entity and refuses another, and
// events that wait behind a gap, with a deadline or parked. At half of that time the ledger has it all. Then the broker has deleted every
// record and the process starts again, with nothing in memory: what was open runs all the same, in order; what is parked still has its body,
// and runs after its filler, or when an operator says so.
func TestOpenWorkOutlivesTheLog(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{gap: "{wait: 10m, then: park, max_events: {entity: 3}}"})
	r.edit("retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}", "retry: {attempts: 1000, within: 10m, min: 200ms, max: 1s}")
	issuesLog, ordersLog := watchLog(t, b, "events."+r.team+".github"), watchLog(t, b, "events."+r.team+".orders")
	issuesLog.keep("50000")

	var recovered atomic.Bool
	failing, refused := issue(7, 1, 1), issue(7, 2, 1)
	r.agent.answer = func(c call) int {
		switch {
		case c.event == failing.id && !recovered.Load():
			return http.StatusServiceUnavailable
		case c.event == refused.id:
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	}
	p := r.serve("intake,stream")
	const each = 6
	behind := []delivery{order("o-1", 3), order("o-1", 4), order("o-1", 6), order("o-2", 3), order("o-2", 5)}
	parked := []delivery{order("o-3", 3), order("o-3", 4), order("o-3", 5), order("o-3", 7)}
	for _, line := range lines(3, each, issues) {
		r.deliver(line...)
	}
	r.deliver(order("o-1", 1), order("o-2", 1), order("o-3", 1))
	r.deliver(slices.Concat(behind, parked)...)
	waitItems(t, r, p, each, "--subscription", "triage", "--status", "done") // the third entity does not notice
	waitItems(t, r, p, 1, "--status", "dead_letter")
	waitItems(t, r, p, len(behind), "--decision", "buffered")
	waitItems(t, r, p, len(parked), "--decision", "parked")
	db := connect(t, r.dbURL)
	copied := 0 // payloads of what is open
	if !rig.Until(2*time.Minute, func() bool {
		copied = count(t, db, `SELECT count(*) FROM forebay.actions WHERE packed IS NOT NULL`)
		return copied == 2*each
	}) {
		t.Fatalf("%d payloads are copied, want %d", copied, 2*each)
	}
	issuesLog.empty(3 * each)
	ordersLog.empty(12)
	p.stop()
	p = r.serve("intake,stream")
	recovered.Store(true)

	waitItems(t, r, p, 2*each, "--subscription", "triage", "--status", "done")
	// What is parked was never asked for again; its body is there for whoever redrives it.
	hasBody := func(subscription, source string, d delivery) {
		t.Helper()
		if out, err := r.try(p.operator, "inbox", "raw", r.team+"/"+subscription+"/"+source+"/"+d.id); err != nil || !bytes.Equal(out, d.body) {
			t.Errorf("the body of %s: %q %v", d.id, out, err)
		}
	}
	for _, d := range slices.Concat(behind, parked) {
		hasBody("fulfil", "orders", d)
	}
	r.deliver(order("o-1", 2), order("o-1", 5), order("o-3", 2), order("o-3", 6))
	got, err := r.redrive(p, "orders", "o-2-3", "--reason", "the shop says they were never sent")
	if err != nil || len(got) != 1 || got["o-2-3"].Detail != "2 of 2 events run" {
		t.Errorf("%+v %v", got, err)
	}
	waitItems(t, r, p, 16, "--subscription", "fulfil", "--status", "done")
	told := r.sender.acceptedByID()
	for n := 1; n <= each; n++ {
		d := issue(7, 2, n)
		hasBody("triage", "github", d)
		if n > 1 && r.agent.seen(d.id) > 0 {
			t.Errorf("%s ran, behind a dead one", d.id)
		}
		delete(told, d.id)
	}
	judge(told, slices.DeleteFunc(r.agent.snapshot(), func(c call) bool { return c.entity == refused.entity })).require(t)
}

// edit changes the config file.
func (r *deployment) edit(old, new string) {
	r.t.Helper()
	text, err := os.ReadFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		r.t.Fatalf("the config does not say %s", old)
	}
	if err := os.WriteFile(r.config, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// topicLog is a topic as the broker holds it.
type topicLog struct {
	t     *testing.T
	topic string
	adm   *kadm.Client
}

func watchLog(t *testing.T, b rig.Broker, topic string) *topicLog {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &topicLog{t, topic, kadm.NewClient(cl)}
}

// keep sets the topic's retention in milliseconds, as an operator does with kafka-configs.
func (l *topicLog) keep(retention string) {
	l.t.Helper()
	got, err := l.adm.AlterTopicConfigs(l.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, l.topic)
	if err == nil {
		_, err = got.On(l.topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// empty has the broker delete the n records that the topic has had. What comes then is kept.
func (l *topicLog) empty(n int64) {
	l.t.Helper()
	l.keep("1000")
	defer l.keep("86400000")
	var had, has int64
	if !rig.Until(2*time.Minute, func() bool {
		had, has = 0, 0
		starts, err := l.adm.ListStartOffsets(l.t.Context(), l.topic)
		if err != nil {
			l.t.Fatal(err)
		}
		ends, err := l.adm.ListEndOffsets(l.t.Context(), l.topic)
		if err != nil {
			l.t.Fatal(err)
		}
		ends.Each(func(o kadm.ListedOffset) {
			start, _ := starts.Lookup(o.Topic, o.Partition)
			had += o.Offset
			has += o.Offset - start.Offset
		})
		return had == n && has == 0
	}) {
		l.t.Fatalf("the log of %s still has %d of %d records", l.topic, has, had)
	}
}
