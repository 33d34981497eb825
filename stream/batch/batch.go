package batch

import (
	"bytes"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// batch is the input of one transaction: at most one part for each claimed partition, in order of arrival.
type batch struct {
	parts   []*part
	byClaim map[*ledger.Claim]*part
	records int
	bytes   int
}

// part is what was read of one partition.
type part struct {
	of *Partition
	reader.Part
}

func newBatch() *batch { return &batch{byClaim: map[*ledger.Claim]*part{}} }

// add adds what was read of a partition. If the batch has a part of that partition already, it is lengthened: the new part must begin
// where it ends, because the joined part would hide from the ledger that records between the two are missing. Otherwise the error is a
// [ledger.ContinuityError].
func (b *batch) add(of *Partition, p reader.Part) error {
	have := b.byClaim[of.Claim]
	if have != nil && have.Next.Offset != p.From {
		return &ledger.ContinuityError{Partition: of.Claim.Partition, Stored: have.Next.Offset, From: p.From, Detail: "within one batch"}
	}
	b.records += len(p.Records)
	b.bytes += p.Bytes
	if have != nil {
		have.Records = append(have.Records, p.Records...)
		have.Events = append(have.Events, p.Events...)
		have.Next, have.End = p.Next, p.End
		return nil
	}
	have = &part{of, p}
	b.parts = append(b.parts, have)
	b.byClaim[of.Claim] = have
	return nil
}

// slices returns the parts for the ledger, without those of partitions whose run ended while the batch filled up.
func (b *batch) slices() []ledger.Slice {
	s := make([]ledger.Slice, 0, len(b.parts))
	for _, p := range b.parts {
		if !p.of.gone {
			s = append(s, ledger.Slice{Claim: p.of.Claim, From: p.From, Records: p.Records, Next: p.Next})
		}
	}
	return s
}

// handToLanes gives the lanes the new actions of a transaction, each with its event if that is in memory: from events, which are those of
// the batch's records, or from the payload copy of an event that left the gap buffer.
func (l *Loop) handToLanes(p *Partition, a ledger.Applied, events []*schemas.Event) {
	if len(a.Actions) == 0 {
		return
	}
	items := make([]lane.Item, len(a.Actions))
	for i := range a.Actions {
		items[i] = lane.Item{Action: &a.Actions[i], Event: eventOf(&a.Actions[i], events)}
		sameEvent := i > 0 && items[i].Event == items[i-1].Event // as the action before
		if e := items[i].Event; e != nil && !sameEvent {
			// The body is a slice of the broker's answer, which may be megabytes. Lanes may hold it for hours, and count only the
			// body's bytes.
			e.Data = bytes.Clone(e.Data)
		}
	}
	l.cfg.Lanes.Add(p.Claim, items)
}

// eventOf returns the event of an action: of its payload copy, or else of its record in the batch; nil if it has neither.
func eventOf(a *ledger.Action, events []*schemas.Event) *schemas.Event {
	if a.Packed != nil {
		return unpack(a.Packed)
	}
	if a.Record >= 0 && a.Record < len(events) {
		return events[a.Record]
	}
	return nil
}

// unpack returns the event of a payload copy; nil if the copy cannot be read: the lane then loads it, and the action fails there.
func unpack(packed []byte) *schemas.Event {
	if len(packed) == 0 {
		return nil
	}
	e, err := record.UnpackEvent(packed)
	if err != nil {
		return nil
	}
	return e
}
