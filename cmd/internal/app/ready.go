package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// readiness has the parts of the process that must work before it is ready, by name. A part is in one of the maps: it either sets its
// state when that changes, or has a function that checks it each time somebody asks.
type readiness struct {
	mu     sync.Mutex
	states map[string]error // what a part waits for; nil if it is ready
	probes map[string]func(ctx context.Context) error
}

var errNotStarted = errors.New("not started yet")

func newReadiness() *readiness {
	return &readiness{states: map[string]error{}, probes: map[string]func(context.Context) error{}}
}

// set says what a part waits for; nil if it is ready. It ends probing of the part.
func (r *readiness) set(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[name] = err
	delete(r.probes, name)
}

// probe has a part checked by f from now on.
func (r *readiness) probe(name string, f func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[name] = f
	delete(r.states, name)
}

// checks returns the state of every part, sorted by name. Parts that are probed are checked one after the other.
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
	c := api.Check{Name: name, Role: roleOf(name), OK: err == nil}
	if err != nil {
		c.Error = brokers.Explain(err).Error()
	}
	return c
}

// roleOf returns the role that needs a part, by the part's name; empty if all do.
func roleOf(name string) string {
	switch {
	case name == "intake":
		return string(config.RoleIntake)
	case name == "ledger", name == "destinations", strings.HasPrefix(name, "subscription "):
		return string(config.RoleStream)
	}
	return ""
}

const (
	firstPause = 200 * time.Millisecond // between tries of patiently; doubled after each
	lastPause  = 5 * time.Second
	tryTimeout = 15 * time.Second // of one try
)

// patiently calls do until it succeeds, and returns nil. It tries again after a timeout and after errors of kind Unavailable: brokers or
// Postgres do not answer. Any other error, and the end of ctx, ends it. Its errors are the state of part name in the readiness. The
// part's state after success is set by the caller, since more may have to happen before the part is ready.
func (a *App) patiently(ctx context.Context, name string, do func(ctx context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		tryCtx, cancel := context.WithTimeoutCause(ctx, tryTimeout, errors.New("no answer in time"))
		err := do(tryCtx)
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
