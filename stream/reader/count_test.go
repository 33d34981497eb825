package reader

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where every record is in its place nobody asks, and where not it is once a poll.
func TestCountIsAskedOnceAPoll(t *testing.T) {
	t.Parallel()
	f, in, _ := cutter(t, 0, 100, 1<<20)
	in.partitions = 2
	asked := 0
	f.count = func(_ context.Context, name string) (Topic, error) {
		asked++
		return Topic{Partitions: 2}, nil
	}
	poll := func(recs ...*kgo.Record) string {
		for i, rec := range recs {
			rec.Partition, rec.Offset = 0, in.next.Offset+int64(i)
		}
		return summary(f.units(t.Context(), kgo.Fetches{fetched(kgo.FetchPartition{Records: recs})}))
	}
	here, there := func() *kgo.Record { return placed(1, 0, 2, 0, 3) }, func() *kgo.Record { return placed(1, 1, 2, 0, 3) }
	if got := poll(here(), here(), here()); got != "0,1,2>3" || asked != 0 {
		t.Errorf("records in their place: %s after %d questions", got, asked)
	}
	if got := poll(there(), here(), there(), there()); got != "3,4,5,6>7" || asked != 1 {
		t.Errorf("a producer that places otherwise: %s after %d questions", got, asked)
	}
	if poll(there()); asked != 2 {
		t.Errorf("%d questions in two such polls", asked)
	}
	f.count = func(context.Context, string) (Topic, error) { return Topic{Partitions: 3}, nil }
	if got := poll(here(), there(), here()); got != "8>9 9! topic events.acme.orders has 3 partitions by now" {
		t.Errorf("in a topic that has grown: %s", got)
	}
}

// A broker that has not heard of new partitions yet does not speak for the others, which may have told a producer; one that says
// nothing leaves the question open.
func TestCountIsTheMostThatAnyBrokerKnows(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.Grow(3)
	b := NewLog(r.Client)
	var late atomic.Int32 // which broker
	var code atomic.Int32 // what it says
	r.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		if r.Cluster.CurrentNode() != late.Load() {
			return nil, nil, false
		}
		return r.Knowing(req.(*kmsg.MetadataRequest), 2, int16(code.Load())), nil, true
	})
	for i := range int32(20) { // whichever is asked first
		late.Store(i % 2)
		if got, err := b.Count(r.Ctx(), testTopic); err != nil || got.Partitions != 3 || got.ID != r.TopicID() {
			t.Fatalf("broker %d is late: %+v, %v", i%2, got, err)
		}
	}
	code.Store(int32(kerr.KafkaStorageError.Code))
	for i := range int32(20) {
		late.Store(i % 2)
		if got, err := b.Count(r.Ctx(), testTopic); err == nil {
			t.Fatalf("broker %d has no answer: %+v", i%2, got)
		}
	}
}
