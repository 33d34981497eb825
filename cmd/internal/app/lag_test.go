package app

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
)

// lag returns how far the orders' subscription is behind in a partition, once ok says that it is as awaited.
func (p *process) lag(number int32, ok func(api.LagItem) bool) api.LagItem {
	p.t.Helper()
	var last api.LagItem
	if !rig.Until(30*time.Second, func() bool {
		page, err := p.api.Lag(p.t.Context(), "acme", "fulfil")
		if err != nil || len(page.Items) != 3 {
			p.t.Fatalf("%+v %v", page, err)
		}
		last = page.Items[number]
		return ok(last)
	}) {
		p.t.Fatalf("the lag never was as awaited: %+v, position %v", last, numbers(last.Position, last.Mirror, last.Records))
	}
	return last
}

func numbers(all ...*int64) (out []int64) {
	for _, n := range all {
		if n == nil {
			out = append(out, -1)
		} else {
			out = append(out, *n)
		}
	}
	return out
}

// partitionOf returns the partition of the orders' topic that has n records, all of them of one entity.
func (r *deployment) partitionOf(n int64) int32 {
	r.t.Helper()
	for number := range int32(3) {
		if r.cluster.PartitionInfo("events.acme.orders", number).HighWatermark == n {
			return number
		}
	}
	r.t.Fatalf("no partition has %d records", n)
	return -1
}

// TestLag: what is decided is no lag; what came meanwhile is, in records and in its age, and a partition that stands still and that another
// process would have is told the same way.
func TestLag(t *testing.T) {
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
	number := r.partitionOf(2)
	stream.lag(number, func(i api.LagItem) bool {
		return i.State == "running" && strings.HasSuffix(i.Owner, fmt.Sprintf("/%d", os.Getpid())) && i.LogEnd == 2 && *i.Position == 2 && *i.Records == 0 && *i.Seconds == 0 && i.OldestAt == nil && *i.OpenActions == 0 && i.Mirror != nil && *i.Mirror == 2
	})
	if _, err := intake.api.Lag(t.Context(), "acme", "fulfil"); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("asked of a process without the stream role: %v", err)
	}
	if _, err := stream.api.Lag(t.Context(), "acme", "none"); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("of a subscription that is not there: %v", err)
	}
	stream.clean()
	for rev := 3; rev <= 5; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	if err := r.cluster.DeleteRecords("events.acme.orders", number, 4); err != nil {
		t.Fatal(err)
	}
	r.start(config.RoleStream).ready()
	other := r.start(config.RoleStream)
	other.ready()
	i := other.lag(number, func(i api.LagItem) bool { return i.State == "stopped" })
	if *i.Position != 2 || *i.Mirror != 2 || i.LogStart != 4 || i.LogEnd != 5 || *i.Records != 1 || i.Detail == "" || i.OldestAt == nil ||
		*i.Seconds <= 0 || time.Since(*i.OldestAt) > time.Minute {
		t.Errorf("%+v, position, mirror, records %v", i, numbers(i.Position, i.Mirror, i.Records))
	}
}

// TestLagThatIsNotCounted: what could not be counted is null, and what was never claimed has nothing open.
func TestLagThatIsNotCounted(t *testing.T) {
	t.Parallel()
	s := standAt(5, 5, 9)
	if i := s.lag(nameInTeam{}); i.OpenActions != nil || i.Waiting != nil || *i.Records != 4 {
		t.Errorf("%+v", i)
	}
	s.ledger.Counts = &inbox.Counts{Open: 1, Tried: 2, Dead: 2, Waiting: 3}
	if i := s.lag(nameInTeam{}); *i.OpenActions != 3 || *i.Waiting != 3 {
		t.Errorf("%+v", i)
	}
	if i := (&partitionPosition{}).lag(nameInTeam{}); *i.OpenActions != 0 || *i.Waiting != 0 {
		t.Errorf("%+v", i)
	}
}
