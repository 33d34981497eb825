package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// stoppedPartitions waits until n partitions of the orders' subscription are told as stopped.
func (p *process) stoppedPartitions(n int) []api.PartitionItem {
	p.t.Helper()
	var stopped []api.PartitionItem
	var item *api.SubscriptionItem
	var err error
	if !rig.Until(30*time.Second, func() bool {
		if item, err = p.api.Subscription(p.t.Context(), "acme", "fulfil"); err != nil {
			return false
		}
		stopped = slices.DeleteFunc(item.Partitions, func(i api.PartitionItem) bool { return i.Stopped == nil || i.Stopped.ID == 0 })
		return len(stopped) == n
	}) {
		p.t.Fatalf("%d partitions never were stopped: %+v %v", n, item, err)
	}
	return stopped
}

// TestStopIsShownAndAcceptedInAnyProcess has a log whose start has passed unread records. The process that owns none of
// it shows the stop and accepts it; the owner goes on behind the hole.
func TestStopIsShownAndAcceptedInAnyProcess(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, database(t), true)
	intake := r.start(config.RoleIntake)
	intake.ready()
	stream := r.start(config.RoleStream)
	stream.ready()
	for rev := 1; rev <= 2; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	agent.wait(t, 2)
	stream.clean()
	for rev := 3; rev <= 5; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	const topic = "events.acme.orders"
	var number int32 = -1
	for n := range int32(3) {
		if r.cluster.PartitionInfo(topic, n).HighWatermark == 5 {
			number = n
		}
	}
	if err := r.cluster.DeleteRecords(topic, number, 4); err != nil {
		t.Fatal(err)
	}
	owner := r.start(config.RoleStream)
	owner.ready()
	found := owner.stoppedPartitions(1)[0]
	if s := found.Stopped; found.Partition != number || found.State != "stopped" || s.Kind != "below_log_start" || *s.Records != 2 || s.FromOffset != 2 || s.ToOffset != 4 ||
		s.FirstAt == nil || s.LastAt == nil || !strings.HasPrefix(s.Command, "forebay subscriptions accept acme.fulfil --topic events.acme.orders --partition ") {
		t.Errorf("%+v %+v", found, s)
	}
	// A process whose own config has the subscription, and none of its partitions.
	other := r.start(config.RoleStream)
	other.ready()
	seen := other.stoppedPartitions(1)[0]
	if seen.Stopped.ID != found.Stopped.ID {
		t.Errorf("the other process shows %+v", seen.Stopped)
	}
	where := api.AcceptRequest{Topic: topic, Partition: &number, Stop: found.Stopped.ID, DryRun: true}
	dry, err := other.api.Accept(t.Context(), "acme", "fulfil", where)
	if err != nil || len(dry.Items) != 1 || dry.Items[0].Stopped.Accepted != nil {
		t.Fatalf("%+v %v", dry, err)
	}
	where.DryRun = false
	if _, err := other.api.Accept(t.Context(), "acme", "fulfil", where); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("accepted without a reason: %v", err)
	}
	where.Reason, where.By = "a disk was lost", "ann@ops"
	done, err := other.api.Accept(t.Context(), "acme", "fulfil", where)
	if err != nil || len(done.Items) != 1 || done.Items[0].Stopped.Accepted == nil || done.Items[0].Stopped.Accepted.By != "ann@ops" {
		t.Fatalf("%+v %v", done, err)
	}
	// What is left waits for the two that are lost, as the subscription's gap says.
	waitBuffered(t, owner, "o-5")
	owner.stoppedPartitions(0)
	if _, err := other.api.Accept(t.Context(), "acme", "fulfil", where); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("accepted twice: %v", err)
	}
	if _, err := other.api.Subscription(t.Context(), "acme", "nothing"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
}

// waitBuffered waits until an event is in the gap buffer.
func waitBuffered(t *testing.T, p *process, id string) {
	t.Helper()
	var page api.Page[api.InboxItem]
	var err error
	if !rig.Until(30*time.Second, func() bool {
		page, err = p.api.Items(t.Context(), api.InboxFilter{Team: "acme", Decision: "buffered"})
		return err == nil && slices.ContainsFunc(page.Items, func(i api.InboxItem) bool { return i.EventID == id })
	}) {
		t.Fatalf("%s never came: %+v %v", id, page, err)
	}
}
