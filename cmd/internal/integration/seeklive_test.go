package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

type seekItem struct {
	Partition int32
	State     string
	From      *int64 `json:"from_offset"`
	To        int64  `json:"to_offset"`
	Again     *int64 `json:"read_again"`
	Skipped   *int64
}

// seek moves the triage subscription with the command line.
func (r *deployment) seek(p *process, args ...string) []seekItem {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"subscriptions", "seek", r.team + ".triage", "-o", "json", "--reason", "the agent was wrong"}, args...)...)
	var page struct{ Items []seekItem }
	if err == nil {
		err = json.Unmarshal(out, &page)
	}
	if err != nil {
		r.t.Fatalf("subscriptions seek %s: %v in %s", strings.Join(args, " "), err, out)
	}
	return page.Items
}

// positions are position and copy in Kafka of each partition, as `forebay subscriptions lag` tells them.
func (r *deployment) positions(p *process) (all []int64, settled bool) {
	r.t.Helper()
	var page struct {
		Items []struct {
			Position, Mirror *int64
			Records          *int64 `json:"lag_records"`
		}
	}
	if err := p.get("/v1/subscriptions/"+r.team+"/triage/lag", nil, &page); err != nil {
		r.t.Fatal(err)
	}
	settled = true
	for _, i := range page.Items {
		if i.Position == nil || i.Mirror == nil {
			return nil, false
		}
		all, settled = append(all, *i.Position), settled && *i.Position == *i.Mirror && *i.Records == 0
	}
	return all, settled
}

// TestSeekWhileItRuns moves a subscription of two processes back to the start while deliveries come in, and once more right after one of
// the two was killed: nothing need be stopped, all of it moves, what is done is skipped, nothing is lost or runs twice.
func TestSeekWhileItRuns(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.serve("intake")
	one, two := r.serve("stream"), r.serve("stream")
	const entities = 24
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	r.waitOwned(one, 3)
	r.waitOwned(two, 3)
	waitItems(t, r, one, entities, "--status", "done", "--subscription", "triage")

	coming := make(chan struct{})
	go func() {
		defer close(coming)
		r.deliverAll(entities, 2, issues)
	}()
	moved := r.seek(one, "--to", "start")
	if len(moved) != 6 || slices.ContainsFunc(moved, func(i seekItem) bool {
		return i.State != "moved" && (i.State != "unchanged" || *i.From != 0) || i.To != 0
	}) {
		t.Errorf("moved while it runs: %+v", moved)
	}
	<-coming
	r.agent.waitActed(t, 2*entities, time.Minute)
	until(t, "the first events are read again", func() bool { return r.skipped(one)+r.skipped(two) >= entities })

	one.kill()
	skipped := r.skipped(two)
	moved = r.seek(two, "--to", "-1h")
	if len(moved) != 6 || slices.ContainsFunc(moved, func(i seekItem) bool { return i.State != "moved" && (i.State != "unchanged" || *i.From != 0) }) {
		t.Errorf("moved after a kill: %+v", moved)
	}
	until(t, "all is read again", func() bool { return r.skipped(two)-skipped >= 2*entities })
	if !rig.Until(time.Minute, func() bool { _, settled := r.positions(two); return settled }) {
		t.Error("Kafka's copy of the positions does not follow")
	}
	before, _ := r.positions(two)
	if out, err := r.try(two.operator, "subscriptions", "seek", "triage", "--to", "2099-01-01T00:00:00Z", "--reason", "x"); err == nil || !strings.Contains(err.Error(), "is in the future") {
		t.Errorf("to the future: %s %v", out, err)
	}
	if after, _ := r.positions(two); !slices.Equal(before, after) {
		t.Errorf("a seek that is refused has moved %d to %d", before, after)
	}
	if !strings.Contains(two.output(), "the position was moved") || !strings.Contains(two.output(), "the agent was wrong") {
		t.Error("the log does not tell")
	}
	r.requireOnce(t)
}
