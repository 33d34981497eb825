package producer

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Item is a delivery in a quarantine topic.
type Item struct {
	Partition int32
	Offset    int64
	Bytes     int // of the body
	ingest.Delivery
	Redriven *Redriven // nil: it was not; only of [List]
}

// Query says what [List] reads.
type Query struct {
	Topic string
	// Limit is how many deliveries, 1 to [MaxList].
	Limit int
	// Waiting leaves out those that were redriven.
	Waiting bool
	// Kind leaves out those of another kind; empty: none.
	Kind string
	// Before has, by partition, the offset below which deliveries are listed: where a page before this one has ended. Others are listed from
	// their end.
	Before map[int32]int64
}

const (
	// MaxList is the largest limit of [List].
	MaxList = 1001

	maxStretch = 16 * MaxList // how many offsets of a partition List reads at once, so that what is kept until its marks are known is little
)

// List reads the newest deliveries of a quarantine topic, as [Merge] orders its partitions, without their bodies and headers: [ReadOne] has those. It reads
// each partition backwards, from the end seen at the call, in stretches that grow, until it has Limit deliveries of it; so it ends while intake
// goes on writing. A mark has a higher offset than what it marks, so a delivery that is read comes with its own: for these the end is read although q.Before
// lies before it, and a page costs as much as all newer pages. opts are the brokers and their credentials; clients of its own are opened and
// closed. Errors are *schemas.Error: Invalid, NotFound, Unavailable.
func List(ctx context.Context, q Query, opts ...kgo.Opt) ([]Item, error) {
	op := "list " + q.Topic
	if q.Limit < 1 || q.Limit > MaxList {
		return nil, schemas.Errorf(schemas.Invalid, op, "limit %d is outside 1 to %d", q.Limit, MaxList)
	}
	open, err := bounds(ctx, q.Topic, opts)
	if err != nil {
		return nil, err
	}
	l := listing{Query: q, marks: map[[2]int64]Redriven{}}
	for width := int64(q.Limit); len(open) > 0; width = min(4*width, maxStretch) {
		stretch := map[int32]span{}
		for partition, left := range open {
			stretch[partition] = span{max(left.from, left.to-width), left.to}
		}
		if err := readSpans(ctx, q.Topic, stretch, opts, l.add); err != nil {
			return nil, err
		}
		counts := l.endStretch(stretch)
		for partition, left := range open {
			if left.to = stretch[partition].from; left.to <= left.from || counts[partition] >= q.Limit {
				delete(open, partition)
				continue
			}
			open[partition] = left
		}
	}
	items := l.items
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Offset, a.Offset))
	})
	var partitions [][]Item
	for len(items) > 0 {
		n := slices.IndexFunc(items, func(i Item) bool { return i.Partition != items[0].Partition })
		if n < 0 {
			n = len(items)
		}
		partitions, items = append(partitions, items[:n]), items[n:]
	}
	return Merge(partitions, q.Limit, func(i *Item) time.Time { return i.Received }), nil
}

// Merge returns at most limit items of lists: always the newest of those that come first in what is left of each. So every list keeps its order,
// whatever its times say, and a page can end at a place in each.
func Merge[T any](lists [][]T, limit int, at func(*T) time.Time) []T {
	lists = slices.Clone(lists)
	var merged []T
	for len(merged) < limit {
		newest := -1
		for n := range lists {
			if len(lists[n]) > 0 && (newest < 0 || at(&lists[n][0]).After(at(&lists[newest][0]))) {
				newest = n
			}
		}
		if newest < 0 {
			break
		}
		merged, lists[newest] = append(merged, lists[newest][0]), lists[newest][1:]
	}
	return merged
}

// listing is what List has found so far.
type listing struct {
	Query

	items []Item
	marks map[[2]int64]Redriven // by partition and offset of the delivery, until that is read
}

// add keeps a mark, or a delivery that lies below Before.
func (l *listing) add(r *kgo.Record) {
	if offset, m, ok := parseMark(r); ok {
		key := [2]int64{int64(r.Partition), offset}
		if l.marks[key].At.Before(m.At) {
			l.marks[key] = m
		}
		return
	}
	if before, ok := l.Before[r.Partition]; ok && r.Offset >= before {
		return
	}
	item := Quarantined(r)
	if l.Kind != "" && item.Kind != l.Kind {
		return
	}
	item.Body, item.Headers = nil, nil
	l.items = append(l.items, item)
}

// endStretch ends a stretch: the marks of its deliveries lie behind them, so they are known now. It drops the deliveries that are not asked
// for and the marks that no delivery before the stretch has, and returns how many deliveries there are of each partition.
func (l *listing) endStretch(stretch map[int32]span) map[int32]int {
	counts := map[int32]int{}
	l.items = slices.DeleteFunc(l.items, func(i Item) bool {
		_, ok := l.marks[[2]int64{int64(i.Partition), i.Offset}]
		return ok && l.Waiting
	})
	for n := range l.items {
		i := &l.items[n]
		if m, ok := l.marks[[2]int64{int64(i.Partition), i.Offset}]; ok {
			i.Redriven = &m
		}
		counts[i.Partition]++
	}
	maps.DeleteFunc(l.marks, func(key [2]int64, _ Redriven) bool {
		s, ok := stretch[int32(key[0])]
		return ok && key[1] >= s.from
	})
	return counts
}

