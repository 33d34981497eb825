package backfill

import (
	"context"
	"maps"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	cacheFor   = time.Minute
	cacheBytes = 32 << 20
	// maxTurn is how long an attempt waits for its turn in the source's rate, and holds a lane's worker meanwhile.
	maxTurn = time.Second
)

// Thin fetches the bodies of events that carry only an id, for lanes. Documents are kept for a minute, in 32 MiB at most: the actions
// and retries of one event ask the API once. Safe for concurrent use.
type Thin struct {
	sources map[string]*Fetcher
	cache   *cache
	metrics *Metrics
}

// NewThin returns a Thin with the fetchers of sources, by "/<team>/<source>". It panics if a fetcher is not of use [Body].
func NewThin(sources map[string]*Fetcher, m *Metrics) *Thin {
	for name, f := range sources {
		if f.cfg.Use != Body {
			panic("backfill: the fetcher of " + name + " is not one for bodies")
		}
	}
	return &Thin{sources: sources, cache: newCache(cacheFor, cacheBytes), metrics: m}
}

// Enrich returns a copy of e with the document that the source's API has for it as body. An event of a source without a fetcher, of a
// deleted entity (the API has nothing of it) and a synthetic one (it was fetched already) come back as they are. The error is a
// [sink.AttemptError] or, where the source's rate has no turn soon, a [sink.NotYet]; or that ctx ended.
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

// bodyError says that an attempt failed before its destination was called: the body could not be fetched.
type bodyError struct{ err error }

func (e bodyError) Error() string { return "fetch the body: " + e.err.Error() }
func (e bodyError) Unwrap() error { return e.err }

// withBody returns a copy of e with the document as body, and without dataschema and the encoding, which are about e's own body.
func (d *document) withBody(e *schemas.Event) *schemas.Event {
	full := *e
	full.Data, full.DataContentType, full.DataSchema, full.SchemaID = d.body, d.ctype, "", ""
	full.Extensions = maps.Clone(e.Extensions)
	delete(full.Extensions, schemas.EncodingAttribute)
	return &full
}
