package producer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// Item is a delivery in a quarantine topic.
type Item struct {
	Partition int32
	Offset    int64
	Bytes     int // of the body
	ingest.Delivery
}

// Query says what [List] reads.
type Query struct {
	Topic string
	// Limit is how many deliveries, 1 to [MaxList].
	Limit int
}

// MaxList is the largest limit of [List].
const MaxList = 1000

// List reads the newest deliveries of a quarantine topic, newest first, without their bodies: [ReadOne] has those. It reads the last
// Limit offsets of each partition, up to the end seen at the call, so it ends while intake goes on writing, and holds at most Limit
// records a partition. Where offsets are taken by control records, there may be fewer deliveries than Limit, although older ones exist. opts are the brokers and their credentials; a client of its own is opened and closed. Errors
// are *schemas.Error: Invalid, NotFound, Unavailable.
func List(ctx context.Context, q Query, opts ...kgo.Opt) ([]Item, error) {
	op := "list " + q.Topic
	if q.Limit < 1 || q.Limit > MaxList {
		return nil, schemas.Errorf(schemas.Invalid, op, "limit %d is outside 1 to %d", q.Limit, MaxList)
	}
	admin, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer admin.Close()
	from, ends, err := window(ctx, kadm.NewClient(admin), q)
	if err != nil {
		return nil, err
	}
	if len(ends) == 0 {
		return nil, nil
	}
	client, err := kgo.NewClient(append(slices.Clone(opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.Topic: from}),
		kgo.KeepControlRecords(), // a partition may end with one, and drain waits until it has come to the end
	)...)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer client.Close()
	items, err := drain(ctx, client, ends)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(b.Received.Compare(a.Received), cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Offset, a.Offset))
	})
	return items[:min(len(items), q.Limit)], nil
}

// window returns the offset to read from and the end, for each partition that has something to read.
func window(ctx context.Context, adm *kadm.Client, q Query) (map[int32]kgo.Offset, map[int32]int64, error) {
	topic, op := q.Topic, "list "+q.Topic
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil, schemas.Errorf(schemas.NotFound, op, "no such topic; run `forebay topics apply`")
	}
	if err != nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	from, to := make(map[int32]kgo.Offset), make(map[int32]int64)
	ends.Each(func(end kadm.ListedOffset) {
		begin := end.Offset - int64(q.Limit)
		if start, ok := starts.Lookup(topic, end.Partition); ok {
			begin = max(begin, start.Offset)
		}
		if begin < end.Offset {
			from[end.Partition], to[end.Partition] = kgo.NewOffset().At(begin), end.Offset
		}
	})
	return from, to, nil
}

// drain reads until every partition has reached its end. Retention may take records away meanwhile; the client then
// jumps forward, and the record it jumps to counts.
func drain(ctx context.Context, client *kgo.Client, ends map[int32]int64) ([]Item, error) {
	var items []Item
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		for _, e := range fetches.Errors() {
			return nil, e.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := ends[r.Partition]
			if !ok {
				return
			}
			if r.Offset >= end-1 {
				delete(ends, r.Partition)
			}
			if r.Offset >= end || r.Attrs.IsControl() {
				return
			}
			item := parseQuarantine(r)
			item.Body = nil
			items = append(items, item)
		})
	}
	return items, nil
}
