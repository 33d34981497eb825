package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/record"
)

// TestTopicGrownUnderLoad grows a topic from 6 to 9 partitions while it is written and read, and the intake begins to write
// to the new ones. The stream ends its claims with a report before it judges a record by a number that is over: nothing is
// rejected, lost, or comes out of order. The agent is slow, so much is open then: it runs, and once the plan says so, what the
// report says to run is run. All that was accepted has been acted on once.
//
// Events wait for a gap when their topic grows. Their fillers come to the new partitions, and long after the wait is over: it goes along to
// the copy, where the fillers release it.
func TestTopicGrownUnderLoad(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{latency: 300 * time.Millisecond, gap: "{wait: 30s, then: skip}"})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	topic, orders := "events."+r.team+".github", "events."+r.team+".orders"
	intake, stream := r.serve("intake"), r.serve("stream")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		loaded <- r.sender.load(ctx, lines(faultEntities, faultEvents, issues), faultWorkers, slowLoad)
	}()
	r.agent.waitActed(t, faultEntities*faultEvents/10, time.Minute)

	const gaps = 20
	deliver := func(rev int) {
		t.Helper()
		for e := range gaps {
			if err := r.sender.deliver(ctx, order(orderName(e), rev)); err != nil {
				t.Fatal(err)
			}
		}
	}
	deliver(1)
	deliver(3)
	waitItems(t, r, stream, gaps, "--subscription", "fulfil", "--decision", "buffered")
	adm := admin(t, b)
	if _, err := adm.UpdatePartitions(t.Context(), 9, topic, orders); err != nil {
		t.Fatal(err)
	}
	until(t, "the broker has the partitions", func() bool {
		details, err := adm.ListTopics(t.Context(), topic, orders)
		return err == nil && len(details[topic].Partitions) == 9 && len(details[orders].Partitions) == 9
	})
	r.edit("github: {preset: github,", "github: {topics: {partitions: 9}, preset: github,")
	r.edit("      orders:\n", "      orders:\n        topics: {partitions: 9}\n")
	intake.stop()
	intake = r.serve("intake") // which places by 9 from now on
	r.waitGrown(stream, "fulfil")
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.sender.acceptedByID())), func(d delivery) bool {
		return d.source == "orders" && record.PartitionOf([]byte(d.entity), 9) >= 6
	}) {
		t.Fatal("no filler comes to a new partition")
	}
	deliver(2)
	deliver(4)
	stopped := r.waitGrown(stream, "triage")
	for number, s := range stopped {
		if want := "forebay topics rekey " + topic + " --partitions 9 -c FILE"; s.Kind != "partition_count" || s.Command != want || !strings.Contains(s.Text, want) {
			t.Errorf("partition %d: %+v", number, s)
		}
	}
	if log := stream.output(); !containsAll(log, "partition stopped", "partition_count", "forebay topics rekey "+topic+" --partitions 9") {
		t.Error("the log does not tell")
	}
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if aside := r.inbox(stream, "--subscription", "triage", "--decision", "quarantined"); len(aside) > 0 {
		t.Errorf("%d records were rejected, for example %+v", len(aside), aside[0])
	}

	// As the report says.
	command := strings.Fields(strings.TrimPrefix(stopped[0].Command, "forebay "))
	command[len(command)-1] = r.config // FILE
	until(t, "nothing is open any more", func() bool {
		return strings.Contains(string(r.command(append(slices.Clone(command), "-o", "jsonl")...)), `"step":"drain","state":"done"`)
	})
	command, forOrders := append(command, "--run"), append(slices.Clone(command), "--run")
	forOrders[slices.Index(forOrders, topic)] = orders
	waitItems(t, r, stream, gaps, "--subscription", "fulfil", "--decision", "buffered")
	stream.stop()
	intake.stop()
	r.command(command...)
	if out := r.command(forOrders...); !strings.Contains(string(out), fmt.Sprintf("%d version lines and %d events that wait", gaps, gaps)) {
		t.Errorf("rekey of the orders says: %s", out)
	}
	r.edit("github: {topics: {partitions: 9}, preset: github,", "github: {topic: "+topic+".9, topics: {partitions: 9}, preset: github,")
	r.edit("      orders:\n", "      orders:\n        topic: "+orders+".9\n")
	r.serve("intake")
	stream = r.serve("stream")
	r.agent.waitQuiet(faultEntities*faultEvents+4*gaps, time.Minute)
	r.waitOwned(stream, 9)
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)
	items := r.inbox(stream, "--subscription", "fulfil", "--limit", "500")
	if len(items) == 0 {
		t.Error("the inbox has nothing of fulfil")
	}
	for _, i := range items {
		if i.Decision != "applied" || strings.HasPrefix(i.Reason, "gap") || i.Reason == "skipped" {
			t.Errorf("%s is %s (%s)", i.EventID, i.Decision, i.Reason)
		}
	}
}

// waitGrown waits until all partitions of a subscription that were there are stopped for the topic's growth. The new ones follow
// when the group has heard of them.
func (r *deployment) waitGrown(p *process, subscription string) map[int32]*stopItem {
	r.t.Helper()
	stopped := map[int32]*stopItem{}
	until(r.t, "the six partitions are stopped", func() bool {
		for _, part := range r.subscription(p, subscription).Partitions {
			if part.Stopped != nil {
				stopped[part.Partition] = part.Stopped
			}
		}
		for number := range int32(6) {
			if stopped[number] == nil {
				return false
			}
		}
		return true
	})
	return stopped
}