// span is the offsets of a partition from one up to before another.
type span struct{ from, to int64 }

// stride is how many offsets a stretch backwards has. As a stretch counts only when it is whole, it grows while it is quick, and shrinks when
// it was not read in time: so the next try comes further.
type stride int64

const (
	firstStride stride = 64
	maxStride   stride = maxBack
	quick              = 500 * time.Millisecond
)

// before returns the stretch that ends before an offset, and does not begin before another.
func (s stride) before(to, from int64) span { return span{max(from, to-int64(s)), to} }

// after returns the stride of the next stretch.
func (s stride) after(took time.Duration, err error) stride {
	switch {
	case err != nil:
		return max(1, s/2)
	case took < quick:
		return min(2*s, maxStride)
	}
	return s
}

// bounds returns the offsets that each partition of a topic has; partitions without any are left out.
func bounds(ctx context.Context, topic string, opts []kgo.Opt) (map[int32]span, error) {
	op := "list " + topic
	admin, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer admin.Close()
	adm := kadm.NewClient(admin)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, schemas.Errorf(schemas.NotFound, op, "no such topic; run `forebay topics apply`")
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", record.Lacks(admin, "Read", "topic "+topic, err))
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", record.Lacks(admin, "Read", "topic "+topic, err))
	}
	spans := map[int32]span{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(topic, end.Partition); ok && start.Offset < end.Offset {
			spans[end.Partition] = span{start.Offset, end.Offset}
		}
	})
	return spans, nil
}

// readSpans reads spans of a topic's partitions and calls each for their records. Retention may take records away meanwhile; the client
// then jumps forward, and the record that it jumps to counts.
func readSpans(ctx context.Context, topic string, spans map[int32]span, opts []kgo.Opt, each func(*kgo.Record)) error {
	op := "read " + topic
	from := map[int32]kgo.Offset{}
	open := map[int32]int64{}
	for partition, s := range spans {
		if s.from < s.to {
			from[partition], open[partition] = kgo.NewOffset().At(s.from), s.to
		}
	}
	if len(open) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(slices.Clone(opts),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.KeepControlRecords(), // a partition may end with one, and the loop waits until it has come to the end
		kgo.FetchMaxBytes(8<<20), // beside lanes and intake; a larger record still comes, alone
	)...)
	if err != nil {
		return schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer client.Close()
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return schemas.Errorf(schemas.Unavailable, op, "%w", context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			return schemas.Errorf(schemas.Unavailable, op, "%w", record.Lacks(client, "Read", "topic "+topic, e.Err))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := open[r.Partition]
			if !ok {
				return
			}
			if r.Offset >= end-1 {
				delete(open, r.Partition)
			}
			if r.Offset < end && !r.Attrs.IsControl() {
				each(r)
			}
		})
	}
	return nil
}

// ReadSince calls each for the records that were appended to a topic at or after a time, up to the end that is seen at the call. whole says that
// the topic has deleted none of these. opts are as in [List].
func ReadSince(ctx context.Context, topic string, since time.Time, each func(*kgo.Record), opts ...kgo.Opt) (whole bool, err error) {
	spans, err := bounds(ctx, topic, opts)
	if err != nil {
		return false, err
	}
	op := "read " + topic
	admin, err := kgo.NewClient(opts...)
	if err != nil {
		return false, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer admin.Close()
	adm := kadm.NewClient(admin)
	begins, err := adm.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topic)
	if err = cmp.Or(err, begins.Error()); err != nil {
		return false, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	keeps, err := keeps(ctx, adm, topic, time.Since(since))
	if err != nil {
		return false, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	cut := false // what came since then may have been deleted
	begins.Each(func(begin kadm.ListedOffset) {
		s, some := spans[begin.Partition]
		cut = cut || begin.Offset > 0 && (!some || begin.Offset <= s.from)
		if some {
			spans[begin.Partition] = span{max(s.from, begin.Offset), s.to}
		}
	})
	return keeps || !cut, readSpans(ctx, topic, spans, opts, each)
}

// keeps reports whether a topic's settings have records kept for so long.
func keeps(ctx context.Context, adm *kadm.Client, topic string, long time.Duration) (bool, error) {
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return false, err
	}
	settings, err := configs.On(topic, nil)
	if err = cmp.Or(err, settings.Err); err != nil {
		return false, err
	}
	limit := func(name string) int64 {
		i := slices.IndexFunc(settings.Configs, func(c kadm.Config) bool { return c.Key == name })
		if i < 0 {
			return 0
		}
		n, _ := strconv.ParseInt(settings.Configs[i].MaybeValue(), 10, 64)
		return n
	}
	after := limit("retention.ms")
	return limit("retention.bytes") < 0 && (after < 0 || after > long.Milliseconds()), nil
}
