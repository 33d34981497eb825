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

// destination is a configured sink with its lanes that are ready. Before every attempt it asks what all subscriptions share of
// the destination; where that says to wait, it waits until its turn comes.
type destination struct {
	Destination
	name        string
	first, last *lane   // ready, oldest first
	n           int     // how many are ready
	running     int     // attempts under way
	async       int     // heads that it has accepted and not ended
	spilled     []*lane // lanes that left everything to the ledger until it takes attempts again
	waits       bool    // for its turn; its lanes do not count in dispatcher.ready
	turn        bool    // its turn has come and is not taken yet
	user        *shared.User
	metrics     destinationMetrics
}

// passTurn gives a turn up that nothing takes now.
func (d *destination) passTurn() {
	if d.turn {
		d.turn = false
		d.user.Pass()
	}
}

// asyncFull reports whether the destination works on as much as it may.
func (d *destination) asyncFull() bool {
	return d.Long.Deadline > 0 && d.running+d.async >= d.Long.Most
}

// blocked reports whether a destination takes next to nothing now: it is paused, or makes its one attempt, or works on as much
// as it may. One that is only busy is not blocked: a backlog that moves would be read twice.
func (d *destination) blocked() bool { return d.user.Blocked() || d.asyncFull() }

// dispatcher has the destinations with their ready lanes, and the workers that wait for one. Callers hold mu.
type dispatcher struct {
	cfg     *Config
	metrics *metrics
	results *completions
	spilled *spillList
	toClock chan<- struct{} // a destination's turn has come

	byName map[string]*destination
	order  []*destination // in which they take turns
	next   int            // whose turn it is, in order

	ready    int  // lanes ready at all destinations that do not wait for their turn
	sleeping int  // workers that wait
	waking   bool // one of them has been called and has not looked yet
	stopped  bool // Run ends: no attempt starts
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
	team, _, _ := strings.Cut(x.cfg.Subscription, ".")
	dest.user = dest.Shared.Join(team, func() { signal(x.toClock) })
	x.byName[name] = dest
	x.order = append(x.order, dest)
	return dest
}

// find finds a destination by name. An action of one that is no longer configured gets a sink that says so, and so ends as a
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

// dequeue takes out the lane that is ready first at d.
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

// remove takes lanes out of those that are ready at d.
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

// nextInTurn is the destination that may start an attempt next.
func (x *dispatcher) nextInTurn() *destination {
	d := x.order[x.next]
	x.next = (x.next + 1) % len(x.order)
	return d
}

// release gives back the slot of a head and, where the destination was not called, its tokens. feedback is nil where the
// destination learns nothing from the attempt.
func (x *dispatcher) release(e *entry, d *destination, feedback *shared.Outcome) {
	d.running--
	turn := false
	switch {
	case e.limited: // it was charged nothing
	case e.called:
		turn = d.user.End(feedback)
	default:
		turn = d.user.GiveBack()
	}
	if turn {
		x.resume(d)
	}
}

// resume lets a destination go on whose turn has come.
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

// resumeAll lets all destinations go on whose turn has come.
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

// wake calls a worker where there is something to do and none is on its way.
func (x *dispatcher) wake() {
	if x.ready > 0 && x.sleeping > 0 && !x.waking {
		x.waking = true
		x.work.Signal()
	}
}

// stop lets no attempt start any more.
func (x *dispatcher) stop() {
	x.stopped = true
	for _, d := range x.order {
		d.user.Leave()
	}
	x.work.Broadcast()
}
