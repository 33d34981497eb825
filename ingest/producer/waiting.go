package producer

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Waiting knows which deliveries of quarantine topics wait for an operator: those without a mark, but for refused ones, which a stranger can
// make as many of as are kept. It reads each partition backwards from
// its end until it has the newest maxWaiting of them, as [List] does, and from then on what is new. When some of them are dealt with, it
// reads on backwards. The zero value is ready. Safe for concurrent use.
type Waiting struct {
	mu   sync.Mutex // held while it reads, so that nothing is read twice
	read map[string]map[int32]*waiting
	back int64 // in tests, in place of maxBack
}

const (
	maxWaiting = 1000            // how many deliveries of a partition are remembered
	maxBack    = 64 * maxWaiting // how many offsets of a partition one Look reads backwards; the next one goes on
)

// waiting is what is known of a partition.
type waiting struct {
	span   span           // what has been read and is remembered
	stride stride         // of the next stretch backwards
	open   map[int64]Item // the deliveries in it that wait, by offset, without bodies and headers
	marked map[int64]bool // the deliveries that have marks, also those before it: their marks lie behind them
}

// Backlog is the deliveries of a topic that wait, without bodies and headers, the oldest first. More says that there may be others.
type Backlog struct {
	Items []Item
	More  bool
	Err   error // why the topic could not be read to its ends: Items are those that are known, and there may be more
}

// Look returns the backlogs of topics. A topic that does not exist has none. If reading takes longer than ctx allows, the next Look goes on
// from there, and what is known is returned with the reason. Only if nothing is known of any topic is that an error, as it is when the
// brokers do not say where topics end. A topic that they do not let cl look at takes nothing from the others. cl asks them that; opts, the brokers and
// their credentials, are for the client that reads what is new. Errors are *schemas.Error.
func (w *Waiting) Look(ctx context.Context, cl *kgo.Client, topics []string, opts ...kgo.Opt) (map[string]Backlog, error) {
	spans, refused, err := boundsOf(ctx, cl, topics)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read == nil {
		w.read = map[string]map[int32]*waiting{}
	}
	out, known := map[string]Backlog{}, len(spans)+len(refused) == 0
	for topic, partitions := range spans { // in any order, so that a slow topic takes the time of others in some looks only
		if w.read[topic] == nil {
			w.read[topic] = map[int32]*waiting{}
		}
		failed := w.readOn(ctx, topic, partitions, opts)
		if failed == nil {
			failed = w.readBack(ctx, topic, partitions, opts)
		}
		out[topic] = w.backlog(topic, partitions, failed)
		known = known || failed == nil || len(out[topic].Items) > 0
		err = cmp.Or(err, failed)
	}
	for topic, failed := range refused {
		had := map[int32]span{}
		for partition, p := range w.read[topic] {
			had[partition] = p.span
		}
		out[topic] = w.backlog(topic, had, failed)
		known = known || len(out[topic].Items) > 0
		err = cmp.Or(err, failed)
	}
	if !known {
		return nil, err
	}
	return out, nil
}

