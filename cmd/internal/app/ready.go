package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

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
	notes  map[string]func() string // what waits in a part, which keeps nobody from being ready
	gauge  *prometheus.GaugeVec
	// fileNote says what of the configuration is not in force; nil: nothing is said of it.
	fileNote func() string
	asked    singleflight.Group // strangers may ask: at most one looks at a time
}

var errNotStarted = errors.New("not started yet")

func newReadiness() *readiness {
	return &readiness{states: map[string]error{}, probes: map[string]func(context.Context) error{}, notes: map[string]func() string{}, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "forebay_ready", Help: "Whether a part of the process is ready, 1, or waits, 0, as /readyz says: of is a subscription, with its team, or what all of them need. " +
			"A process that stops keeps the values that it had."}, []string{"team", "of"})}
}

const (
	readyEvery = 10 * time.Second // how often the gauge is brought up to date: what asks for metrics waits for no part
	readyTry   = 5 * time.Second  // how long all parts may take, as for /readyz
	probeTry   = 3 * time.Second  // how long one of them may take, so that Postgres, which hangs, takes no time from the brokers
)

// run keeps the gauge up to date until ctx is done: a process that stops on purpose is not one that cannot work.
func (r *readiness) run(ctx context.Context) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, readyTry)
		found := r.checks(bounded, false)
		cancel()
		if ctx.Err() != nil {
			return
		}
		for _, c := range found {
			value, team, of := 0.0, "", c.Name
			if name, ok := strings.CutPrefix(c.Name, "subscription "); ok {
				of = name
				team, _, _ = strings.Cut(name, ".")
			}
			if c.OK {
				value = 1
			}
			r.gauge.WithLabelValues(team, of).Set(value)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// set says what a part waits for; nil if it is ready. It ends probing of the part.
func (r *readiness) set(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[name] = err
	delete(r.probes, name)
}

// forget takes a part out: nothing waits for it any more.
func (r *readiness) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, name)
	delete(r.probes, name)
	delete(r.notes, name)
	team, of, ok := strings.Cut(strings.TrimPrefix(name, "subscription "), ".")
	if ok {
		r.gauge.DeleteLabelValues(team, team+"."+of)
	}
}

// probe has a part checked by f from now on.
func (r *readiness) probe(name string, f func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[name] = f
	delete(r.states, name)
}

// note has a part say what waits in it.
func (r *readiness) note(name string, f func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes[name] = f
}

// checks returns the state of every part, sorted by name, and with notes what waits in it. Who asks meanwhile shares what is found.
func (r *readiness) checks(ctx context.Context, notes bool) []api.Check {
	found, _, _ := r.asked.Do(strconv.FormatBool(notes), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTry) // others may wait for it
		defer cancel()
		return r.look(ctx, notes), nil
	})
	return slices.Clone(found.([]api.Check))
}

// look is checks for one who asks. Parts that are probed are checked one after the other.
func (r *readiness) look(ctx context.Context, notes bool) []api.Check {
	r.mu.Lock()
	var list []api.Check
	probes := make(map[string]func(context.Context) error, len(r.probes))
	for name, err := range r.states {
		list = append(list, checkOf(name, err))
	}
	maps.Copy(probes, r.probes)
	var noted map[string]func() string
	if notes { // which goes over all that waits
		noted = maps.Clone(r.notes)
	}
	r.mu.Unlock()
	for name, f := range probes {
		mine, cancel := context.WithTimeout(ctx, probeTry)
		list = append(list, checkOf(name, f(mine)))
		cancel()
	}
	for i := range list {
		if f := noted[list[i].Name]; f != nil {
			list[i].Note = strings.Trim(list[i].Note+"; "+f(), "; ")
		}
	}
	if r.fileNote != nil {
		list = append(list, api.Check{Name: "configuration", OK: true, Note: r.fileNote()})
	}
	slices.SortFunc(list, func(a, b api.Check) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// notice is the state of a part that works, and what is to be known of it.
type notice string

func (n notice) Error() string { return string(n) }

func checkOf(name string, err error) api.Check {
	c := api.Check{Name: name, Role: roleOf(name), OK: err == nil}
	if n, ok := errors.AsType[notice](err); ok {
		c.OK, c.Note = true, string(n)
	} else if err != nil {
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
	tryTimeout = 20 * time.Second // of one try: of a URL with several hosts, each connection first waits for those that are away
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
		a.ready.set(name, a.without(name, err))
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
