package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestBrokenBatch flips a byte on the broker's disk, in a batch in the middle of a partition. What is before it runs, the
// partition stops with a report instead of being told as running, the others go on, and nothing is passed over by itself. What
// the report says to do is done, and the rest runs: only the batch is lost, and it is counted.
func TestBrokenBatch(t *testing.T) {
	t.Parallel()
	k := rig.Kafka(t, 1)
	r := deploy(t, k, options{})
	r.edit("session_timeout: 6s", "session_timeout: 6s, unread_after: 3s")
	intake := r.serve("intake")
	r.serve("stream").stop() // where it begins is stored
	const entities, versions = 12, 3
	for n := 1; n <= versions; n++ {
		r.deliverAll(entities, n, issues)
	}
	intake.stop()
	topic := "events." + r.team + ".github"
	ends, err := admin(t, k).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	k.StopCleanly()
	broken, end := fullest(t, ends)
	first, next := k.BreakBatch(1, topic, broken, end/2)
	k.StartAll()

	stream := r.serve("stream")
	stop := r.waitUnreadable(stream, broken)
	if stop.From != first || stop.Records != nil || !strings.Contains(stop.Text, fmt.Sprintf("of the offsets %d to %d", first, next-1)) {
		t.Errorf("the batch of %d to %d is broken, and the report is %+v", first, next-1, stop)
	}
	if log := stream.output(); !containsAll(log, "partition stopped", "unreadable", fmt.Sprintf("partition=%d", broken)) {
		t.Error("the log does not tell")
	}
	if n := stream.gauge("forebay_stream_stops_total"); n != 1 {
		t.Errorf("%v stops are counted", n)
	}
	r.agent.waitActed(t, entities*versions-int(end-first), time.Minute)
	at := int64(-1)
	for _, part := range r.subscription(stream, "triage").Partitions {
		if part.Partition == broken {
			at = part.Position.Next
		}
	}
	if at != first {
		t.Errorf("the partition stands at %d, want %d, where the batch begins", at, first)
	}

	// As the report says.
	behind := regexp.MustCompile(`begins at (\d+)`).FindStringSubmatch(stop.Text)
	if !strings.Contains(stop.Text, "`forebay subscriptions seek`") || behind == nil {
		t.Fatalf("the report does not say what to do: %s", stop.Text)
	}
	if out, err := r.try(stream.operator, "subscriptions", "seek", r.team+".triage", "--partition", fmt.Sprint(broken), "--to", behind[1], "--reason", "its disk is lost"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.agent.waitActed(t, entities*versions-int(next-first), time.Minute)
	r.waitOwned(stream, 6)
	for _, part := range r.subscription(stream, "triage").Partitions {
		want := int64(0)
		if part.Partition == broken {
			want = next - first
		}
		if part.State != "running" || part.Position.Skipped != want {
			t.Errorf("partition %d is %s, %d skipped, want %d", part.Partition, part.State, part.Position.Skipped, want)
		}
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	if len(v.lost) != int(next-first) {
		t.Errorf("%d events are lost, want the %d of the batch", len(v.lost), next-first)
	}
	v.requireOrderOfFirstCalls(t)
	v.requireNoRepeats(t)
}

// fullest is the partition with the most records, and its end.
func fullest(t *testing.T, ends kadm.ListedOffsets) (number int32, end int64) {
	t.Helper()
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > end {
			number, end = o.Partition, o.Offset
		}
	})
	if end < 4 {
		t.Fatalf("the fullest partition has %d records", end)
	}
	return number, end
}

// waitUnreadable waits until a partition of the issues, and no other, is told as stopped because it cannot be read.
func (r *deployment) waitUnreadable(p *process, number int32) *stopItem {
	r.t.Helper()
	var states map[int32]string
	var stop *stopItem
	if !rig.Until(time.Minute, func() bool {
		states, stop = map[int32]string{}, nil
		for _, part := range r.subscription(p, "triage").Partitions {
			if states[part.Partition] = part.State; part.Partition == number {
				stop = part.Stopped
			}
		}
		return states[number] == "stopped" && stop != nil && stop.Kind == "unreadable"
	}) {
		r.t.Fatalf("partition %d is not told as unreadable: %v %+v", number, states, stop)
	}
	for other, state := range states {
		if other != number && state != "running" {
			r.t.Errorf("partition %d is %s", other, state)
		}
	}
	return stop
}