// backlog returns what is known of a topic that was read, or that could not be.
func (w *Waiting) backlog(topic string, partitions map[int32]span, failed error) Backlog {
	sum := Backlog{Err: failed, More: failed != nil}
	for partition, s := range partitions {
		p := w.read[topic][partition]
		sum.Items = slices.AppendSeq(sum.Items, maps.Values(p.open))
		sum.More = sum.More || p.span.from > s.from
	}
	slices.SortFunc(sum.Items, func(a, b Item) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return sum
}

// readOn reads what is new in a topic. Of a partition that it does not know, nothing is.
func (w *Waiting) readOn(ctx context.Context, topic string, partitions map[int32]span, opts []kgo.Opt) error {
	known, missing := w.read[topic], map[int32]span{}
	for partition, s := range partitions {
		p := known[partition]
		if p == nil || s.to < p.span.to { // the topic was created again
			p = &waiting{span: span{s.to, s.to}, stride: firstStride, open: map[int64]Item{}, marked: map[int64]bool{}}
			known[partition] = p
		}
		p.forget(s.from) // gone by retention
		if p.span.to = max(p.span.to, s.from); p.span.to < s.to {
			missing[partition] = span{p.span.to, s.to}
		}
	}
	err := readSpans(ctx, topic, missing, opts, func(r *kgo.Record) {
		p := known[r.Partition]
		p.span.to = r.Offset + 1
		p.add(r)
		if len(p.open) >= 2*maxWaiting {
			p.trim()
		}
	})
	for partition, s := range missing {
		p := known[partition]
		p.trim()
		if err == nil {
			p.span.to = s.to // control records at the end are none of ours
		}
	}
	return err
}

// readBack reads partitions of which fewer than maxWaiting deliveries are known backwards, in stretches that grow while they are quick.
// A stretch counts when it is whole: what was found in a part of it is read again, in a shorter one.
func (w *Waiting) readBack(ctx context.Context, topic string, partitions map[int32]span, opts []kgo.Opt) error {
	known, done := w.read[topic], map[int32]int64{}
	for partition := range partitions {
		known[partition].stride = min(known[partition].stride, firstStride) // often a few are missing
	}
	for {
		stretch, found := map[int32]span{}, map[int32]*waiting{}
		for partition, s := range partitions {
			p, left := known[partition], cmp.Or(w.back, maxBack)-done[partition]
			if len(p.open) < maxWaiting && left > 0 && p.span.from > s.from {
				stretch[partition] = p.stride.before(p.span.from, max(s.from, p.span.from-left))
				found[partition] = &waiting{open: map[int64]Item{}, marked: p.marked}
			}
		}
		if len(stretch) == 0 {
			return nil
		}
		if ctx.Err() != nil { // another topic took the time: no stretch was too long
			return schemas.Errorf(schemas.Unavailable, "read "+topic, "%w", context.Cause(ctx))
		}
		began := time.Now()
		err := readSpans(ctx, topic, stretch, opts, func(r *kgo.Record) { found[r.Partition].add(r) })
		for partition, s := range stretch {
			p := known[partition]
			p.stride = p.stride.after(time.Since(began), err)
			if err != nil {
				continue
			}
			maps.Copy(p.open, found[partition].open)
			p.span.from = s.from
			p.trim()
			done[partition] += s.to - s.from
		}
		if err != nil {
			return err
		}
	}
}

// add takes a record: a delivery waits unless it is marked, and a mark is about a delivery before it.
func (p *waiting) add(r *kgo.Record) {
	if about, _, ok := parseMark(r); ok {
		p.marked[about] = true
		delete(p.open, about)
	} else if !p.marked[r.Offset] && header(r, headerKind) != ingest.KindRefused {
		item := Quarantined(r)
		item.Body, item.Headers = nil, nil
		p.open[r.Offset] = item
	}
}

// trim forgets the oldest deliveries beyond maxWaiting; when there is room again, they are read again.
func (p *waiting) trim() {
	if beyond := len(p.open) - maxWaiting; beyond > 0 {
		last := slices.Sorted(maps.Keys(p.open))[beyond-1]
		p.span.from = last + 1
		maps.DeleteFunc(p.open, func(offset int64, _ Item) bool { return offset <= last })
	}
}

// forget drops what is before an offset.
func (p *waiting) forget(from int64) {
	p.span.from = max(p.span.from, from)
	maps.DeleteFunc(p.open, func(offset int64, _ Item) bool { return offset < from })
	maps.DeleteFunc(p.marked, func(offset int64, _ bool) bool { return offset < from })
}

// boundsOf returns the offsets that the partitions of topics have, of those topics that exist, and which right is missing to look at the others: kadm,
// which ends its whole answer at one of these, is not asked for them.
func boundsOf(ctx context.Context, cl *kgo.Client, topics []string) (out map[string]map[int32]span, refused map[string]error, err error) {
	const op = "look at the quarantine topics"
	out, refused = map[string]map[int32]span{}, map[string]error{}
	if len(topics) == 0 {
		return out, refused, nil
	}
	there, err := record.Topics(ctx, cl, topics)
	if err != nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	var seen []string
	for name, t := range there {
		if err := kerr.ErrorForCode(t.ErrorCode); errors.Is(err, kerr.TopicAuthorizationFailed) {
			refused[name] = schemas.Errorf(schemas.Unavailable, op, "%w", record.Lacks(cl, "Describe", "topic "+name, err))
		} else if err == nil {
			seen = append(seen, name)
		}
	}
	if len(seen) == 0 { // the client would ask for all
		return out, refused, nil
	}
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, seen...)
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = adm.ListEndOffsets(ctx, seen...)
	}
	if err != nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(end.Topic, end.Partition)
		if !ok || end.Err != nil || start.Err != nil {
			return
		}
		if out[end.Topic] == nil {
			out[end.Topic] = map[int32]span{}
		}
		out[end.Topic][end.Partition] = span{start.Offset, end.Offset}
	})
	return out, refused, nil
}
