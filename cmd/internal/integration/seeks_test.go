package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// resetTo moves a group without members as an operator does: on Apache Kafka with its own tool (how), on the embedded broker,
// which the tool does not fit, with the commit that it would make.
func (r *deployment) resetTo(b rig.Broker, group, topic string, how []string, to func(adm *kadm.Client) kadm.Offsets) {
	r.t.Helper()
	if k, ok := b.(*rig.KafkaCluster); ok {
		k.Groups(append([]string{"--group", group, "--topic", topic, "--reset-offsets", "--execute"}, how...)...)
		return
	}
	r.commitTo(b, group, to)
}

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

// TestResetToLatestIsRecordedWithWhatItSkipped moves a group forward over unread records: they never run, and the ledger,
// the log and the metrics say how many they are.
func TestResetToLatestIsRecordedWithWhatItSkipped(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		r.serve("intake")
		stream := r.serve("stream")
		const entities = 12
		r.deliverAll(entities, 1, issues)
		r.agent.waitActed(t, entities, time.Minute)
		stream.stop()
		r.deliverAll(entities, 2, issues)
		topic := "events." + r.team + ".github"
		r.resetTo(b, r.team+".triage", topic, []string{"--to-latest"}, func(adm *kadm.Client) kadm.Offsets {
			ends, err := adm.ListEndOffsets(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			return ends.Offsets()
		})
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
		for _, c := range r.agent.snapshot() {
			if strings.HasPrefix(c.version, "2026-07-01T12:00:02") {
				t.Errorf("%s ran although it was skipped", c.event)
			}
		}
		if !containsAll(stream.output(), "the position was moved", "skipped=") {
			t.Error("the log does not tell")
		}
		if calls := len(r.agent.snapshot()); calls != 2*entities {
			t.Errorf("%d calls, want %d", calls, 2*entities)
		}
	})
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

// TestShiftOfTheGroup moves a group back by one record in each partition, which are then skipped as done, and forward
// again by more than is left, which goes to the end.
func TestShiftOfTheGroup(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	used := countPartitions(waitItems(t, r, stream, entities, "--subscription", "triage", "--status", "done"))
	stream.stop()
	shift := func(by string) {
		k.Groups("--group", r.team+".triage", "--topic", "events."+r.team+".github", "--reset-offsets", "--shift-by", by, "--execute")
	}
	shift("-1")
	stream = r.serve("stream")
	until(t, "one record of each partition is read again", func() bool { return r.skipped(stream) >= used })
	stream.stop()
	r.deliverAll(entities, 2, issues)
	shift("1")
	stream = r.serve("stream")
	r.agent.waitActed(t, 2*entities-used, time.Minute)
	r.waitOwned(stream, 6)
	if _, skipped := r.moves(stream, "triage"); skipped != int64(used) {
		t.Errorf("%d offsets are recorded as skipped, want the %d that were passed over", skipped, used)
	}
	if calls := len(r.agent.snapshot()); calls != 2*entities-used {
		t.Errorf("%d calls, want %d", calls, 2*entities-used)
	}
}

// TestResetToATimeInTheMiddle reads again what came since a time, and nothing before it.
func TestResetToATimeInTheMiddle(t *testing.T) {
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
	waitItems(t, r, stream, 2*entities, "--subscription", "triage", "--status", "done")
	stream.stop()
	k.Groups("--group", r.team+".triage", "--topic", "events."+r.team+".github", "--reset-offsets", "--to-datetime", since, "--execute")
	stream = r.serve("stream")
	until(t, "what came since is read again", func() bool { return r.skipped(stream) >= entities })
	r.requireOnce(t)
	if n := r.skipped(stream); n != entities {
		t.Errorf("%d records are read again, want the %d that came since", n, entities)
	}
}

// TestGroupWithAMemberIsNotMoved: Kafka refuses to move a group that has members, and says so; nothing has moved.
func TestGroupWithAMemberIsNotMoved(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		r.serve("intake")
		stream := r.serve("stream")
		r.deliverAll(6, 1, issues)
		r.agent.waitActed(t, 6, time.Minute)
		waitItems(t, r, stream, 6, "--subscription", "triage", "--status", "done")
		group, topic := r.team+".triage", "events."+r.team+".github"
		if k, ok := b.(*rig.KafkaCluster); ok {
			out, err := k.TryGroups("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
			if text := fmt.Sprint(out, err); !strings.Contains(text, "inactive") || !strings.Contains(text, "Stable") {
				t.Errorf("Kafka's tool on a group with a member: %s", text)
			}
		} else {
			adm := admin(t, b)
			starts, err := adm.ListStartOffsets(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if err := adm.CommitAllOffsets(t.Context(), group, starts.Offsets()); err == nil {
				t.Error("a group with a member was moved")
			}
		}
		stream.stop()
		stream = r.serve("stream")
		r.deliverAll(6, 2, issues)
		r.agent.waitActed(t, 12, time.Minute)
		if seeks, _ := r.moves(stream, "triage"); seeks != 0 {
			t.Errorf("%d seeks are recorded", seeks)
		}
		r.requireOnce(t)
	})
}

// TestGroupThatIsGone deletes the group's commits, as Kafka does when they expire, and then the group: neither is a seek,
// the ledger knows where to go on.
func TestGroupThatIsGone(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
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
	})
}
