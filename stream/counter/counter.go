// Package counter is a process's part of the limits that all processes share: budgets and rates. It takes units from the ledger before
// they are used, a few ahead where much is left, so that most of what is counted costs no statement:
//
//	Take ──▶ what was taken ahead ──none──▶ ledger: 1/64 of what is left in the window, at least what is wanted
//	  idle for 5 s, or the end of the process ──▶ what was not used goes back
//	  kill -9                                 ──▶ it counts as used until the window ends: too little is used, never too much
//
// What several goroutines ask at the same time is one statement, and what they have used more or less than they had taken comes out of what was
// taken ahead.
package counter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Store keeps what all processes have used; [ledger.Ledger] implements it.
type Store interface {
	// Count answers each ask by the grant at its index. A name is there once.
	Count(ctx context.Context, asks []ledger.CounterAsk) ([]ledger.CounterGrant, error)
}

// Limit is how many units all processes may use together in each window.
type Limit struct {
	Name  string        // whose it is; the same in all processes
	Units int64         // in a window, above zero and below 2^53
	Per   time.Duration // a window's length, whole microseconds. Windows begin at multiples of it since 1970, UTC
}

// Answer says whether units may be used.
type Answer struct {
	OK   bool
	Used int64         // in the window, by all processes, as it was when the ledger was asked last; with what they have taken ahead
	Left time.Duration // until the window ends
	// Window is the one that the units are of, for Settle.
	Window time.Time
	Asked  bool // the ledger, for this: otherwise Used is as it was
}

const (
	idle       = 5 * time.Second // after which units that were taken ahead go back
	askAgain   = time.Second     // after which a limit that was reached is asked for again: units may have come back
	mostAtOnce = 500             // asks in a statement
	wait       = 5 * time.Second // for the ledger
	maxName    = 400             // bytes of a name; a longer one is cut and ends in its hash
)

// Counters are the counters of a process. Safe for concurrent use. Run must run.
type Counters struct {
	store Store
	log   *slog.Logger

	mu     sync.Mutex
	leases map[string]*lease
	queue  []*question
	down   bool          // the ledger did not answer last; of Run alone
	asked  chan struct{} // capacity 1, never closed: there is something in queue
	done   chan struct{} // closed when Run ends
}

