package destination

import (
	"slices"
	"time"
)

// span is a time in which no attempt could begin.
type span struct{ from, to time.Time }

const (
	maxSpans = 256
	// mergeWithin is the distance up to which two spans count as one: what lies between them is only a late timer, or an attempt that
	// was refused at once.
	mergeWithin = time.Second
)

// addBlocked notes that no attempt can begin between from and to. Spans stay apart and in order; the oldest is dropped first.
func (d *Destination) addBlocked(from, to time.Time) {
	if !to.After(from) {
		return
	}
	d.blocked = slices.DeleteFunc(d.blocked, func(s span) bool {
		near := !s.from.After(to.Add(mergeWithin)) && !from.After(s.to.Add(mergeWithin))
		if near {
			from, to = sooner(from, s.from), later(to, s.to)
		}
		return near
	})
	at := slices.IndexFunc(d.blocked, func(s span) bool { return s.from.After(from) })
	if at < 0 {
		at = len(d.blocked)
	}
	d.blocked = slices.Insert(d.blocked, at, span{from, to})
	if len(d.blocked) > maxSpans {
		d.blocked = slices.Delete(d.blocked, 0, 1)
	}
}

// block notes that no attempt can begin from now to until. If the single attempt of a half-open breaker has just failed, the time of
// that attempt counts, too: no other could begin meanwhile.
func (d *Destination) block(now, until time.Time) {
	if d.breaker == HalfOpen {
		now = d.halfOpenSince
	}
	d.addBlocked(now, until)
}

// unblock cuts the noted spans off at now, or at the end of the current hold.
func (d *Destination) unblock(now time.Time) {
	for i, s := range d.blocked {
		d.blocked[i].to = sooner(s.to, later(now, d.held))
	}
}

// BlockedFor returns how much of the time between from and to the destination was paused, on hold or behind an open breaker, as
// far as this process knows. No attempt could begin then.
func (d *Destination) BlockedFor(from, to time.Time) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		d.addBlocked(d.pausedFrom, time.Now())
	}
	for _, s := range d.blocked {
		sum += max(0, sooner(s.to, to).Sub(later(s.from, from)))
	}
	return sum
}
