package producer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// Waiting knows which deliveries of quarantine topics wait for an operator: those without a mark. It reads each partition backwards from
// its end until it has the newest maxWaiting of them, as [List] does, and from then on what is new. When some of them are dealt with, it
// reads on backwards. The zero value is ready. Safe for concurrent use.
type Waiting struct {
	mu   sync.Mutex // held while it reads, so that nothing is read twice
	read map[string]map[int32]*waiting
}

const (
	maxWaiting = 1000            // how many deliveries of a partition are remembered
	maxBack    = 64 * maxWaiting // how many offsets of a partition one Look reads backwards; the next one goes on
)

// waiting is what is known of a partition.
type waiting struct {
	span   span           // what has been read and is remembered
	open   map[int64]Item // the deliveries in it that wait, by offset, without bodies and headers
	marked map[int64]bool // the deliveries that have marks, also those before it: their marks lie behind them
}

// Backlog is the deliveries of a topic that wait, without bodies and headers, the oldest first. More says that there may be others, older
// ones.
type Backlog struct {
	Items []Item
	More  bool
}

// Look returns the backlogs of topics. A topic that does not exist has none. If reading takes longer than ctx allows, the next Look goes on
// from there. adm asks the brokers where the topics end; opts, the brokers and their credentials, are for the client that reads what is new.
// Errors are *schemas.Error.
func (w *Waiting) Look(ctx context.Context, adm *kadm.Client, topics []string, opts ...kgo.Opt) (map[string]Backlog, error) {
	spans, err := boundsOf(ctx, adm, topics)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read == nil {
		w.read = map[string]map[int32]*waiting{}
	}
	out := map[string]Backlog{}
	for topic, partitions := range spans {
		if w.read[topic] == nil {
			w.read[topic] = map[int32]*waiting{}
		}
		err := w.readOn(ctx, topic, partitions, opts)
		if err == nil {
			err = w.readBack(ctx, topic, partitions, opts)
		}
		if err != nil {
			return nil, err
		}
		var sum Backlog
		for partition, s := range partitions {
			p := w.read[topic][partition]
			sum.Items = slices.AppendSeq(sum.Items, maps.Values(p.open))
			sum.More = sum.More || p.span.from > s.from
		}
		slices.SortFunc(sum.Items, func(a, b Item) int {
			return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
		})
		out[topic] = sum
	}
	return out, nil
}

// readOn reads what is new in a topic. Of a partition that it does not know, nothing is.
func (w *Waiting) readOn(ctx context.Context, topic string, partitions map[int32]span, opts []kgo.Opt) error {
	known, missing := w.read[topic], map[int32]span{}
	for partition, s := range partitions {
		p := known[partition]
		if p == nil || s.to < p.span.to { // the topic was created again
			p = &waiting{span: span{s.to, s.to}, open: map[int64]Item{}, marked: map[int64]bool{}}
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

// readBack reads partitions of which fewer than maxWaiting deliveries are known backwards, in stretches that grow.
func (w *Waiting) readBack(ctx context.Context, topic string, partitions map[int32]span, opts []kgo.Opt) error {
	known, done := w.read[topic], map[int32]int64{}
	for factor := int64(1); ; factor *= 4 {
		stretch, found := map[int32]span{}, map[int32]*waiting{}
		for partition, s := range partitions {
			p := known[partition]
			lacks := int64(maxWaiting - len(p.open))
			if width := min(lacks*factor, maxBack-done[partition]); width > 0 && p.span.from > s.from {
				stretch[partition] = span{max(s.from, p.span.from-width), p.span.from}
				found[partition] = &waiting{open: map[int64]Item{}, marked: p.marked}
			}
		}
		if len(stretch) == 0 {
			return nil
		}
		if err := readSpans(ctx, topic, stretch, opts, func(r *kgo.Record) { found[r.Partition].add(r) }); err != nil {
			return err // what was found in part is read again
		}
		for partition, s := range stretch {
			p := known[partition]
			maps.Copy(p.open, found[partition].open)
			p.span.from = s.from
			p.trim()
			done[partition] += s.to - s.from
		}
	}
}

// add takes a record: a delivery waits unless it is marked, and a mark is about a delivery before it.
func (p *waiting) add(r *kgo.Record) {
	if about, _, ok := parseMark(r); ok {
		p.marked[about] = true
		delete(p.open, about)
	} else if !p.marked[r.Offset] {
		item := parseQuarantine(r)
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

// boundsOf returns the offsets that the partitions of topics have, of those topics that exist.
func boundsOf(ctx context.Context, adm *kadm.Client, topics []string) (map[string]map[int32]span, error) {
	const op = "look at the quarantine topics"
	out := map[string]map[int32]span{}
	if len(topics) == 0 {
		return out, nil
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = adm.ListEndOffsets(ctx, topics...)
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
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
	return out, nil
}
