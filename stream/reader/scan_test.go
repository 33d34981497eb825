package reader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A partition that cannot be read is told of when the time is over, with how to leave that out; the others are read. One that something was read of
// is given the next time.
func TestScanTellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.Produce(0, 1, 2, 3)
	r.Produce(1, 4, 5, 6)
	cfg := Config{Client: []kgo.Opt{r.Seed()}, Filter: Globs(nil), BatchRecords: 100, BatchBytes: 1 << 20, MaxRecordBytes: 1 << 20, OnError: func(error) {}}
	next := [2]int64{}
	scan := func(within time.Duration) error {
		ranges := make([]Range, 2)
		for i := range ranges {
			ranges[i] = Range{Partition: ledger.Partition{Topic: testTopic, TopicID: r.TopicID(), Number: int32(i)}, Partitions: 2, From: next[i], To: 3}
		}
		return Scan(t.Context(), cfg, ranges, within, func(i int, _ []ledger.Record, at int64) error { next[i] = at; return nil })
	}
	fault := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	err := scan(time.Second)
	for until := time.Now().Add(patience); (next[0] < 3 || err == nil) && time.Now().Before(until); {
		err = scan(time.Second)
	}
	if err == nil || !strings.Contains(err.Error(), "read events.acme.orders/1 at 0: ") || !strings.Contains(err.Error(), "--from-offset events.acme.orders/1=OFFSET") || next != [2]int64{3, 0} {
		t.Errorf("%v, %v", err, next)
	}
	fault.Remove()
	if err := scan(patience); err != nil || next != [2]int64{3, 3} {
		t.Errorf("%v, %v", err, next)
	}
}

// Where the brokers cannot give the record of an offset, the error says so when the time is over; where they do not answer for it, nothing can be left out.
func TestAppendTimeTellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, why := range []*kerr.Error{kerr.UnknownServerError, kerr.KafkaStorageError} {
		r := newRig(t, 1)
		r.Produce(0, 1)
		fault := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: why, Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		at := ledger.Partition{Topic: testTopic, TopicID: r.TopicID()}
		_, err := NewLog(r.Client).AppendTime(ctx, at, 0)
		if err == nil || Unreadable(err) != (why == kerr.UnknownServerError) {
			t.Errorf("%v: %v", why, err)
		}
		fault.Remove()
	}
}

// An error after which the client asks again, without telling anybody, is told of, too.
func TestScanAsksWhyNothingComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2, 3)
	cfg := Config{Client: []kgo.Opt{r.Seed()}, Filter: Globs(nil), BatchRecords: 100, BatchBytes: 1 << 20, MaxRecordBytes: 1 << 20, OnError: func(error) {}}
	r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: -1})
	ranges := []Range{{Partition: ledger.Partition{Topic: testTopic, TopicID: r.TopicID()}, Partitions: 1, To: 3}}
	err := Scan(t.Context(), cfg, ranges, time.Second, func(int, []ledger.Record, int64) error { return nil })
	if !errors.Is(err, kerr.KafkaStorageError) || !strings.Contains(err.Error(), "--from-offset events.acme.orders/0=OFFSET") {
		t.Error(err)
	}
}
