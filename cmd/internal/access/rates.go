package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates bound how often each caller does something. Callers are kept by name, at most mostCallers of them. Safe for concurrent use.
type Rates struct {
	every rate.Limit
	burst int

	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

// mostCallers is how many callers are known at once: names are of tokens and of addresses, and there are many of the latter.
const mostCallers = 10_000

// NewRates lets each caller do something so often in a second on the average, and so often at once.
func NewRates(perSecond float64, burst int) *Rates {
	return &Rates{every: rate.Limit(perSecond), burst: burst, callers: map[string]*rate.Limiter{}}
}

// Take takes one turn of a caller. If there is none, it returns after how long there will be.
func (r *Rates) Take(caller string) (wait time.Duration) {
	now := time.Now()
	l := r.of(caller, now)
	turn := l.ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
	}
	return wait
}

// Spent reports whether a caller has no turn now. It takes none.
func (r *Rates) Spent(caller string) bool {
	now := time.Now()
	return r.of(caller, now).TokensAt(now) < 1
}

func (r *Rates) of(caller string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.callers[caller]
	if l == nil {
		if len(r.callers) >= mostCallers {
			r.forget(now)
		}
		l = rate.NewLimiter(r.every, r.burst)
		r.callers[caller] = l
	}
	return l
}

// forget forgets those who have all their turns, and everybody if there are none such: whoever sends from so many addresses has as many turns.
func (r *Rates) forget(now time.Time) {
	for name, l := range r.callers {
		if l.TokensAt(now) >= float64(r.burst) {
			delete(r.callers, name)
		}
	}
	if len(r.callers) >= mostCallers {
		clear(r.callers)
	}
}
