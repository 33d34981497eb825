package lane

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Enricher gives an event the body that its sink is to see, right before the action: in thin mode the document that the
// event only names.
//
// Enrich returns e itself where nothing has to be fetched, and otherwise a copy of it: e is never changed, and what the
// ledger copies is e. It may be called concurrently and returns when ctx is done. Its error is what an attempt's is: it
// carries a class (see [sink.ClassOf]) and counts as a failed attempt with the Outcome's code and RetryAfter, unless it is
// a [sink.NotYet]. Neither the error's text nor the Outcome may contain a secret.
type Enricher interface {
	Enrich(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error)
}

// enrich completes a head's event and goes on with its attempt. What cannot be completed is a failed attempt without a
// call: the destination has not acted, so it is judged as if the sink were idempotent.
func (l *Lanes) enrich(e *entry, d *destination, event *schemas.Event) {
	p, began := e.lane.part, time.Now()
	full, out, err := l.enriched(p.ctx, event)
	notYet, later := errors.AsType[*sink.NotYet](err)
	switch {
	case p.ctx.Err() != nil, l.closing(p):
		l.abandon(e, d)
	case later:
		l.postpone(e, d, notYet.Wait)
	case err != nil:
		l.finish(e, d, l.judged(e, d, sink.Idempotent, began, out, sink.ClassOf(err), err), nil)
	case full == event:
		l.act(e, d, event)
	default:
		l.holdExtra(len(full.Data))
		defer l.holdExtra(-len(full.Data))
		l.act(e, d, full)
	}
}

// closing reports whether a claim is being given up: what was fetched for it starts no attempt any more.
func (l *Lanes) closing(p *part) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.closing
}

// enriched asks the enricher, with its panics turned into our own fault.
func (l *Lanes) enriched(ctx context.Context, event *schemas.Event) (full *schemas.Event, out sink.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.log.Error("enricher panicked", "event_id", event.ID, "source", event.Source, "stack", string(debug.Stack()))
			full, err = nil, &sink.AttemptError{Class: sink.ClassBug, Err: errors.New("fetching the body panicked; the stack is in the log")}
		}
	}()
	return l.cfg.Enrich.Enrich(ctx, event)
}
