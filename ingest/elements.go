package ingest

import (
	"context"
	"strconv"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// batch is what a delivery with a list of events comes to.
type batch struct {
	events   []*schemas.Event
	unusable []*Delivery
	taken    verdict // with the reason of the first event that does not fit its schema, or was not held against it, and is taken all the same
	reason   string  // of the first unusable element
	detail   string
}

// appendEach makes an event of each element, and has all of them durable: what cannot become an event is in quarantine, alone. A delivery
// that comes again after a part of it was written has the same ids, and the stream's dedupe drops that part.
func (h *Handler) appendEach(ctx context.Context, d *delivery, host string, elements []verify.Request) verdict {
	b := batch{taken: verdict{outcome: accepted}}
	m := d.source.mapper()
	for i := range elements {
		in := "element " + strconv.Itoa(i+1) + ": "
		e, taken, err := h.element(d, &elements[i])
		if err == nil {
			b.events = append(b.events, e)
			if b.taken.reason == "" && taken.reason != "" {
				b.taken = taken
				b.taken.detail = in + taken.detail
			}
			continue
		}
		if v, is := verdictOnScope(err); is {
			return v
		}
		u := d.unusable(err, keptHeaders(elements[i].Header, host, m)) // an element may have headers of its own
		u.Body, u.Element = elements[i].Body, i+1
		if b.unusable = append(b.unusable, u); b.reason == "" {
			b.reason, b.detail = u.Reason, in+u.Detail
		}
	}
	d.batch = &b
	if len(elements) == 0 {
		return verdict{outcome: accepted, reason: emptyList}
	}
	taken := b.taken
	if b.reason != "" {
		taken = verdict{outcome: quarantined, reason: knownReason(b.reason), detail: b.detail}
	}
	return d.stored(ctx, h.c.Log.AppendAll(ctx, d.deadline, d.source.Topic, b.events, d.source.QuarantineTopic, b.unusable), taken)
}

// Unusable returns an element of a kept delivery that cannot become an event as it is kept alone: as if the delivery had come with it now. It is
// counted from 1.
func (s *Source) Unusable(whole *Delivery, element *verify.Request, number int, cause error) *Delivery {
	d := *whole
	d.Kind, d.Element, d.Body, d.Headers = KindUnusable, number, element.Body, keptHeaders(element.Header, "", s.mapper())
	d.Reason, d.Detail = whyUnusable(cause)
	return &d
}

// emptyList is the reason of an accepted delivery whose list has no element.
const emptyList = "empty_list"

// element makes the event of one element; taken is the verdict on it once it is durable.
func (h *Handler) element(d *delivery, r *verify.Request) (e *schemas.Event, taken verdict, err error) {
	e = new(schemas.Event)
	if err := h.guard(d, func() error { return d.source.mapper().Read(r, d.received, e) }); err != nil {
		return nil, verdict{}, err
	}
	taken, err = h.finish(d, r, e)
	return e, taken, err
}

// finish gives an event its trace, and checks it and its body. taken is the verdict on it once it is durable.
func (h *Handler) finish(d *delivery, r *verify.Request, e *schemas.Event) (taken verdict, err error) {
	e.TraceParent, e.TraceState = h.traceOf(d, r)
	if err := e.Validate(); err != nil {
		return verdict{}, err
	}
	fit, why, err := d.source.mapper().CheckSchema(e)
	switch fit {
	case jsonschema.Misfit:
		return verdict{outcome: accepted, reason: provider.SchemaMisfit, detail: why}, err
	case jsonschema.Unchecked:
		return verdict{outcome: accepted, reason: schemaUnchecked, detail: why}, err
	}
	return verdict{outcome: accepted}, err
}

// split returns the elements of a delivery that has a list of events.
func (h *Handler) split(d *delivery) (elements []verify.Request, err error) {
	err = h.guard(d, func() error {
		elements, err = d.source.mapper().Split(&d.request)
		return err
	})
	return elements, err
}

// body is the answer for a delivery with a list of events.
func (b *batch) body() []byte {
	return []byte(`{"id":null,"events":` + strconv.Itoa(len(b.events)) + `,"quarantined":` + strconv.Itoa(len(b.unusable)) + `}`)
}
