package lane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	shared "github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/sink"
)

// destination is a configured sink with its ready lanes. Before every attempt it asks the destination that all subscriptions
// share (user). If the answer is to wait, it waits for its turn.
type destination struct {
	Destination
	name        string
	first, last *lane   // ready, oldest first
	n           int     // how many are ready
	running     int     // attempts under way
	answer      int     // bytes that are read of an answer at most
	accepted    int     // heads that it has accepted, and whose result it reports later
	spilled     []*lane // spilled until the destination takes attempts again
	waits       bool    // waits for its turn: its lanes do not count in dispatcher.ready
	turn        bool    // its turn has come and was not used yet
	user        *shared.User
	metrics     destinationMetrics
}

// passTurn gives up a turn that no head can use now.
func (d *destination) passTurn() {
	if d.turn {
		d.turn = false
		d.user.Pass()
	}
}

// longFull reports whether the destination works on as many actions at once as its long-work policy allows.
func (d *destination) longFull() bool {
	return d.Long.Deadline > 0 && d.running+d.accepted >= d.Long.Most
}

// blocked reports whether a destination takes no attempts now, or only one that probes it: it is paused, on hold, behind a
// breaker, or longFull. One that is merely busy is not blocked: its backlog moves, and spilling it would read it twice.
func (d *destination) blocked() bool { return d.user.Blocked() || d.longFull() }

// dispatcher has the destinations with their ready lanes, and the workers that wait for a ready lane. Callers hold mu.
type dispatcher struct {
	cfg     *Config
	metrics *metrics
	results *completions
	spilled *spillList
	toClock chan<- struct{} // a destination's turn has come

	byName map[string]*destination
	order  []*destination // round robin
	next   int            // index in order of the destination that is asked next

	ready    int  // ready lanes of the destinations that do not wait for their turn
	sleeping int  // workers that wait
	waking   bool // a worker was signalled and has not looked yet
	stopped  bool // Run is ending: no attempt starts
	work     *sync.Cond
}

// addAll adds the configured destinations, in order of their names.
func (x *dispatcher) addAll() {
	for name, d := range x.cfg.Destinations {
		x.add(name, d)
	}
	slices.SortFunc(x.order, func(a, b *destination) int { return cmp.Compare(a.name, b.name) })
}

func (x *dispatcher) add(name string, d Destination) *destination {
	dest := &destination{name: name, Destination: d.withDefaults(name, x.cfg.MaxInFlight), metrics: x.metrics.of(name)}
	dest.answer = sink.MaxResponse
	if s, ok := dest.Sink.(sink.Answerer); ok {
		dest.answer = s.Answer()
	}
	team, _, _ := strings.Cut(x.cfg.Subscription, ".")
	dest.user = dest.Shared.Join(team, func() { signal(x.toClock) })
	x.byName[name] = dest
	x.order = append(x.order, dest)
	return dest
}

// find finds a destination by name. An action whose destination is no longer configured gets a sink that says so: it ends as a
// dead letter after its retries instead of vanishing.
func (x *dispatcher) find(name string) *destination {
	if d := x.byName[name]; d != nil {
		return d
	}
	return x.add(name, Destination{Sink: missing(name)})
}

type missing string

func (m missing) Do(context.Context, sink.Action) (sink.Outcome, error) {
	return sink.Outcome{}, &sink.AttemptError{
		Class: sink.ClassBug, Err: fmt.Errorf("destination %s is not configured", string(m)),
	}
}
func (missing) Close(context.Context) error   { return nil }
func (missing) Idempotency() sink.Idempotency { return sink.Idempotent }

// enqueue puts a lane behind those that are ready at d.
func (x *dispatcher) enqueue(d *destination, la *lane) {
	la.state, la.nextReady = ready, nil
	d.n++
	if d.last == nil {
		d.first = la
	} else {
		d.last.nextReady = la
	}
	d.last = la
	if !d.waits {
		x.ready++
	}
}

// dequeue takes out the first lane that is ready at d.
func (x *dispatcher) dequeue(d *destination) {
	la := d.first
	d.n--
	d.first, la.nextReady = la.nextReady, nil
	if d.first == nil {
		d.last = nil
	}
	if !d.waits {
		x.ready--
	}
	if len(d.spilled) > 0 {
		x.spilled.reloadFor(d)
	}
}

// remove takes the lanes for which out returns true off d's ready lanes.
func (x *dispatcher) remove(d *destination, out func(*lane) bool) {
	la := d.first
	if !d.waits {
		x.ready -= d.n
	}
	d.first, d.last, d.n = nil, nil, 0
	for la != nil {
		next := la.nextReady
		if out(la) {
			la.nextReady, la.state = nil, idle
		} else {
			x.enqueue(d, la)
		}
		la = next
	}
	if d.first == nil {
		d.passTurn()
	}
}

// nextInTurn returns the destination that is next in the round robin.
func (x *dispatcher) nextInTurn() *destination {
	d := x.order[x.next]
	x.next = (x.next + 1) % len(x.order)
	return d
}

// release gives back the slot of a head and, if the destination was not called, its token. feedback is nil if the attempt says
// nothing about the destination.
func (x *dispatcher) release(e *entry, d *destination, feedback *shared.Outcome) {
	d.running--
	turn := false
	switch {
	case e.rateUsedUp: // no slot and no token were taken
	case e.called:
		turn = d.user.End(e.permit, feedback)
	default:
		turn = d.user.GiveBack(e.permit)
	}
	if turn {
		x.resume(d)
	}
}

// resume lets a destination go on if it waits for its turn: the turn has come.
func (x *dispatcher) resume(d *destination) {
	if !d.waits {
		return
	}
	d.waits, d.turn = false, true
	x.ready += d.n
	if d.first == nil || x.results.full() {
		d.passTurn()
	}
}

// resumeAll resumes all destinations whose turn has come.
func (x *dispatcher) resumeAll() {
	for _, d := range x.order {
		if d.waits && d.user.HasTurn() {
			x.resume(d)
		}
	}
}

// sleep lets a worker wait until there may be something to do.
func (x *dispatcher) sleep() {
	x.sleeping++
	x.work.Wait()
	x.sleeping--
	x.waking = false
}

// wake signals one worker if lanes are ready and no signalled worker is about to look.
func (x *dispatcher) wake() {
	if x.ready > 0 && x.sleeping > 0 && !x.waking {
		x.waking = true
		x.work.Signal()
	}
}

// stop keeps further attempts from starting.
func (x *dispatcher) stop() {
	x.stopped = true
	for _, d := range x.order {
		d.user.Leave()
	}
	x.work.Broadcast()
}
