package lane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/sink"
)

// sinkQueue is a configured sink with its ready lanes. Before every attempt it asks the destination that all subscriptions
// share (user). If the answer is to wait, it waits for its turn.
type sinkQueue struct {
	*target     // under mu: an attempt under way has its own, see entry.to
	name        string
	index       uint16      // in dispatcher.order
	first, last *lane       // ready, oldest first
	n           int         // how many are ready
	running     int         // attempts under way
	accepted    int         // heads that it has accepted, and whose result it reports later
	spilled     []spilledAt // until the destination takes attempts again
	waits       bool        // waits for its turn: its lanes do not count in dispatcher.ready
	turn        bool        // its turn has come and was not used yet
	hurried     uint64      // how often what waits for its next attempt was to try at once
	hurriedAt   time.Time
	again       destination.Again // what of it, the last time
	user        *destination.User
	metrics     destinationMetrics
	cancels     chan struct{} // has a place for each call of a cancel URL at once; never closed
}

// target is what attempts are made at, and how. It does not change: another takes its place, and attempts under way end with the one that they
// began with.
type target struct {
	DestinationConfig
	answer int           // bytes that are held of an answer at most
	look   int           // the same of an attempt that may look for earlier ones
	using  int           // attempts and calls of cancel URLs under way; under mu
	unused chan struct{} // nil: it is in force. Closed once another has taken its place and no attempt uses it any more
}

// release ends one use of a target.
func (d *target) release() {
	if d.using--; d.using == 0 && d.unused != nil {
		close(d.unused)
	}
}

func (x *dispatcher) target(name string, d DestinationConfig) *target {
	t := &target{DestinationConfig: d.withDefaults(name, x.cfg.MaxInFlight), answer: sink.MaxResponse}
	if s, ok := t.Sink.(sink.Answerer); ok {
		t.answer = s.Answer()
	}
	t.look = t.answer
	if s, ok := t.Sink.(sink.Looker); ok {
		t.look = max(t.look, s.Look())
	}
	return t
}

// replace puts another target in the place of a destination's. What is returned is closed once no attempt uses the one before.
func (x *dispatcher) replace(d *sinkQueue, t *target) <-chan struct{} {
	before := d.target
	before.unused = make(chan struct{})
	if before.using == 0 {
		close(before.unused)
	}
	d.target = t
	if d.Long.Deadline > 0 {
		signal(x.toLong)
	}
	return before.unused
}

// passTurn gives up a turn that no head can use now.
func (d *sinkQueue) passTurn() {
	if d.turn {
		d.turn = false
		d.user.Pass()
	}
}

// answerTo returns how many bytes of answers an attempt of e may hold.
func (d *target) answerTo(e *entry) int {
	if e.mayLook() {
		return d.look
	}
	return d.answer
}

// longFull reports whether the destination works on as many actions at once as its long-work policy allows.
func (d *sinkQueue) longFull() bool {
	return d.Long.Deadline > 0 && d.running+d.accepted >= d.Long.Most
}

// blocked reports whether a destination takes no attempts now, or only one that probes it: it is paused, on hold, behind a
// breaker, or longFull. One that is merely busy is not blocked: its backlog moves, and spilling it would read it twice.
func (d *sinkQueue) blocked() bool { return d.user.Blocked() || d.longFull() }

// dispatcher has the destinations with their ready lanes, and the workers that wait for a ready lane. Callers hold mu.
type dispatcher struct {
	cfg     *Config
	metrics *metrics
	results *completions
	spilled *spillList
	toClock chan<- struct{} // a destination's turn has come
	toLong  chan<- struct{} // a destination was added that may finish later

	byName map[string]*sinkQueue
	order  []*sinkQueue // round robin
	next   int          // index in order of the destination that is asked next

	ready    int  // ready lanes of the destinations that do not wait for their turn
	sleeping int  // workers that wait
	waking   bool // a worker was signalled and has not looked yet
	stopped  bool // Run is ending: no attempt starts
	paused   bool // the subscription is paused: no attempt starts
	work     *sync.Cond
}

// addDestinations adds the configured destinations, in order of their names.
func (x *dispatcher) addDestinations() {
	for _, name := range slices.Sorted(maps.Keys(x.cfg.Destinations)) {
		x.add(name, x.cfg.Destinations[name])
	}
}

func (x *dispatcher) add(name string, d DestinationConfig) *sinkQueue {
	dest := &sinkQueue{name: name, index: uint16(len(x.order)), target: x.target(name, d), metrics: x.metrics.of(name), cancels: make(chan struct{}, cancelsAtOnce)}
	team, _, _ := strings.Cut(x.cfg.Subscription, ".")
	dest.user = dest.Shared.Join(team, func() { signal(x.toClock) })
	x.byName[name] = dest
	x.order = append(x.order, dest)
	if dest.Long.Deadline > 0 {
		signal(x.toLong)
	}
	return dest
}

// find finds a destination by the name that an action has for it, which may be one of before. An action whose destination is no longer
// configured gets a sink that says so: it ends as a dead letter after its retries instead of vanishing.
func (x *dispatcher) find(name string) *sinkQueue {
	if d := x.byName[name]; d != nil {
		return d
	}
	now, d, ok := x.cfg.Find(name)
	switch {
	case !ok:
		return x.add(name, DestinationConfig{Sink: missing(name)})
	case x.byName[now] == nil:
		x.add(now, d)
	}
	x.byName[name] = x.byName[now]
	return x.byName[now]
}

type missing string

func (m missing) Do(_ context.Context, a sink.Action) (sink.Outcome, error) {
	team, _, _ := strings.Cut(a.Subscription, ".")
	return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassBug, Err: fmt.Errorf(
		"the file has no destination %s that team %s may use: write it there again, and replay what is dead by then", string(m), team)}
}

// lacks reports whether there was no such destination when it was looked for.
func (d *sinkQueue) lacks() bool {
	_, is := d.Sink.(missing)
	return is
}
func (missing) Close(context.Context) error   { return nil }
func (missing) Idempotency() sink.Idempotency { return sink.Idempotent }

// enqueue puts a lane behind those that are ready at d.
func (x *dispatcher) enqueue(d *sinkQueue, la *lane) {
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
func (x *dispatcher) dequeue(d *sinkQueue) {
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
func (x *dispatcher) remove(d *sinkQueue, out func(*lane) bool) {
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

// underWay returns how many attempts are under way, at all destinations.
func (x *dispatcher) underWay() (n int) {
	for _, d := range x.order {
		n += d.running
	}
	return n
}

// nextInTurn returns the destination that is next in the round robin.
func (x *dispatcher) nextInTurn() *sinkQueue {
	d := x.order[x.next]
	x.next = (x.next + 1) % len(x.order)
	return d
}

// release gives back the slot of a head and, if the destination was not called, its token. feedback is nil if the attempt says
// nothing about the destination.
func (x *dispatcher) release(e *entry, d *sinkQueue, feedback *destination.Outcome) {
	d.running--
	e.to.release()
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
func (x *dispatcher) resume(d *sinkQueue) {
	if !d.waits {
		return
	}
	d.waits, d.turn = false, true
	x.ready += d.n
	if d.first == nil || x.paused || x.results.full() {
		d.passTurn()
	}
}

// passTurns gives up all turns that were not used yet.
func (x *dispatcher) passTurns() {
	for _, d := range x.order {
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
	if x.ready > 0 && !x.paused && x.sleeping > 0 && !x.waking {
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
