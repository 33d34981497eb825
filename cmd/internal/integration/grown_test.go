package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/testrig"
)

// TestTopicGrownUnderLoad grows a topic from 6 to 9 partitions while it is written and read, and the intake begins to write
// to the new ones. The stream ends its claims with a report before it judges a record by a number that is over: nothing is
// set aside, lost, or comes out of order. The agent is slow, so much is open then: it runs, and once the plan says so, what the
// report says to run is run. All that was accepted has been acted on once.
func TestTopicGrownUnderLoad(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 300 * time.Millisecond})
		topic := "events." + r.team + ".github"
		intake, stream := r.serve("intake"), r.serve("stream")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		loaded := make(chan error, 1)
		go func() {
			loaded <- r.sender.load(ctx, lines(faultEntities, faultEvents, issues), faultWorkers, slowLoad)
		}()
		r.agent.waitActed(t, faultEntities*faultEvents/10, time.Minute)

		if _, err := admin(t, b).UpdatePartitions(t.Context(), 9, topic); err != nil {
			t.Fatal(err)
		}
		r.edit("github: {preset: github,", "github: {topics: {partitions: 9}, preset: github,")
		intake.stop()
		intake = r.serve("intake") // which places by 9 from now on
		stopped := r.waitGrown(stream)
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
			t.Errorf("%d records were set aside, for example %+v", len(aside), aside[0])
		}

		// As the report says.
		command := strings.Fields(strings.TrimPrefix(stopped[0].Command, "forebay "))
		command[len(command)-1] = r.config // FILE
		until(t, "nothing is open any more", func() bool {
			return strings.Contains(string(r.command(append(slices.Clone(command), "-o", "jsonl")...)), `"step":"drain","state":"done"`)
		})
		stream.stop()
		intake.stop()
		r.command(append(command, "--run")...)
		r.edit("github: {topics: {partitions: 9}, preset: github,", "github: {topic: "+topic+".9, topics: {partitions: 9}, preset: github,")
		r.serve("intake")
		stream = r.serve("stream")
		r.agent.waitQuiet(faultEntities*faultEvents, 20*time.Second)
		r.waitOwned(stream, 9)
		v := judge(r.sender.told(), r.agent.snapshot())
		v.require(t)
		v.requireNoRepeats(t)
	})
}

// waitGrown waits until all partitions of the issues that were there are stopped for the topic's growth. The new ones follow
// when the group has heard of them.
func (r *rig) waitGrown(p *process) map[int32]*stopItem {
	r.t.Helper()
	stopped := map[int32]*stopItem{}
	until(r.t, "the six partitions are stopped", func() bool {
		for _, part := range r.subscription(p, "triage").Partitions {
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
