package backfill

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	cacheFor   = time.Minute
	cacheBytes = 32 << 20
	// maxTurn is how long an attempt waits for its turn in the source's rate; a longer wait gives the worker back.
	maxTurn = time.Second
)

// Thin fetches the bodies of events that carry only an id: a lane.Enricher. Documents are kept for a minute, in 32
// MiB at most, so that the actions and retries of one event ask once. Safe for concurrent use.
type Thin struct {
	sources map[string]*Fetcher
	cache   *cache
	metrics *Metrics
}

// NewThin makes an enricher of the sources, by "/<team>/<source>". It panics if a fetcher is not of use [Body].
func NewThin(sources map[string]*Fetcher, m *Metrics) *Thin {
	for name, f := range sources {
		if f.cfg.Use != Body {
			panic("backfill: the fetcher of " + name + " is not one for bodies")
		}
	}
	return &Thin{sources: sources, cache: newCache(cacheFor, cacheBytes), metrics: m}
}

// Enrich returns what lanes ask before an action. Of a deleted entity there is nothing to fetch, and a synthetic event has been
// fetched already: both stay as they are.
func (t *Thin) Enrich(ctx context.Context, e *schemas.Event) (*schemas.Event, sink.Outcome, error) {
	f := t.sources[e.Source]
	if f == nil || e.Deleted || e.Backfill {
		return e, sink.Outcome{}, nil
	}
	if d := t.cache.get(e.Key()); d != nil {
		t.metrics.body(e.Source, "kept")
		return d.withBody(e), sink.Outcome{}, nil
	}
	u, err := f.tpl.Expand(Values{Entity: e.Entity, ID: e.ID, Type: e.Type})
	if err != nil {
		return nil, sink.Outcome{}, &sink.AttemptError{Class: sink.ClassRejected, Err: err}
	}
	wait, err := f.limit.take(ctx, maxTurn)
	switch {
	case err != nil:
		return nil, sink.Outcome{}, err
	case wait > 0:
		return nil, sink.Outcome{}, &sink.NotYet{Wait: wait}
	}
	d, fail := f.exchangeOnce(ctx, u, f.cfg.MaxBytes)
	if fail != nil {
		t.metrics.body(e.Source, "failed")
		return nil, sink.Outcome{Code: fail.code, RetryAfter: fail.retryAfter},
			&sink.AttemptError{Class: fail.class, Err: bodyError{fail.err}}
	}
	t.metrics.body(e.Source, "fetched")
	t.cache.put(e.Key(), d)
	return d.withBody(e), sink.Outcome{}, nil
}

// bodyError marks a failed attempt whose cause is the fetch, not the destination.
type bodyError struct{ err error }

func (e bodyError) Error() string { return "fetch the body: " + e.err.Error() }
func (e bodyError) Unwrap() error { return e.err }

// withBody returns a copy of e with the document as body. The schema that e names is that of its own body.
func (d *document) withBody(e *schemas.Event) *schemas.Event {
	full := *e
	full.Data, full.DataContentType, full.DataSchema = d.body, d.ctype, ""
	return &full
}
