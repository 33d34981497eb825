package reader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Delivered says what [Find] looks for, and how much of the log it reads at a time.
type Delivered struct {
	Topics []string
	// Match reports whether a record is of the delivery; nil: if it is an event with the delivery's id ID.
	Match func(*kgo.Record) bool
	// ID is the provider's id of a delivery.
	ID string
	// From and Before bound when the records were written; a zero From is the log's start.
	From, Before time.Time
	// Width is the first stretch of time that is read. Default a minute; [Search.Width] goes on where a search ended.
	Width time.Duration
	// Most is how many records a stretch has at most, if it is longer than a second. Default 50,000.
	Most int64
	// Within is how long a stretch may take to read. Default 6 s.
	Within time.Duration
}

// Search is what [Find] came to.
type Search struct {
	Found []Found
	// From is how far back it came: Delivered.From, where it came to the end.
	From time.Time
	// Width is the stretch to begin with where another search goes on.
	Width time.Duration
}

// Found is a record that was looked for. Key is the event's; zero if the record is none.
type Found struct {
	Key       schemas.EventKey
	Event     *schemas.Event // nil if the record is none
	Topic     string
	Partition int32
	Offset    int64
	At        time.Time // the record's
}

// leastWidth is the shortest stretch of time that is read in one go.
const leastWidth = time.Second

// Find looks in the log for what was delivered under an id. The ledger does not keep these ids: each would cost every event its bytes
// there, for a question that is seldom asked.
//
// It goes back from q.Before in stretches of time that grow, and ends with the first that has one. A stretch with more records than
// q.Most, or that takes longer to read than q.Within, is tried again shorter. Before each stretch it asks more; once that says no, it ends
// where it is. opts are the brokers and their credentials, for a client of its own. Errors are *schemas.Error of kind Unavailable.
func Find(ctx context.Context, q Delivered, more func() bool, opts ...kgo.Opt) (s Search, err error) {
	const op = "look for a delivery in the log"
	// What was aborted is read too: the ledger does not know it, and a transaction that stays open holds nothing up. Control records
	// count as places, or the last of them would be waited for.
	cl, err := kgo.NewClient(append(slices.Clone(opts), kgo.KeepControlRecords(), kgo.FetchMaxBytes(fetchBytes))...)
	if err != nil {
		return s, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer cl.Close()
	if q.Match == nil {
		q.Match = func(r *kgo.Record) bool { return record.DeliveryID(r) == q.ID }
	}
	q.Most, q.Within = cmp.Or(q.Most, 50_000), cmp.Or(q.Within, 6*time.Second)
	s = Search{From: q.Before, Width: cmp.Or(q.Width, time.Minute)}
	f := finder{cl: cl, adm: kadm.NewClient(cl), topics: q.Topics, match: q.Match}
	to, err := f.offsetsAt(ctx, q.Before)
	for err == nil && len(s.Found) == 0 && s.From.After(q.From) && more() {
		to, err = f.stretch(ctx, q, &s, to)
	}
	if err != nil {
		return s, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	return s, nil
}

// stretch reads one stretch of time before s.From, up to the offsets to, and moves s back by it. It returns the offsets where it begins.
// Where it takes too long, s stays, with a shorter width.
func (f finder) stretch(ctx context.Context, q Delivered, s *Search, to kadm.ListedOffsets) (kadm.ListedOffsets, error) {
	var from kadm.ListedOffsets
	var since time.Time
	for {
		if since = s.From.Add(-s.Width); since.Before(q.From) || q.Before.Sub(since) > 400*24*time.Hour {
			since = q.From
		}
		var err error
		if from, err = f.offsetsAt(ctx, since); err != nil {
			return to, err
		}
		if s.Width <= leastWidth || countOffsets(from, to) <= q.Most {
			break
		}
		s.Width = max(min(s.Width, s.From.Sub(since))/4, leastWidth)
	}
	limited, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	found, err := f.between(limited, from, to)
	slow := limited.Err() != nil && ctx.Err() == nil
	switch {
	case len(found) > 0 || err == nil:
		s.Found, s.From, s.Width = found, since, s.Width*4
		return from, nil
	case slow && s.Width > leastWidth:
		s.Width = max(s.Width/4, leastWidth)
		return to, nil
	case slow:
		return to, fmt.Errorf("what was written in the second before %s is too much to read in %s; look with --since and --cursor around it, or in the provider's list for the entity",
			s.From.UTC().Format(time.RFC3339), q.Within)
	}
	return to, err
}

// countOffsets returns how many offsets lie between.
func countOffsets(from, to kadm.ListedOffsets) (n int64) {
	to.Each(func(end kadm.ListedOffset) {
		if begin, ok := from.Lookup(end.Topic, end.Partition); ok && begin.Err == nil && end.Err == nil {
			n += max(end.Offset-begin.Offset, 0)
		}
	})
	return n
}

// finder reads stretches of topics.
type finder struct {
	cl     *kgo.Client
	adm    *kadm.Client
	topics []string
	match  func(*kgo.Record) bool
}

// offsetsAt returns for each partition the offset of the first record at a time or later, or the log's end where there is none; at the zero
// time, the log's start. What it returns of a topic that does not exist has its Err set, and is skipped by callers.
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

// between reads what lies from one offset up to before another, in each partition. It returns what it has found also with an error.
func (f finder) between(ctx context.Context, from, to kadm.ListedOffsets) (list []Found, err error) {
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
			return list, context.Cause(ctx)
		}
		for _, e := range fetches.Errors() {
			return list, e.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := ends[r.Topic][r.Partition]
			if !open {
				return
			}
			if r.Offset >= end-1 {
				delete(ends[r.Topic], r.Partition)
			}
			if r.Offset < end && !r.Attrs.IsControl() && f.match(r) {
				found := Found{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, At: r.Timestamp}
				if e, err := record.Decode(r); err == nil {
					found.Event, found.Key = e, e.Key()
				}
				list = append(list, found)
			}
		})
	}
	return list, nil
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
