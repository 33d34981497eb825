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

// BlockedFor returns how much of the time between from and to the destination was paused, on hold or behind an open breaker, as
// far as this process knows. Nobody could attempt anything then, but for a few that tried whether it works again.
func (d *Destination) BlockedFor(from, to time.Time) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		d.addBlocked(d.pausedFrom, time.Now())
	}
	if away := d.breaker.away; !away.IsZero() {
		d.addBlocked(away, time.Now())
	}
	for _, s := range d.blocked {
		sum += max(0, sooner(s.to, to).Sub(later(s.from, from)))
	}
	return sum
}
