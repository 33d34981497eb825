package lane

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// payload returns the event of an action: from memory, from the ledger's copy, or from the log.
func (w *workers) payload(ctx context.Context, e *entry) (*schemas.Event, error) {
	if e.event != nil {
		return e.event, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	event, err := w.fetch(ctx, e)
	w.s.endLoad(e, event)
	return event, err
}

// fetch reads an action's event from the log, unless the ledger had a payload copy when the action was loaded. If the log no longer has the
// event, it reads the copy. If there is none either, the error is of class payload_lost.
func (w *workers) fetch(ctx context.Context, e *entry) (*schemas.Event, error) {
	var lost error
	if !e.copied {
		event, err := w.cfg.Payloads.Load(ctx, e.Pointer)
		if sink.ClassOf(err) != sink.ClassPayload {
			return event, err
		}
		lost = err // but the ledger may have a copy that was made after the action was loaded
	}
	packed := e.Packed
	if packed == nil {
		actions, _, err := w.cfg.Ledger.Open(ctx, e.lane.partition.claim, e.LaneSeq-1, 1)
		switch {
		case err != nil:
			return nil, err
		case len(actions) > 0 && actions[0].LaneSeq == e.LaneSeq && len(actions[0].Packed) > 0:
			packed = actions[0].Packed
		case lost != nil:
			return nil, lost
		default:
			return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: errors.New("the ledger's payload copy is gone")}
		}
	}
	event, err := w.cfg.Codec.Unpack(packed)
	if err != nil {
		return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: fmt.Errorf("unpack the payload copy: %w", err)}
	}
	return event, nil
}

// loadRetry is the delay after a read that failed.
var loadRetry = sink.RetryPolicy{Min: time.Second, Max: time.Minute}

// retryLoad lets a head wait after a read that failed, of its payload or of the ledger. It counts no attempt.
func (w *workers) retryLoad(e *entry, d *sinkQueue, err error) {
	e.failedLoads++
	wait := sink.Delay(loadRetry, e.failedLoads, 0, loadRetry.Max, w.cfg.Rand())
	w.log.Warn("a payload could not be loaded; retrying", "event_id", e.EventID, "source", e.Source, "action_id", e.ID,
		"error", err, "wait", wait)
	w.s.postpone(e, d, wait)
}

// copyFor returns the payload copy that is recorded with an action's first failure: an action that waits or is dead must outlive
// the log.
func (w *workers) copyFor(e *entry, status ledger.Status) []byte {
	if e.copied || status.Closed() || status == ledger.Processing || e.event == nil {
		return nil
	}
	return w.cfg.Codec.Pack(e.event)
}

// Enricher completes an event right before its attempt. In thin mode the event only names a document, which the enricher fetches.
//
// Enrich returns e itself if nothing has to be fetched, and otherwise a copy with the body: e is never changed, and payload copies
// in the ledger are of e. It may be called concurrently and returns when ctx is done. Its error is treated like that of an
// attempt: it has a class (see [sink.ClassOf]) and counts as a failed attempt with the Outcome's code and RetryAfter, unless it
// is a [sink.NotYet]. Neither the error's text nor the Outcome may contain a secret.
type Enricher interface {
	Enrich(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error)
}

// enrich completes a head's event and makes the attempt. If the event cannot be completed, that is a failed attempt; of a head that waits for its
// guards, which are asked again and again, only if it never can be.
func (w *workers) enrich(e *entry, d *sinkQueue, event *schemas.Event) {
	p, began := e.lane.partition, time.Now()
	full, out, err := w.enriched(p.ctx, event)
	notYet, later := errors.AsType[*sink.NotYet](err)
	switch {
	case p.ctx.Err() != nil, w.s.closing(p): // no attempt for a claim that is being given up
		w.s.abandon(e, d)
	case later:
		w.s.postpone(e, d, notYet.Wait)
	case err != nil && e.Status.Waits() && sink.ClassOf(err).Retried():
		w.retryLoad(e, d, err)
	case err != nil:
		e.unfetched = true
		w.endUnmade(e, d, began, out, err, sink.ClassOf(err))
	case full == event:
		w.act(e, d, event)
	default:
		w.s.holdExtra(len(full.Data))
		defer w.s.holdExtra(-len(full.Data))
		w.act(e, d, full)
	}
}

// enriched calls the enricher. A panic becomes an error of class ClassBug.
func (w *workers) enriched(ctx context.Context, event *schemas.Event) (full *schemas.Event, out sink.Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error("enricher panicked", "event_id", event.ID, "source", event.Source, "stack", string(debug.Stack()))
			full, err = nil, &sink.AttemptError{Class: sink.ClassBug, Err: errors.New("fetching the body panicked; the stack is in the log")}
		}
	}()
	return w.cfg.Enrich.Enrich(ctx, event)
}
