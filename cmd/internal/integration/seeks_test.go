package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// commitTo moves a group without members as any client of Kafka does that commits offsets.
func (r *deployment) commitTo(b rig.Broker, group string, to func(adm *kadm.Client) kadm.Offsets) {
	r.t.Helper()
	adm := admin(r.t, b)
	if err := adm.CommitAllOffsets(r.t.Context(), group, to(adm)); err != nil {
		r.t.Fatal(err)
	}
}

// moves are what the ledger has recorded of a subscription's seeks.
func (r *deployment) moves(p *process, name string) (seeks, skipped int64) {
	r.t.Helper()
	for _, part := range r.subscription(p, name).Partitions {
		seeks += part.Position.Seeks
		skipped += part.Position.Skipped
	}
	return seeks, skipped
}

// TestResetToLatestIsRecordedWithWhatItSkipped moves a group forward over unread records, which Kafka refuses as long as it has
// a member: they never run, and the ledger, the log and the metrics say how many they are.
func TestResetToLatestIsRecordedWithWhatItSkipped(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	toLatest := []string{"--group", r.team + ".triage", "--topic", "events." + r.team + ".github", "--reset-offsets", "--to-latest", "--execute"}
	if out, err := k.TryGroups(toLatest...); !containsAll(fmt.Sprint(out, err), "inactive", "Stable") {
		t.Errorf("Kafka's tool on a group with a member: %s %v", out, err)
	}
	stream.stop()
	r.deliverAll(entities, 2, issues)
	k.Groups(toLatest...)
	stream = r.serve("stream")
	r.waitOwned(stream, 6)
	r.deliverAll(entities, 3, issues)
	r.agent.waitActed(t, 2*entities, time.Minute)
	seeks, skipped := r.moves(stream, "triage")
	if skipped != entities || seeks < 1 || seeks > 6 {
		t.Errorf("%d seeks over %d offsets are recorded, want %d offsets", seeks, skipped, entities)
	}
	if out, err := r.try(stream.operator, "subscriptions", "get", r.team+".triage"); err != nil || strings.Count(string(out), " were skipped, found ") != int(seeks) {
		t.Errorf("%d seeks, told as %s %v", seeks, out, err)
	}
	seconds := map[string]int{}
	for _, c := range r.agent.snapshot() {
		seconds[strings.TrimPrefix(c.version, "2026-07-01T12:00:")[:2]]++
	}
	if want := map[string]int{"01": entities, "03": entities}; !maps.Equal(seconds, want) {
		t.Errorf("calls by the second of their version: %v, want %v: what was skipped does not run", seconds, want)
	}
	if !containsAll(stream.output(), "the position was moved", "skipped=") {
		t.Error("the log does not tell")
	}
	if calls := len(r.agent.snapshot()); calls != 2*entities {
		t.Errorf("%d calls, want %d", calls, 2*entities)
	}
}

// TestOffsetsCommittedInPython has a client that knows nothing of Forebay commit offsets for the stopped group: that is a seek like any other.
// The subscription begins there, what it passes over does not run and is recorded as skipped, and what came behind it runs.
func TestOffsetsCommittedInPython(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	stream.stop()
	r.deliverAll(entities, 2, issues)
	kafkaPython(t, "commit.py", k.Bootstrap(), r.team+".triage", "events."+r.team+".github")
	r.deliverAll(entities, 3, issues)
	stream = r.serve("stream")
	r.agent.waitActed(t, 2*entities, time.Minute)
	r.waitOwned(stream, 6)
	if seeks, skipped := r.moves(stream, "triage"); skipped != entities || seeks < 1 || seeks > 6 {
		t.Errorf("%d seeks over %d offsets are recorded, want %d offsets", seeks, skipped, entities)
	}
	calls := r.agent.snapshot()
	if passed := slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.version, "2026-07-01T12:00:02") }); passed || len(calls) != 2*entities {
		t.Errorf("%d calls, want %d, and none of what was passed over: %+v", len(calls), 2*entities, calls)
	}
}

// TestResetOfOnePartitionToATime reads again what came since a time in one partition, and nothing before it or elsewhere.
func TestResetOfOnePartitionToATime(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	<-time.After(20 * time.Millisecond) // the tool's times are whole milliseconds
	since := time.Now().UTC().Format("2006-01-02T15:04:05.000")
	<-time.After(20 * time.Millisecond)
	r.deliverAll(entities, 2, issues)
	r.agent.waitActed(t, 2*entities, time.Minute)
	items := waitItems(t, r, stream, 2*entities, "--subscription", "triage", "--status", "done")
	if t.Failed() {
		return
	}
	moved, here := 0, items[0].Partition // of each entity, half came since
	for _, i := range items {
		moved += btoi(i.Partition == here)
	}
	moved /= 2
	stream.stop()
	k.Groups("--group", r.team+".triage", "--topic", fmt.Sprintf("events.%s.github:%d", r.team, here), "--reset-offsets", "--to-datetime", since, "--execute")
	stream = r.serve("stream")
	until(t, "what came since is read again", func() bool { return r.skipped(stream) >= moved })
	r.requireOnce(t)
	if n := r.skipped(stream); n != moved {
		t.Errorf("%d records are read again, want the %d of partition %d that came since", n, moved, here)
	}
	if again := r.inbox(stream, "--decision", "duplicate"); len(again) > 0 {
		t.Errorf("what was delivered once counts as delivered again: %+v", again)
	}
}

// TestGroupThatIsGone deletes the group's commits, as Kafka does when they expire, and then the group: neither is a seek,
// the ledger knows where to go on.
func TestGroupThatIsGone(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	r.serve("intake")
	adm, group := admin(t, b), r.team+".triage"
	const entities = 12
	n := 0
	for _, lose := range []func() error{
		func() error { return nil },
		func() error {
			var all kadm.TopicsSet
			for p := range int32(6) {
				all.Add("events."+r.team+".github", p)
			}
			got, err := adm.DeleteOffsets(t.Context(), group, all)
			if err == nil {
				err = got.Error()
			}
			return err
		},
		func() error { _, err := adm.DeleteGroup(t.Context(), group); return err },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		n++
		r.deliverAll(entities, n, issues)
		stream := r.serve("stream")
		r.agent.waitActed(t, n*entities, time.Minute)
		waitItems(t, r, stream, n*entities, "--subscription", "triage", "--status", "done")
		if seeks, _ := r.moves(stream, "triage"); seeks != 0 {
			t.Errorf("%d seeks are recorded", seeks)
		}
		stream.stop()
	}
	r.requireOnce(t)
}
