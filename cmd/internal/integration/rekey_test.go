package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRekeyToMorePartitions is the way out of a partition count: plan, hand over and switch with the product's own command,
// and a source goes on in its new topic where it stood. What was unread is read there, versions go on, what is stale
// stays stale, nothing runs again. What waits for a gap goes along, and the fillers release it, unread when it is copied or delivered after
// the switch.
func TestRekeyToMorePartitions(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{gap: "{wait: 10m, then: skip}"})
	from := "events." + r.team + ".orders"
	to := from + ".10"
	intake, stream := r.serve("intake"), r.serve("stream")
	const entities, gaps, early = 25, 10, 6
	deliverGaps := func(rev, first, last int) {
		t.Helper()
		for e := first; e <= last; e++ {
			r.deliver(order(fmt.Sprintf("gap-%d", e), rev))
		}
	}
	deliver := func(rev int) {
		t.Helper()
		for e := 1; e <= entities; e++ {
			r.deliver(order(orderName(e), rev))
		}
	}
	deliver(1)
	deliver(2)
	r.agent.waitActed(t, 2*entities, time.Minute)
	waitItems(t, r, stream, 2*entities, "--subscription", "fulfil", "--status", "done")

	deliverGaps(1, 1, gaps)
	deliverGaps(3, 1, gaps)
	waitItems(t, r, stream, gaps, "--subscription", "fulfil", "--decision", "buffered")
	waitItems(t, r, stream, 2*entities+gaps, "--subscription", "fulfil", "--status", "done")

	if s := r.rekey(from); s["stop"].State != "blocked" || !strings.Contains(s["stop"].Detail, r.team+".fulfil (1 members)") || s["switch"].State != "to do" {
		t.Errorf("the plan while processes run: %+v", s)
	}
	if _, err := r.try("127.0.0.1:0", "topics", "rekey", from, "--partitions", "10", "-c", r.config, "--run"); err == nil || !strings.Contains(err.Error(), "exit status 6") {
		t.Errorf("run while processes run: %v", err)
	}
	stream.stop()
	deliver(3) // unread when it is copied
	deliverGaps(2, 1, early)
	intake.stop()
	const unread = entities + early
	if s := r.rekey(from); s["stop"].State != "done" || s["drain"].State != "done" || !strings.Contains(s["drain"].Detail, fmt.Sprintf("nothing is open; %s.fulfil has %d records to read, from the copy then, and %d events that wait, which go along", r.team, unread, gaps)) ||
		!strings.Contains(s["copy"].Detail, fmt.Sprintf("%d records of %s (6 partitions) that are not read yet to %s (10)", unread, from, to)) {
		t.Errorf("the plan when they are stopped: %+v", s)
	}
	var done struct {
		To            string
		Records       int
		Subscriptions []struct{ Lines, Waiting int }
	}
	out := r.command("topics", "rekey", from, "--partitions", "10", "-c", r.config, "--run", "-o", "json")
	if err := json.Unmarshal(out, &done); err != nil || done.To != to || done.Records != unread ||
		len(done.Subscriptions) != 1 || done.Subscriptions[0].Lines != entities+gaps || done.Subscriptions[0].Waiting != gaps {
		t.Fatalf("%s %v", out, err)
	}
	if _, err := r.try("127.0.0.1:0", "topics", "rekey", from, "--partitions", "10", "-c", r.config, "--run"); err == nil ||
		!strings.Contains(err.Error(), "exit status 6") || !strings.Contains(err.Error(), fmt.Sprintf("holds %d records already", unread)) {
		t.Errorf("run again: %v", err)
	}

	r.edit("      orders:\n        preset: generic", "      orders:\n        topic: "+to+"\n        topics: {partitions: 10}\n        preset: generic")
	applied := strings.Split(strings.TrimSpace(string(r.command("topics", "apply", "-c", r.config))), "\n")[1:]
	if len(applied) == 0 || slices.ContainsFunc(applied, func(line string) bool { return !strings.Contains(line, " ok ") }) {
		t.Errorf("topics apply after the copy: %q", applied)
	}
	r.serve("intake")
	stream = r.serve("stream")
	deliver(4)
	deliverGaps(2, early+1, gaps)
	r.agent.waitActed(t, 4*entities+3*gaps, 2*time.Minute)
	// A repetition of what came by the old topic is one here, too.
	deliver(2)
	waitItems(t, r, stream, entities, "--subscription", "fulfil", "--decision", "duplicate")
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)
	items := r.inbox(stream, "--subscription", "fulfil", "--limit", "500")
	if len(items) == 0 {
		t.Error("the inbox has nothing of fulfil")
	}
	for _, i := range items {
		if i.Decision == "buffered" || i.Reason == "skipped" {
			t.Errorf("%s was taken for one behind a gap: %+v", i.EventID, i)
		}
	}
	if got := r.partitions(stream, "fulfil"); len(got) != 10 || slices.Contains(got, "stopped") {
		t.Errorf("the subscription's partitions: %v", got)
	}
}

