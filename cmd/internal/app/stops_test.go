package app

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// stoppedPartitions waits until n partitions of the orders' subscription are told as stopped.
func (p *process) stoppedPartitions(n int) []api.PartitionItem {
	p.t.Helper()
	var stopped []api.PartitionItem
	var item *api.SubscriptionItem
	var err error
	if !rig.Until(time.Minute, func() bool {
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
// it shows the stop, with its lag, and accepts it; the owner goes on behind the hole. What is decided is no lag.
func TestStopIsShownAndAcceptedInAnyProcess(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	intake := r.run(config.RoleIntake)
	stream := r.run(config.RoleStream)
	for rev := 1; rev <= 2; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	agent.wait(t, 2)
	number := r.partitionOf(2)
	stream.lag(number, func(i api.LagItem) bool {
		return i.State == "running" && strings.HasSuffix(i.Owner, fmt.Sprintf("/%d", os.Getpid())) && i.LogEnd == 2 && *i.Position == 2 && *i.Records == 0 && *i.Seconds == 0 && i.OldestAt == nil && *i.OpenActions == 0 && i.Mirror != nil && *i.Mirror == 2
	})
	if _, err := intake.api.Lag(t.Context(), "acme", "fulfil"); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the lag, asked of a process without the stream role: %v", err)
	}
	stream.clean()
	for rev := 3; rev <= 5; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	if err := r.cluster.DeleteRecords(ordersTopic, number, 4); err != nil {
		t.Fatal(err)
	}
	owner := r.run(config.RoleStream)
	found := owner.stoppedPartitions(1)[0]
	if s := found.Stopped; found.Partition != number || found.State != "stopped" || s.Kind != "below_log_start" || *s.Records != 2 || s.FromOffset != 2 || s.ToOffset != 4 ||
		s.FirstAt == nil || s.LastAt == nil || !strings.HasPrefix(s.Command, "forebay subscriptions accept acme.fulfil --topic events.acme.orders --partition ") {
		t.Errorf("%+v %+v", found, s)
	}
	// A process whose own config has the subscription, and none of its partitions.
	other := r.run(config.RoleStream)
	seen := other.stoppedPartitions(1)[0]
	if seen.Stopped.ID != found.Stopped.ID {
		t.Errorf("the other process shows %+v", seen.Stopped)
	}
	lag := other.lag(number, func(i api.LagItem) bool { return i.State == "stopped" })
	if *lag.Position != 2 || *lag.Mirror != 2 || lag.LogStart != 4 || lag.LogEnd != 5 || *lag.Records != 1 || lag.Detail == "" || lag.OldestAt == nil ||
		*lag.Seconds <= 0 || time.Since(*lag.OldestAt) > 10*time.Minute {
		t.Errorf("%+v, position, mirror, records %v", lag, numbers(lag.Position, lag.Mirror, lag.Records))
	}
	where := api.AcceptRequest{Topic: ordersTopic, Partition: &number, Stop: found.Stopped.ID, DryRun: true}
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
	if buffered := owner.listed(1, gate.Buffered, ""); buffered[0].EventID != "o-5" {
		t.Errorf("%+v", buffered)
	}
	owner.stoppedPartitions(0)
	if _, err := other.api.Accept(t.Context(), "acme", "fulfil", where); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("accepted twice: %v", err)
	}
	if _, err := other.api.Subscription(t.Context(), "acme", "nothing"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
	if _, err := other.api.Lag(t.Context(), "acme", "nothing"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
}
