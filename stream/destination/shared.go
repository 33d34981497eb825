package destination

import (
	"context"
	"time"
)

// Tokens are those that all processes share; [counter.Counters] has them.
type Tokens interface {
	// Pour takes want to most units of a bucket into which limit flow in each per, and which holds burst at most. Where there are fewer it gives
	// none; retry is after how long there may be as many.
	Pour(ctx context.Context, name string, limit int64, per time.Duration, burst, want, most int64) (units int64, retry time.Duration, err error)
	// PourBack gives back n units that were not used. It does not wait.
	PourBack(name string, limit int64, per time.Duration, burst, n int64)
}

// leases are the tokens of all processes that this one has taken ahead. Beside them the destination keeps its own bucket, so that a process alone
// begins attempts as if there were no other.
//
//	begin ──▶ lots ──nearly used up──▶ ledger: twice as many as before, at most as many as come in a quarter of the burst
//	  not used within its life ──▶ back to the ledger, and half as many the next time
//
// Of what comes in a window and of what is held when it begins, no more can be used in it than rate times window, and burst: so the ledger's
// bucket holds as much less as a lot may be held.
type leases struct {
	from      Tokens // nil: the destination's own bucket is all there is
	processes int    // that share, as far as is known

	lots   []lot // those that end first, first
	ended  time.Time
	size   int64
	owed   int64     // used without having been taken
	asking bool      // the ledger, right now
	again  time.Time // before which it need not be asked again
	away   bool      // it did not answer
}

// lot is tokens that came with one answer.
type lot struct {
	n    int64
	ends time.Time
}

const (
	askTimeout = time.Second            // for the ledger's answer
	askAway    = time.Second            // between questions to a ledger that does not answer
	leastLife  = 20 * time.Millisecond  // of a lot whose answer took long
	singleLife = 100 * time.Millisecond // of a token that was taken for one attempt
)

// lease is how tokens of a rate are taken ahead: at most so many at once, each used within life, from a bucket that holds burst.
//
// Where burst is less than what comes in a fifth of a second, all processes together may begin as many more at once as are missing to that:
// the ledger would have to be asked too often otherwise.
func (r Rate) lease() (most int64, life time.Duration, burst int64) {
	full := int64(r.Burst)
	most = int64(max(r.perSecond()/10, min(float64(full)/4, r.perSecond())))
	if most <= 1 {
		return 1, singleLife, full
	}
	return most, time.Duration(float64(most) / r.perSecond() * float64(time.Second)), max(full-most, most)
}

// pace is the time between two questions to a ledger whose bucket is empty: so that more than one token is there. An action that does not wait
// for one asks sooner.
func (r Rate) pace() time.Duration {
	most, life, _ := r.lease()
	switch {
	case most == 1:
		return 0
	case r.strict():
		return life / 4
	}
	return life / 2
}

// paceTurns keeps turns a little apart where tokens come several at once: whoever had the last turn is to wait for its next one before a team
// with more that waits is given all the rest.
func (d *Destination) paceTurns(now time.Time) {
	if d.shares() && len(d.teams) > 1 {
		d.paced = now.Add(min(time.Millisecond, time.Duration(float64(time.Second)/d.policy.Rate.perSecond()/2)))
	}
}

// share has the destination take its tokens from those of all processes, of which so many are known.
func (d *Destination) share(from Tokens, processes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases.from, d.leases.processes = from, max(1, processes)
}

// limits reports whether it has a rate.
func (d *Destination) limits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policy.Rate.Limit > 0
}

// shares reports whether tokens are those of all processes.
func (d *Destination) shares() bool { return d.leases.from != nil && d.policy.Rate.Limit > 0 }

// pour has the process's own bucket filled. Without an answer of the ledger it gets this process's share alone.
func (d *Destination) pour(now time.Time) (perSecond float64) {
	r := d.policy.Rate
	perSecond, burst := r.perSecond(), float64(r.Burst)
	if d.shares() && d.leases.away {
		perSecond, burst = perSecond/float64(d.leases.processes), max(1, burst/float64(d.leases.processes))
	}
	d.rate.refill(now, perSecond, burst)
	return perSecond
}

// leased reports whether there is a token of all processes, or it is known that there is none and the action does not wait for one. If not, next is
// when to look again; zero: the ledger is being asked.
func (d *Destination) leased(now time.Time) (ok bool, next time.Time) {
	if !d.shares() {
		return true, next
	}
	l := &d.leases
	d.dropLots(now)
	switch due := !now.Before(l.again); {
	case l.away:
		if due {
			d.ask()
		}
		return true, next
	case len(l.lots) > 0:
		return true, next
	case !due:
		return d.policy.Rate.strict(), l.again
	}
	if d.policy.Rate.strict() {
		if d.pour(now); !d.rate.has() { // it is over its rate here already
			return true, next
		}
	}
	d.ask()
	return false, next
}

