package producer

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
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
		kgo.RecordDeliveryTimeout(10*time.Second))...)
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
	mu   sync.Mutex // held while it reads, so that nothing is read twice
	read map[string]map[int32]*marked
}

// marked is what is known of a partition: the marks within a span.
type marked struct {
	span  span
	marks map[int64]Redriven
}

// Of returns the newest mark of a delivery; nil if it has none. opts are the brokers and their credentials. Errors are *schemas.Error:
// NotFound if there is no such topic, Unavailable.
func (m *Marks) Of(ctx context.Context, topic string, partition int32, offset int64, opts ...kgo.Opt) (*Redriven, error) {
	spans, err := bounds(ctx, topic, opts)
	if err != nil {
		return nil, err
	}
	end := spans[partition].to
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read = map[string]map[int32]*marked{}
	}
	if m.read[topic] == nil {
		m.read[topic] = map[int32]*marked{}
	}
	p := m.read[topic][partition]
	if p == nil || end < p.span.to { // the topic was created again
		p = &marked{span{offset + 1, offset + 1}, map[int64]Redriven{}}
		m.read[topic][partition] = p
	}
	for _, missing := range []span{{offset + 1, p.span.from}, {p.span.to, end}} {
		err := readSpans(ctx, topic, map[int32]span{partition: missing}, opts, func(r *kgo.Record) {
			if about, note, ok := parseMark(r); ok && !note.At.Before(p.marks[about].At) {
				p.marks[about] = note
			}
		})
		if err != nil {
			return nil, err
		}
		p.span = span{min(p.span.from, missing.from), max(p.span.to, missing.to)}
	}
	if note, ok := p.marks[offset]; ok {
		return &note, nil
	}
	return nil, nil //nolint:nilnil // it was not
}