// New makes the counters of a process. logger may be nil.
func New(store Store, logger *slog.Logger) *Counters {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Counters{store: store, log: logger, leases: map[string]*lease{}, asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// lease is what this process has taken of a limit and not used.
type lease struct {
	name    string
	limit   Limit         // as it was asked for last
	users   int           // goroutines that have it; under Counters.mu
	lock    chan struct{} // holds a value while somebody uses what is below
	units   int64
	window  time.Time // its beginning, as the ledger says
	ends    time.Time // when the window ends, by our clock and never later than it does
	used    int64
	refused time.Time // until when nobody need ask the ledger
	touched time.Time
}

// question waits for its answer.
type question struct {
	ask    ledger.CounterAsk
	sent   time.Time // right before the ledger was asked
	grant  ledger.CounterGrant
	err    error
	answer chan struct{} // closed with the answer; nil: nobody waits for it
	left   bool          // nobody waits any more; under Counters.mu
}

// Take takes n units, all or none. An error means that it is not known whether there are any: nothing may be used then.
func (c *Counters) Take(ctx context.Context, l Limit, n int64) (Answer, error) {
	if a, ok := c.takeAhead(l, n); ok {
		return a, nil
	}
	e, err := c.hold(ctx, l.Name)
	if err != nil {
		return Answer{}, err
	}
	defer c.release(e)
	now := time.Now()
	if e.limit != l {
		e.refused = time.Time{} // by another limit
	}
	e.limit, e.touched = l, now
	if !now.Before(e.ends) {
		e.units, e.refused = 0, time.Time{}
	}
	asked := false
	for ; e.units < n && !now.Before(e.refused); asked = true {
		had := e.units
		q, err := c.ask(ctx, ledger.CounterAsk{Name: e.name, Limit: l.Units, Per: l.Per, Want: n - e.units, Most: l.Units})
		if err != nil {
			return Answer{}, err
		}
		if e.window != q.grant.Window {
			e.units = 0 // of the window before
		}
		e.window, e.used, e.ends = q.grant.Window, q.grant.Used, q.sent.Add(q.grant.Left)
		if e.units += q.grant.Units; e.units < n && (had == 0 || e.units >= had) {
			e.refused = now.Add(askAgain)
		}
	}
	ok := e.units >= n
	if ok {
		e.units -= n
	}
	a := e.answer(ok, now)
	a.Asked = asked
	return a, nil
}

func (e *lease) answer(ok bool, now time.Time) Answer {
	return Answer{OK: ok, Used: e.used, Left: e.ends.Sub(now), Window: e.window}
}

// takeAhead takes n units of those that this process has taken ahead, and reports whether it could.
func (c *Counters) takeAhead(l Limit, n int64) (a Answer, ok bool) {
	ok = c.ahead(l, func(e *lease, now time.Time) bool {
		if e.units < n {
			return false
		}
		e.units -= n
		a = e.answer(true, now)
		return true
	})
	return a, ok
}

// ahead has use change what this process has taken ahead of a limit, and returns what it returns. It returns false where there is nothing of the
// window, or somebody asks the ledger for more just now.
func (c *Counters) ahead(l Limit, use func(e *lease, now time.Time) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.leases[cut(l.Name)]
	if e == nil {
		return false
	}
	select {
	case e.lock <- struct{}{}:
	default:
		return false
	}
	defer func() { <-e.lock }()
	now := time.Now()
	if e.limit != l || !now.Before(e.ends) || !use(e, now) {
		return false
	}
	e.touched = now
	return true
}

// Settle counts n more units as used than were taken in a window, whatever the limit is: what is used already counts in the window that is. Below
// zero they were taken and not used, and go back where the window is still the same. What was taken ahead pays for it where that is enough; else it
// does not wait for the ledger, which is asked for what was used until it answers.
func (c *Counters) Settle(l Limit, n int64, window time.Time) {
	if n != 0 && !c.settleAhead(l, n, window) {
		c.put(&question{ask: ledger.CounterAsk{Name: cut(l.Name), Limit: l.Units, Per: l.Per, Want: n, Force: true, Window: window}})
	}
}

// settleAhead settles n units with those that this process has taken ahead, and reports whether it could. The ledger counts these as used already, so
// it need not be asked. What goes back stays here too, up to as much as may be taken ahead: a 64th of what is left, or one.
func (c *Counters) settleAhead(l Limit, n int64, window time.Time) bool {
	return c.ahead(l, func(e *lease, _ time.Time) bool {
		left := e.units - n
		if left < 0 || n < 0 && !e.window.Equal(window) {
			return false
		}
		if n < 0 {
			e.refused = time.Time{} // there is something again: here, or in the ledger before that is asked next
			if left > max(1, (l.Units-e.used)/64) {
				return false
			}
		}
		e.units = left
		return true
	})
}

// Pour takes want to most units of a bucket into which limit units flow in each per, and which holds burst at most. What is
// not used goes back by PourBack. retry is after how long want units are there, where none were given.
func (c *Counters) Pour(ctx context.Context, name string, limit int64, per time.Duration, burst, want, most int64) (units int64, retry time.Duration, err error) {
	q, err := c.ask(ctx, ledger.CounterAsk{Name: cut(name), Limit: limit, Per: per, Burst: burst, Want: want, Most: most})
	if err != nil {
		return 0, 0, err
	}
	return q.grant.Units, q.grant.Left, nil
}

// PourBack gives back n units that Pour gave and that were not used. It does not wait for the ledger; where that does not answer they are lost.
func (c *Counters) PourBack(name string, limit int64, per time.Duration, burst, n int64) {
	c.put(&question{ask: ledger.CounterAsk{Name: cut(name), Limit: limit, Per: per, Burst: burst, Want: -n, Force: true}})
}

// hold returns the lease of a name, for the caller alone until release.
func (c *Counters) hold(ctx context.Context, name string) (*lease, error) {
	name = cut(name)
	c.mu.Lock()
	e := c.leases[name]
	if e == nil {
		e = &lease{name: name, lock: make(chan struct{}, 1)}
		c.leases[name] = e
	}
	e.users++
	c.mu.Unlock()
	select {
	case e.lock <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		c.leave(e)
		return nil, context.Cause(ctx)
	}
}

func (c *Counters) release(e *lease) {
	<-e.lock
	c.leave(e)
}

func (c *Counters) leave(e *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
}

// ask has Run ask the ledger, and waits for the answer. What is granted of a window to a caller that does not wait for it goes back.
func (c *Counters) ask(ctx context.Context, a ledger.CounterAsk) (q *question, err error) {
	q = &question{ask: a, answer: make(chan struct{})}
	c.put(q)
	select {
	case <-q.answer:
		return q, q.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.done:
		err = schemas.Errorf(schemas.Unavailable, "count what is used of "+a.Name, "the process is ending")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-q.answer: // by now
		return q, q.err
	default:
		q.left = true
		return nil, err
	}
}

// answered gives a question its answer.
func (c *Counters) answered(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(q.answer)
	if q.left && q.grant.Units > 0 && q.ask.Burst == 0 {
		back := q.ask
		back.Want, back.Most, back.Force, back.Window = -q.grant.Units, 0, true, q.grant.Window
		c.queue = append(c.queue, &question{ask: back})
	}
}

func (c *Counters) put(q *question) {
	c.mu.Lock()
	c.queue = append(c.queue, q)
	c.mu.Unlock()
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// Run asks the ledger what others want to know, and gives back what is not used, until ctx ends; then it gives back everything.
func (c *Counters) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ticks := true; ; {
		switch busy := c.busy(); {
		case busy && !ticks:
			tick.Reset(time.Second)
			ticks = true
		case !busy:
			tick.Stop()
			ticks = false
		}
		select {
		case <-c.asked:
			c.answer(ctx)
		case now := <-tick.C:
			c.giveBack(now.Add(-idle))
			c.answer(ctx)
		case <-ctx.Done():
			c.end(context.WithoutCancel(ctx))
			return
		}
	}
}

// busy reports whether there is anything to give back or to ask again. Whoever changes that puts a question.
func (c *Counters) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leases) > 0 || len(c.queue) > 0
}