// rekey asks for the plan.
func (r *deployment) rekey(topic string) map[string]planStep {
	r.t.Helper()
	var page struct{ Items []planStep }
	out := r.command("topics", "rekey", topic, "--partitions", "10", "-c", r.config, "-o", "json")
	if err := json.Unmarshal(out, &page); err != nil {
		r.t.Fatalf("%s: %v", out, err)
	}
	steps := map[string]planStep{}
	for _, s := range page.Items {
		steps[s.Step] = s
	}
	return steps
}

type planStep struct{ Step, State, Detail string }

// partitions are the states of a subscription's partitions in a process.
func (r *deployment) partitions(p *process, name string) (states []string) {
	r.t.Helper()
	for _, part := range r.subscription(p, name).Partitions {
		states = append(states, part.State)
	}
	return states
}

// subscription asks a process, as `forebay subscriptions get` does.
func (r *deployment) subscription(p *process, name string) (item subscriptionItem) {
	r.t.Helper()
	if err := p.get("/v1/subscriptions/"+r.team+"/"+name, nil, &item); err != nil {
		r.t.Fatalf("subscription %s: %v", name, err)
	}
	return item
}

type subscriptionItem struct {
	Ready      bool
	Missing    string
	Partitions []struct {
		Topic     string
		Partition int32
		State     string
		Position  struct {
			Next           int64 `json:"next_offset"`
			Seeks, Skipped int64
		}
		Stopped *stopItem
	}
}

// stopItem is what is said of a stop.
type stopItem struct {
	ID                  int64
	Kind, Text, Command string
	Records             *int64
	From                int64      `json:"from_offset"`
	To                  int64      `json:"to_offset"`
	Resume              int64      `json:"resume_offset"`
	First               *time.Time `json:"first_at"`
	Last                *time.Time `json:"last_at"`
	Accepted            *struct{ By, Reason string }
}

// TestRekeyThatIsOld follows who switches too late: the intake wrote to the topic after it had been copied. The copy is refused and says
// what to do, which is done as it says; nothing is lost. Who goes back to the old topic then is refused there.
func TestRekeyThatIsOld(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	from := "events." + r.team + ".orders"
	first, second := from+".10", from+".new"
	source := func(topic string) string {
		return "      orders:\n        topic: " + topic + "\n        topics: {partitions: 10}\n        preset: generic"
	}
	const bare = "      orders:\n        preset: generic"
	deliver := func(rev int) {
		t.Helper()
		r.deliver(order(orderName(1), rev))
	}
	refused := func(partitions int, why ...string) {
		t.Helper()
		stream := r.serve("stream")
		until(t, "all partitions are refused", func() bool {
			n := 0
			for _, p := range r.subscription(stream, "fulfil").Partitions {
				if p.Stopped != nil && p.Stopped.Kind == "refused_by_ledger" && containsAll(p.Stopped.Text, why...) {
					n++
				}
			}
			return n == partitions
		})
		stream.stop()
	}
	intake, stream := r.serve("intake"), r.serve("stream")
	deliver(1)
	waitItems(t, r, stream, 1, "--subscription", "fulfil", "--status", "done")
	intake.stop()
	stream.stop()
	r.command("topics", "rekey", from, "--partitions", "10", "-c", r.config, "--run")
	intake = r.serve("intake") // nobody has switched
	deliver(2)
	intake.stop()

	r.edit(bare, source(first))
	again := "forebay topics rekey " + from + " --partitions N -c FILE"
	refused(10, "is a copy of "+from+", which has grown by 1 since it was copied", "write topic: "+from, again, "with another --to")
	r.edit(source(first), bare)
	r.command("topics", "rekey", from, "--partitions", "10", "--to", second, "-c", r.config, "--run")
	r.edit(bare, source(second))
	stream = r.serve("stream")
	r.agent.waitActed(t, 2, time.Minute)
	stream.stop()
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)

	r.edit(source(second), bare)
	refused(6, "has gone over to "+second+", a copy of "+from, "write topic: "+second)
	if s := r.rekey(from)["hand over"]; s.State != "blocked" || !strings.Contains(s.Detail, r.team+".fulfil has gone over to "+second+", a copy of "+from) {
		t.Errorf("the plan for another copy of the old topic: %+v", s)
	}
}
