package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// readiness is what must work. A part is named when the process is made and reports what it waits for; nil is ready. A part
// that has been set is no longer probed, and the other way round.
type readiness struct {
	mu     sync.Mutex
	states map[string]error
	probes map[string]func(ctx context.Context) error // parts that are looked at instead, each time
}

var errNotStarted = errors.New("not started yet")

func newReadiness() *readiness {
	return &readiness{states: map[string]error{}, probes: map[string]func(context.Context) error{}}
}

func (r *readiness) set(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[name] = err
	delete(r.probes, name)
}

func (r *readiness) probe(name string, f func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[name] = f
	delete(r.states, name)
}

func (r *readiness) checks(ctx context.Context) []api.Check {
	r.mu.Lock()
	var list []api.Check
	probes := make(map[string]func(context.Context) error, len(r.probes))
	for name, err := range r.states {
		list = append(list, checkOf(name, err))
	}
	maps.Copy(probes, r.probes)
	r.mu.Unlock()
	for name, f := range probes {
		list = append(list, checkOf(name, f(ctx)))
	}
	slices.SortFunc(list, func(a, b api.Check) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func checkOf(name string, err error) api.Check {
	if err != nil {
		return api.Check{Name: name, Error: err.Error()}
	}
	return api.Check{Name: name, OK: true}
}

const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
	tryTimeout = 15 * time.Second
)

// patiently runs do until it succeeds or fails for another reason than that something is away, and shows it as part
// name of the readiness meanwhile. Once it has succeeded the caller says what the part is: with more to come before it can
// work, it is not ready yet.
func (a *App) patiently(ctx context.Context, name string, do func(ctx context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		tctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, errors.New("no answer in time"))
		err := do(tctx)
		cancel()
		if err == nil {
			return nil
		}
		a.ready.set(name, err)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kind := schemas.KindOf(err); kind != schemas.Unavailable && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		a.log.Warn("waiting", "for", name, "error", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