// end gives back everything. Nothing is asked any more.
func (c *Counters) end(ctx context.Context) {
	close(c.done)
	c.giveBack(time.Now().Add(time.Hour))
	c.answer(ctx)
}

// answer asks the ledger until nothing is left to ask, or it does not answer.
func (c *Counters) answer(ctx context.Context) {
	for {
		batch := c.batch()
		if len(batch) == 0 {
			return
		}
		asks := make([]ledger.CounterAsk, len(batch))
		sent := time.Now()
		for i, q := range batch {
			asks[i] = q.ask
		}
		within, cancel := context.WithTimeout(ctx, wait)
		grants, err := c.store.Count(within, asks)
		cancel()
		var again []*question
		for i, q := range batch {
			switch {
			case err != nil && q.ask.Force && q.ask.Want > 0:
				again = append(again, q)
			case err != nil:
				q.err = err
			default:
				q.sent, q.grant = sent, grants[i]
			}
			if q.answer != nil {
				c.answered(q)
			}
		}
		if err == nil {
			c.down = false
			continue
		}
		if !c.down {
			c.log.Warn("what is used of budgets and rates cannot be counted: nothing that has a budget is attempted until it can, and each process keeps its part of a rate", "error", err)
		}
		c.down = true
		c.mu.Lock()
		c.queue = append(again, c.queue...) // with the next tick
		c.mu.Unlock()
		return
	}
}

// batch takes questions from the queue, each name once. What is only to be counted is one question for all of one window.
func (c *Counters) batch() (batch []*question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := map[string]*question{}
	var rest []*question
	for _, q := range c.queue {
		switch of := first[q.ask.Name]; {
		case of != nil && of.joins(q):
			of.ask.Want += q.ask.Want
		case of != nil || len(batch) == mostAtOnce:
			rest = append(rest, q)
		default:
			first[q.ask.Name] = q
			batch = append(batch, q)
		}
	}
	c.queue = rest
	return batch
}

// joins reports whether nobody waits for either, and both count, or both give back, units of one limit and window: so they are one.
func (q *question) joins(other *question) bool {
	a, b := q.ask, other.ask
	sum := a.Want + b.Want
	joint := q.answer == nil && other.answer == nil && a.Force && a.Want > 0 == (b.Want > 0) && sum < 1<<53 && sum > -1<<53
	a.Want = b.Want
	return joint && a == b
}

// giveBack puts back what was not touched since a time. It goes back once: where the ledger does not answer it counts as used.
func (c *Counters) giveBack(since time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, e := range c.leases {
		if e.users > 0 || !e.touched.Before(since) {
			continue
		}
		if e.units > 0 && now.Before(e.ends) {
			c.queue = append(c.queue, &question{ask: ledger.CounterAsk{
				Name: name, Limit: e.limit.Units, Per: e.limit.Per, Want: -e.units, Force: true, Window: e.window}})
		}
		delete(c.leases, name)
	}
}

// cut makes a name fit for a key.
func cut(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:maxName-33], "") + "#" + hex.EncodeToString(sum[:16])
}
