package reader

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Delivered says what [Find] looks for.
type Delivered struct {
	Topics []string
	// ID is the provider's id of a delivery.
	ID string
	// From and Before bound when the records were written; a zero From is the log's start.
	From, Before time.Time
}

// Find looks in the log for the events that were delivered under an id, and returns their keys. The ledger does not keep these ids: each
// would cost every event its bytes there, for a question that is seldom asked.
//
// It goes back from q.Before in stretches of time that grow, and ends with the first that has one. Before each stretch it asks more; once
// that says no, it ends where it is. searched is how far back it came: q.From, where it came to the end. opts are the brokers and their
// credentials, for a client of its own. Errors are *schemas.Error of kind Unavailable.
func Find(ctx context.Context, q Delivered, more func() bool, opts ...kgo.Opt) (keys []schemas.EventKey, searched time.Time, err error) {
	const op = "look for a delivery in the log"
	// What was aborted is read too: the ledger does not know it, and a transaction that stays open holds nothing up. Control records
	// count as places, or the last of them would be waited for.
	cl, err := kgo.NewClient(append(slices.Clone(opts), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, searched, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer cl.Close()
	f := finder{cl: cl, adm: kadm.NewClient(cl), topics: q.Topics, id: q.ID}
	to, err := f.offsetsAt(ctx, q.Before)
	searched = q.Before
	for width := time.Minute; err == nil && len(keys) == 0 && searched.After(q.From) && more(); width *= 4 {
		since := q.Before.Add(-width)
		if since.Before(q.From) || width > 400*24*time.Hour {
			since = q.From
		}
		var from kadm.ListedOffsets
		if from, err = f.offsetsAt(ctx, since); err != nil {
			break
		}
		if keys, err = f.between(ctx, from, to); err == nil {
			to, searched = from, since
		}
	}
	if err != nil {
		return nil, searched, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	return keys, searched, nil
}

// finder reads stretches of topics.
type finder struct {
	cl     *kgo.Client
	adm    *kadm.Client
	topics []string
	id     string
}

// offsetsAt returns the offset in each partition of the first record at a time or later; the log's start at the zero time. A topic that
// does not exist has none.
func (f finder) offsetsAt(ctx context.Context, at time.Time) (offsets kadm.ListedOffsets, err error) {
	if at.IsZero() {
		offsets, err = f.adm.ListStartOffsets(ctx, f.topics...)
	} else {
		offsets, err = f.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), f.topics...)
	}
	if err != nil {
		return nil, err
	}
	offsets.Each(func(o kadm.ListedOffset) {
		if o.Err != nil && o.Err != kerr.UnknownTopicOrPartition { //nolint:errorlint // kerr's errors are values
			err = o.Err
		}
	})
	return offsets, err
}

// between reads what lies from one offset up to before another, in each partition.
func (f finder) between(ctx context.Context, from, to kadm.ListedOffsets) (keys []schemas.EventKey, err error) {
	ends := map[string]map[int32]int64{}
	add := map[string]map[int32]kgo.Offset{}
	to.Each(func(end kadm.ListedOffset) {
		begin, ok := from.Lookup(end.Topic, end.Partition)
		if !ok || begin.Err != nil || end.Err != nil || begin.Offset >= end.Offset {
			return
		}
		if ends[end.Topic] == nil {
			ends[end.Topic], add[end.Topic] = map[int32]int64{}, map[int32]kgo.Offset{}
		}
		ends[end.Topic][end.Partition] = end.Offset
		add[end.Topic][end.Partition] = kgo.NewOffset().At(begin.Offset)
	})
	f.cl.AddConsumePartitions(add)
	defer func() {
		for topic, partitions := range add {
			left := make([]int32, 0, len(partitions))
			for p := range partitions {
				left = append(left, p)
			}
			f.cl.RemoveConsumePartitions(map[string][]int32{topic: left})
		}
	}()
	for left(ends) {
		fetches := f.cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		for _, e := range fetches.Errors() {
			return nil, e.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := ends[r.Topic][r.Partition]
			if !open {
				return
			}
			if r.Offset >= end-1 {
				delete(ends[r.Topic], r.Partition)
			}
			if r.Offset < end && !r.Attrs.IsControl() && record.DeliveryID(r) == f.id {
				if e, err := record.Decode(r); err == nil && !slices.Contains(keys, e.Key()) {
					keys = append(keys, e.Key())
				}
			}
		})
	}
	return keys, nil
}

// left reports whether a partition has not come to its end.
func left(ends map[string]map[int32]int64) bool {
	for _, partitions := range ends {
		if len(partitions) > 0 {
			return true
		}
	}
	return false
}
