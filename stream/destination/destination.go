package destination

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config makes a Destination.
type Config struct {
	Name   string // "<team>/<destination>", or "<destination>" where teams share it
	Policy Policy
	Logger *slog.Logger // nil logs nothing
	// Registerer takes the destination's metrics; nil: none.
	Registerer prometheus.Registerer
}

// Destination is one configured destination in one process.
type Destination struct {
	name    string
	policy  Policy
	log     *slog.Logger
	metrics *metrics
	changed chan struct{} // capacity 1, never closed: the [Keeper] has something to store

	mu      sync.Mutex
	teams   map[string]*team
	turns   turns
	running int // attempts begun, and turns given

	breaker     breaker
	onHoldUntil time.Time // as an answer asked; zero: not on hold
	adopted     bool      // what the store says was read
	resumed     time.Time // when an operator last had attempts go on, as the store says
	rate        bucket
	leases      leases
	paced       time.Time // before it nobody is given a turn; see paceTurns
	meter       meter
	blocked     []span // when nobody could attempt anything

	paused       *Pause    // nil: it is not
	pausedFrom   time.Time // by our clock
	unsaved      bool      // paused by itself, and the ledger does not know
	failures     int       // in a row
	pausing      int       // of those, how many count for the pause
	failing      time.Time
	succeeded    bool      // and the ledger may not know
	failingSaved bool      // the ledger knows since when it fails
	recovered    bool      // got through here while the breaker was open, and the ledger may not know
	reached      time.Time // when an attempt of this process last got through; zero: none has
	back         bool      // something got through after a while of failures, and the keeper has not told
	probed       time.Time // when the keeper last had one attempt made
	heard        time.Time // when another process last got through where this one does not
	last         *Failure  // the newest attempt of this process that failed
	gone         int       // answers in a row that the place is gone
	goneCode     int

	timer   *time.Timer
	timerAt time.Time // when the timer fires; zero: not armed
}

// New makes a destination that nobody uses yet.
func New(cfg Config) (*Destination, error) {
	if err := cfg.Policy.validate(); err != nil {
		return nil, fmt.Errorf("destination %s: %w", cfg.Name, err)
	}
	logger := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	d := &Destination{
		name: cfg.Name, policy: cfg.Policy, log: logger.With("destination", cfg.Name),
		changed: make(chan struct{}, 1), teams: map[string]*team{}, metrics: newMetrics(),
	}
	d.breaker = breaker{
		policy: cfg.Policy.Breaker, recovery: cfg.Policy.Recovery, concurrency: cfg.Policy.Concurrency, log: d.log, transitions: d.metrics.transitions,
		state: Closed, wait: cfg.Policy.Breaker.Wait,
	}
	if cfg.Registerer != nil {
		if err := d.register(cfg.Registerer); err != nil {
			return nil, fmt.Errorf("destination %s: %w", cfg.Name, err)
		}
	}
	return d, nil
}

// SetPolicy has the destination treated by another policy from now on. What it has learned stays: a breaker that is open, a hold, a pause.
func (d *Destination) SetPolicy(p Policy) error {
	if err := p.validate(); err != nil {
		return fmt.Errorf("destination %s: %w", d.name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.policy
	d.policy = p
	d.anew(before.Rate)
	if p.Agent != before.Agent || p.Rate != before.Rate {
		d.notifyKeeper() // a pause may stand for the one, and for the other not; nobody may have asked yet how many processes share a rate
	}
	b := &d.breaker
	b.policy, b.recovery, b.concurrency = p.Breaker, p.Recovery, p.Concurrency
	b.wait = max(b.policy.Wait, min(b.wait, b.policy.MaxWait))
	if p.Breaker.Failures == 0 && !b.openSince.IsZero() {
		d.recover(time.Now()) // nothing opens or closes it any more
	}
	d.serve()
	return nil
}

// agent returns who is behind it.
func (d *Destination) agent() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policy.Agent
}

// Name returns the full name.
func (d *Destination) Name() string { return d.name }

// mayBegin reports whether an attempt may begin now. If not, and waiting helps, next is when to try next. It is zero
// where an attempt or a pause has to end first.
func (d *Destination) mayBegin(now time.Time) (ok bool, next time.Time) {
	if stopped, until := d.stopped(now); stopped {
		return false, until
	}
	d.endHold(now)
	if c := d.policy.Concurrency; c > 0 && d.running >= c {
		return false, next
	}
	if d.policy.Rate.OnLimit == Queue {
		if perSecond := d.pour(now); !d.rate.has() {
			return false, d.rate.next(perSecond)
		}
	}
	if ok, next = d.breaker.mayBegin(now, d.running); !ok {
		return false, next
	}
	return d.leased(now)
}

// stopped reports whether a pause or a hold lets nothing begin, and until when; zero: unknown.
func (d *Destination) stopped(now time.Time) (stopped bool, until time.Time) {
	if d.paused != nil {
		return true, until
	}
	return now.Before(d.onHoldUntil), d.onHoldUntil
}

func (r Rate) perSecond() float64 { return float64(r.Limit) / r.Per.Seconds() }

// begin charges an attempt that mayBegin allows.
func (d *Destination) begin(now time.Time) Permit {
	d.running++
	d.meter.add(now)
	if d.policy.Rate.OnLimit == Queue {
		d.take(now)
	}
	return d.breaker.begin(now)
}

// undoBegin takes back what begin charged: no attempt was made.
func (d *Destination) undoBegin(p Permit) {
	d.running--
	d.meter.n = max(0, d.meter.n-1)
	if d.policy.Rate.OnLimit == Queue {
		d.untake()
	}
	d.breaker.undoBegin(p)
}

// limited reports that an action which does not wait for a token finds none. Otherwise it takes the token.
func (d *Destination) limited(now time.Time) bool {
	if !d.policy.Rate.strict() {
		return false
	}
	if d.pour(now); !d.rate.has() || d.without(now) {
		return true
	}
	d.take(now)
	return false
}

// strict reports whether an action without a token fails or is dropped instead of waiting.
func (r Rate) strict() bool { return r.OnLimit == Drop || r.OnLimit == Error }

// serve gives turns to users that wait, as long as attempts may begin, and sets the timer where only time is missing.
func (d *Destination) serve() {
	if d.turns.empty() {
		return
	}
	now := time.Now()
	for !d.turns.empty() {
		if now.Before(d.paced) {
			d.setTimer(d.paced)
			return
		}
		ok, next := d.mayBegin(now)
		if !ok {
			d.setTimer(next)
			return
		}
		u := d.turns.next()
		u.permit, u.turn = d.begin(now), true
		u.call()
		d.paceTurns(now)
	}
}

// setTimer has serve run at the given time, or earlier if the timer is set for an earlier time already: serve then sets it again as
// needed. A zero time sets nothing. The caller holds mu.
func (d *Destination) setTimer(at time.Time) {
	if at.IsZero() || !d.timerAt.IsZero() && !at.Before(d.timerAt) {
		return
	}
	d.timerAt = at
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(at), d.fire)
	} else {
		d.timer.Reset(time.Until(at))
	}
}

func (d *Destination) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timerAt = time.Time{}
	d.dropLots(time.Now())
	d.serve()
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
