package stream

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// batch is what one transaction decides: at most one part of each claimed partition, in the order of arrival.
type batch struct {
	parts   []*part
	byClaim map[*ledger.Claim]*part
	records int
	bytes   int
}

func newBatch() *batch { return &batch{byClaim: map[*ledger.Claim]*part{}} }

// add takes what was read next of a partition. A part that does not begin where the one before it ends is refused: the
// two joined would hide from the ledger what is missing between them.
func (b *batch) add(p part) error {
	have := b.byClaim[p.own.claim]
	if have != nil && have.next.Offset != p.from {
		return &ledger.ContinuityError{Partition: p.own.claim.Partition, Stored: have.next.Offset, From: p.from, Detail: "within one batch"}
	}
	b.records += len(p.records)
	b.bytes += p.bytes
	if have != nil {
		have.records = append(have.records, p.records...)
		have.events = append(have.events, p.events...)
		have.next, have.end = p.next, p.end
		return nil
	}
	b.parts = append(b.parts, &p)
	b.byClaim[p.own.claim] = &p
	return nil
}

// slices is the batch for the ledger, without claims that ended while it filled up.
func (b *batch) slices() []ledger.Slice {
	s := make([]ledger.Slice, 0, len(b.parts))
	for _, p := range b.parts {
		if !p.own.gone {
			s = append(s, ledger.Slice{Claim: p.own.claim, From: p.from, Records: p.records, Next: p.next})
		}
	}
	return s
}

// hand gives the lanes what a transaction opened, each action with its event where it is at hand: from the batch, or
// from the copy that came out of the gap buffer.
func (l *loop) hand(o *owned, a ledger.Applied, events []*schemas.Event) {
	if len(a.Actions) == 0 {
		return
	}
	items := make([]Item, len(a.Actions))
	for i := range a.Actions {
		items[i] = Item{Action: &a.Actions[i], Event: eventOf(&a.Actions[i], events)}
		switch e := items[i].Event; {
		case e == nil:
		case i > 0 && e == items[i-1].Event: // another action of the same event
		default:
			// The body is a piece of what the broker sent, a fetch of megabytes maybe. Lanes may hold it for hours, and count
			// what they hold by bodies.
			e.Data = bytes.Clone(e.Data)
		}
	}
	l.cfg.Lanes.Add(o.claim, items)
}

func eventOf(a *ledger.Action, events []*schemas.Event) *schemas.Event {
	if a.Packed != nil {
		return unpack(a.Packed)
	}
	if a.Record >= 0 && a.Record < len(events) {
		return events[a.Record]
	}
	return nil
}

// logDecisions writes one line per decision, at debug level: a thousand records a batch are too many for more.
func (l *loop) logDecisions(p *part, a ledger.Applied) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	for _, o := range a.Outcomes {
		attrs := []slog.Attr{slog.String("topic", p.own.at.topic), slog.Int("partition", int(p.own.at.number))}
		switch {
		case o.Record >= 0 && o.Record < len(p.records):
			r := &p.records[o.Record]
			attrs = append(attrs, slog.String("event_id", r.ID), slog.String("source", r.Source),
				slog.Int64("offset", r.Offset), slog.String("entity", string(r.Entity)))
		case o.Released != nil:
			attrs = append(attrs, slog.String("event_key", o.Released.Key.String()),
				slog.Int64("offset", o.Released.Offset), slog.String("entity", string(o.Released.Entity)))
		}
		attrs = append(attrs, slog.String("decision", string(o.Decision)), slog.String("reason", string(o.Reason)))
		level := slog.LevelDebug
		if o.Decision == gate.Conflict || o.Decision == gate.Quarantined {
			level = slog.LevelWarn
		}
		l.log.LogAttrs(ctx, level, "decided", attrs...)
	}
}