// unasked reports whether the ledger is to say whether there is a token of all processes. Where this process has none of its own, nobody asks.
func (d *Destination) unasked(now time.Time) bool {
	if !d.shares() || d.leases.away || len(d.leases.lots) > 0 || now.Before(d.leases.again) {
		return false
	}
	d.pour(now)
	return d.rate.has()
}

// without reports whether it is known that all processes have no token.
func (d *Destination) without(now time.Time) bool {
	return d.shares() && !d.leases.away && len(d.leases.lots) == 0 && now.Before(d.leases.again)
}

// take uses a token.
func (d *Destination) take(now time.Time) {
	d.rate.tokens--
	l := &d.leases
	if !d.shares() || l.away || len(l.lots) == 0 {
		return
	}
	l.ended = l.lots[0].ends
	if l.lots[0].n--; l.lots[0].n == 0 {
		l.lots = l.lots[1:]
	}
	if l.held() < l.size/4 && !now.Before(l.again) {
		d.ask()
	}
}

// untake puts a token back.
func (d *Destination) untake() {
	d.rate.tokens++
	if l := &d.leases; d.shares() && !l.away {
		l.lots = append([]lot{{1, l.ended}}, l.lots...)
		d.setTimer(l.ended)
	}
}

// held returns how many tokens were taken and not used.
func (l *leases) held() (n int64) {
	for _, lot := range l.lots {
		n += lot.n
	}
	return n
}

// ask asks the ledger for tokens, in a goroutine of its own. Its answer gives turns to those who wait.
func (d *Destination) ask() {
	l, r := &d.leases, d.policy.Rate
	if l.asking {
		return
	}
	l.asking = true
	most, life, burst := r.lease()
	owed := min(l.owed, burst-1)
	l.size = min(max(1, 2*l.size), most)
	from, want := l.from, 1+owed
	size := max(l.size, want)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		sent := time.Now()
		n, retry, err := from.Pour(ctx, d.bucket(r), int64(r.Limit), r.Per, burst, want, size)
		d.mu.Lock()
		defer d.mu.Unlock()
		now := time.Now()
		l.asking = false
		switch {
		case err != nil:
			if !l.away {
				d.log.Warn("the rate that all processes share is not known: each keeps its part alone until it is", "processes", l.processes, "error", err)
			}
			l.away, l.again = true, now.Add(askAway)
		case d.policy.Rate != r: // by another policy
			l.away = false
			d.giveBack(r, n)
		case n == 0:
			l.away, l.again = false, later(sent.Add(r.pace()), now.Add(max(retry, time.Millisecond)))
		default:
			l.away, l.again, l.owed = false, time.Time{}, l.owed-owed
			if n < size {
				l.again = sent.Add(r.pace())
			}
			if n -= owed; n > 0 {
				l.lots = append(l.lots, lot{n, later(sent.Add(life), now.Add(leastLife))})
				d.setTimer(l.lots[0].ends)
			}
		}
		d.serve()
	}()
}

// bucket is the name of a rate's bucket in the ledger, which counts in parts of Per.
func (d *Destination) bucket(r Rate) string { return "rate " + d.name + " " + r.Per.String() }

func (d *Destination) giveBack(r Rate, n int64) {
	if n > 0 {
		_, _, burst := r.lease()
		d.leases.from.PourBack(d.bucket(r), int64(r.Limit), r.Per, burst, n)
	}
}

// dropLots gives back what was not used in time.
func (d *Destination) dropLots(now time.Time) {
	l, over := &d.leases, int64(0)
	for len(l.lots) > 0 && !now.Before(l.lots[0].ends) {
		over += l.lots[0].n
		l.lots = l.lots[1:]
	}
	if over > 0 {
		l.size /= 4 // ask doubles it
		d.giveBack(d.policy.Rate, over)
	}
	if len(l.lots) > 0 {
		d.setTimer(l.lots[0].ends)
	}
}

// anew forgets what was taken by the rate before.
func (d *Destination) anew(before Rate) {
	if l := &d.leases; l.from != nil && before != d.policy.Rate {
		d.giveBack(before, l.held())
		l.lots, l.size, l.owed, l.again = nil, 0, 0, time.Time{}
	}
}
