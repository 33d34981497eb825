package integration

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestResetOfTheGroup resets the group to the earliest offset with Kafka's own tool: done work is skipped, nothing runs again.
func TestResetOfTheGroup(t *testing.T) {
	t.Parallel()
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
	until(t, "what was moved is read again", func() bool { return r.skipped(stream) >= moved })
	r.requireOnce(t)
	if n := r.skipped(stream); n != moved {
		t.Errorf("%d records are read again; partition %d, which was moved, has %d", n, items[0].Partition, moved)
	}
	if again := r.inbox(stream, "--decision", "duplicate"); len(again) > 0 {
		t.Errorf("what was delivered once counts as delivered again: %+v", again)
	}
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

	// The sender repeats the first and the fourth of each entity: they came twice, and so they are counted, however often the log is read.
	seconds := map[string]int{}
	for _, i := range waitItems(t, r, stream, 40, "--subscription", "triage", "--decision", "duplicate") {
		seconds[i.Entity[:2]] += i.Duplicates
	}
	if seconds["7/"] != 20 || seconds["8/"] != 20 {
		t.Errorf("%d and %d duplicates are counted, want 20 of the load that was read again and of the other", seconds["7/"], seconds["8/"])
	}
	until(t, "all that was moved is read again", func() bool { return r.skipped(stream) >= 40+20+20 }) // an inbox row is seen before its count
	if n := r.skipped(stream); n != 40+20+20 {
		t.Errorf("%d records were skipped, want the 60 that were read again and the 20 that came twice after them", n)
	}
}

// skipped is how many records the subscription triage of a process has skipped because their events were decided before.
func (r *deployment) skipped(p *process) int {
	p.t.Helper()
	text := p.metric(fmt.Sprintf(`forebay_stream_decisions_total{decision="duplicate",reason="seen",subscription="%s.triage"}`, r.team))
	if text == "" { // none yet
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return int(n)
}
