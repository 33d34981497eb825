package integration

import (
	"fmt"
	"maps"
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
