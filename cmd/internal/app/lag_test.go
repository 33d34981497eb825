package app

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/reader"
)

// lag returns how far the orders' subscription is behind in a partition, once ok says that it is as awaited.
func (p *process) lag(number int32, ok func(api.LagItem) bool) api.LagItem {
	p.t.Helper()
	var last api.LagItem
	if !rig.Until(time.Minute, func() bool {
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

// TestLagThatIsNotCounted: what could not be counted is null, and what was never claimed has nothing open.
func TestLagThatIsNotCounted(t *testing.T) {
	t.Parallel()
	s := standAt(5, 5, 9)
	if i := s.lag(nameInTeam{}); i.OpenActions != nil || i.Waiting != nil || *i.Records != 4 {
		t.Errorf("%+v", i)
	}
	s.written += 2
	if i := s.lag(nameInTeam{}); *i.Records != 6 {
		t.Errorf("%d records, of which two are behind a transaction that is open", *i.Records)
	}
	s.ledger.Counts = &inbox.Counts{Open: 1, Tried: 2, Dead: 2, Waiting: 3}
	if i := s.lag(nameInTeam{}); *i.OpenActions != 3 || *i.Waiting != 3 {
		t.Errorf("%+v", i)
	}
	if i := (&partitionPosition{}).lag(nameInTeam{}); *i.OpenActions != 0 || *i.Waiting != 0 {
		t.Errorf("%+v", i)
	}
}

// betweenEnds produces a record as soon as the first of the two ends of a topic's log is known: the third answer about offsets is the second end.
type betweenEnds struct {
	asked   atomic.Int32
	produce func()
}

func (b *betweenEnds) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == kmsg.ListOffsets.Int16() && b.asked.Add(1) == 2 {
		b.produce()
	}
}

// A record that comes between the questions for the two ends of the log is none that cannot be read yet.
func TestLagOfARecordThatJustCame(t *testing.T) {
	t.Parallel()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	producer := client(kgo.DefaultProduceTopic("t"))
	between := &betweenEnds{produce: func() {
		if err := producer.ProduceSync(context.Background(), kgo.StringRecord("r")).FirstErr(); err != nil {
			t.Error(err)
		}
	}}
	cl := client(kgo.WithHooks(between))
	b := &asker{cl: cl, adm: kadm.NewClient(cl), log: reader.NewLog(cl)}
	got, err := b.topic(t.Context(), "t", "g")
	if err != nil || len(got) != 1 || got[0].end != 1 || got[0].written != 1 || between.asked.Load() != 3 {
		t.Errorf("%+v %v, after %d answers", got, err, between.asked.Load())
	}
}
