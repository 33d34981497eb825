package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestResetOfTheGroup resets the group to the earliest offset with Kafka's own tool: done work is skipped and counted,
// nothing runs again.
func TestResetOfTheGroup(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		rewind(t, b, func(r *deployment) { b.ResetToEarliest(r.team+".triage", "events."+r.team+".github") })
	})
}

// TestResetToATime uses the other way of Kafka's tool that operators take.
func TestResetToATime(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	before := time.Now().UTC().Format("2006-01-02T15:04:05.000")
	rewind(t, k, func(r *deployment) {
		k.Groups("--group", r.team+".triage", "--topic", "events."+r.team+".github", "--reset-offsets", "--to-datetime", before, "--execute")
	})
}

// TestResetOfOnePartition moves one partition and no other.
func TestResetOfOnePartition(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	all := slices.Concat(lines(20, 1, func(e, n int) delivery { return issue(7, e, n) })...)
	for _, d := range all {
		if err := r.sender.deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	moved := 0
	items := waitItems(t, r, stream, len(all), "--subscription", "triage", "--status", "done")
	if t.Failed() {
		return
	}
	for _, i := range items {
		if i.Partition == items[0].Partition {
			moved++
		}
	}
	stream.stop()
	k.Groups("--group", r.team+".triage", "--topic", fmt.Sprintf("events.%s.github:%d", r.team, items[0].Partition),
		"--reset-offsets", "--to-earliest", "--execute")
	stream = r.serve("stream")
	for _, i := range waitItems(t, r, stream, moved, "--decision", "duplicate") {
		if i.Partition != items[0].Partition || i.Duplicates != 1 {
			t.Errorf("%s in partition %d is counted %d times more; partition %d was moved", i.EventID, i.Partition, i.Duplicates, items[0].Partition)
		}
	}
	r.requireOnce(t)
}

// rewind runs a load, stops the stream, moves its group back over all of it, and goes on with a second load.
func rewind(t *testing.T, b rig.Broker, reset func(*deployment)) {
	t.Helper()
	r := deploy(t, b, options{})
	r.serve("intake")
	stream := r.serve("stream")
	if err := r.sender.load(t.Context(), lines(10, 4, func(e, n int) delivery { return issue(7, e, n) }), 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitActed(t, 40, time.Minute)
	waitItems(t, r, stream, 20, "--subscription", "triage", "--decision", "duplicate") // what was repeated last has been read, too
	stream.stop()
	reset(r)

	stream = r.serve("stream")
	if err := r.sender.load(t.Context(), lines(10, 5, func(e, n int) delivery { return issue(8, e, n) }), 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitActed(t, 90, time.Minute)
	r.requireOnce(t)

	// The sender repeats the first and the fourth of each entity: once more in the log at the first reading, and both
	// copies again at the second. The others came again once, through the reset.
	seconds := map[string]int{}
	for _, i := range waitItems(t, r, stream, 60, "--subscription", "triage", "--decision", "duplicate") {
		seconds[i.Entity[:2]] += i.Duplicates
	}
	if want := 20 + 60; seconds["7/"] != want || seconds["8/"] != 20 {
		t.Errorf("%d and %d duplicates are counted, want %d of the load that was read again and 20 of the other", seconds["7/"], seconds["8/"], want)
	}
}
