package producer

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// A mark says of a delivery in a quarantine topic that it was redriven, or, without an event, that it was discarded: an operator has dealt
// with it. It is a record in the delivery's own partition, behind it: who
// reads on from the delivery to the end has read its marks, and retention takes them away later than the delivery. So what is kept aside
// needs Kafka alone, as the intake does.

// kindRedriven is the kind of a mark, whichever of the two it says.
const kindRedriven = "redriven"

// The headers of a mark beside those of a delivery.
const (
	headerMarks  = "forebay_marks" // offset of the delivery in the mark's partition
	headerBy     = "forebay_by"
	headerWhy    = "forebay_why"
	headerEvent  = "forebay_event" // id of the event that was produced
	headerTo     = "forebay_to"    // topic/partition@offset of that event
	headerMarked = "forebay_marked"
)

// Redriven is what a mark says: when, by whom and why a delivery was redriven, and which event it became where. Event and To are empty where
// it was discarded.
type Redriven struct {
	At         time.Time
	By, Reason string
	Event, To  string // the event's id, and topic/partition@offset
}

// Mark notes that a delivery of a quarantine topic was redriven or discarded: by a record behind it in the same partition. opts are the brokers and their credentials, for a client of its own.
// Errors are *schemas.Error: Invalid if opts are, Unavailable.
func Mark(ctx context.Context, topic string, partition int32, offset int64, m Redriven, opts ...kgo.Opt) error {
	op := "mark " + topic + "/" + strconv.Itoa(int(partition)) + "@" + strconv.FormatInt(offset, 10) + " as dealt with"
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(10*time.Second), record.Compressor())...)
	if err != nil {
		return schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer client.Close()
	r := markRecord(offset, m)
	r.Topic, r.Partition = topic, partition
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	return nil
}

// markRecord returns the record of a mark, which [parseMark] reads.
func markRecord(offset int64, m Redriven) *kgo.Record {
	r := &kgo.Record{Value: []byte{}}
	for _, h := range [][2]string{{headerKind, kindRedriven}, {headerMarks, strconv.FormatInt(offset, 10)}, {headerMarked, m.At.UTC().Format(time.RFC3339Nano)},
		{headerBy, m.By}, {headerWhy, m.Reason}, {headerEvent, m.Event}, {headerTo, m.To}} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

// parseMark reads a mark, and the offset of the delivery that it is about. ok is false if the record is none.
func parseMark(r *kgo.Record) (offset int64, m Redriven, ok bool) {
	offset, err := strconv.ParseInt(header(r, headerMarks), 10, 64)
	if header(r, headerKind) != kindRedriven || err != nil || offset < 0 {
		return 0, m, false
	}
	m = Redriven{By: header(r, headerBy), Reason: header(r, headerWhy), Event: header(r, headerEvent), To: header(r, headerTo)}
	m.At, _ = time.Parse(time.RFC3339Nano, header(r, headerMarked)) // only we write it
	return offset, m, true
}

// Marks knows which deliveries were redriven or discarded. It reads each partition's records once, from the first delivery that it is asked about on.
// The zero value is ready. Safe for concurrent use.
type Marks struct {
	mu   sync.Mutex
	read map[string]map[int32]*marked // by topic and partition, under mu
}

// marked is what is known of a partition: the marks within a span.
type marked struct {
	turn chan struct{} // a mutex that can be waited for with a context, so that nothing is read twice: full while it is held; never closed

	span   span // this and the rest under turn
	stride stride
	marks  map[int64]Redriven // by the offset of their delivery; nil until the first question
}

// Of returns the newest mark of a delivery; nil if it has none. If reading takes longer than ctx allows, the next question goes on from
// there. opts are the brokers and their credentials. Errors are *schemas.Error: NotFound if there is no such topic, Unavailable.
func (m *Marks) Of(ctx context.Context, topic string, partition int32, offset int64, opts ...kgo.Opt) (*Redriven, error) {
	op := "read whether " + topic + "/" + strconv.Itoa(int(partition)) + "@" + strconv.FormatInt(offset, 10) + " was redriven or discarded"
	p := m.of(topic, partition)
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, schemas.Errorf(schemas.Unavailable, op, "another question about this partition is under way, and that takes long; try again: %w", context.Cause(ctx))
	}
	spans, err := bounds(ctx, topic, opts) // in turn: who waited knows no end that is older than what was read meanwhile
	if err != nil {
		return nil, err
	}
	err = p.readIn(ctx, topic, partition, span{offset + 1, spans[partition].to}, opts)
	if err != nil && ctx.Err() != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "the time was not enough for all that lies behind it; try again, and reading goes on from where it was: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if note, ok := p.marks[offset]; ok {
		return &note, nil
	}
	return nil, nil // it was not
}

// of returns what is known of a partition.
func (m *Marks) of(topic string, partition int32) *marked {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read = map[string]map[int32]*marked{}
	}
	if m.read[topic] == nil {
		m.read[topic] = map[int32]*marked{}
	}
	p := m.read[topic][partition]
	if p == nil {
		p = &marked{turn: make(chan struct{}, 1)}
		m.read[topic][partition] = p
	}
	return p
}

// readIn reads what is not known of a span: backwards in stretches, each of which counts when it is whole, and forwards, where each record
// does. So it leaves what it has read to the next try.
func (p *marked) readIn(ctx context.Context, topic string, partition int32, s span, opts []kgo.Opt) error {
	if p.marks == nil || s.to < p.span.to { // the topic was created again
		p.span, p.stride, p.marks = span{s.from, s.from}, firstStride, map[int64]Redriven{}
	}
	for p.span.from > s.from {
		stretch, began := p.stride.before(p.span.from, s.from), time.Now()
		err := readSpans(ctx, topic, map[int32]span{partition: stretch}, opts, p.add)
		p.stride = p.stride.after(time.Since(began), err)
		if err != nil {
			return err
		}
		p.span.from = stretch.from
	}
	err := readSpans(ctx, topic, map[int32]span{partition: {p.span.to, s.to}}, opts, func(r *kgo.Record) {
		p.add(r)
		p.span.to = r.Offset + 1
	})
	if err == nil {
		p.span.to = max(p.span.to, s.to) // control records at the end are none of ours
	}
	return err
}

// add takes a record; of a delivery's marks the newest counts.
func (p *marked) add(r *kgo.Record) {
	if about, note, ok := parseMark(r); ok && !note.At.Before(p.marks[about].At) {
		p.marks[about] = note
	}
}
