package destination

import (
	"slices"
	"time"
)

// span is a time in which nothing was let through.
type span struct{ from, to time.Time }

const (
	maxSpans = 256
	// joined is how far apart two of them count as one: between them lay no more than a timer's lateness, or an attempt that was
	// refused at once.
	joined = time.Second
)

// note keeps that nothing is let through from from to to. Spans stay apart and in order; the oldest go first.
func (d *Destination) note(from, to time.Time) {
	if !to.After(from) {
		return
	}
	d.spans = slices.DeleteFunc(d.spans, func(s span) bool {
		near := !s.from.After(to.Add(joined)) && !from.After(s.to.Add(joined))
		if near {
			from, to = sooner(from, s.from), later(to, s.to)
		}
		return near
	})
	at := slices.IndexFunc(d.spans, func(s span) bool { return s.from.After(from) })
	if at < 0 {
		at = len(d.spans)
	}
	d.spans = slices.Insert(d.spans, at, span{from, to})
	if len(d.spans) > maxSpans {
		d.spans = slices.Delete(d.spans, 0, 1)
	}
}

// shut is note from now on. Where it was the one attempt of a half-open breaker that brought it, nothing else was let through
// while that was under way.
func (d *Destination) shut(now, until time.Time) {
	if d.breaker == HalfOpen {
		now = d.tried
	}
	d.note(now, until)
}

// unshut takes back what was noted of the time from now on but for a hold.
func (d *Destination) unshut(now time.Time) {
	for i, s := range d.spans {
		d.spans[i].to = sooner(s.to, later(now, d.held))
	}
}

// Away is for how long of the time from from to to the destination was paused, held, or behind an open breaker, as far as
// this process knows: nobody could have attempted anything then.
func (d *Destination) Away(from, to time.Time) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		d.note(d.pausedFrom, time.Now())
	}
	for _, s := range d.spans {
		sum += max(0, sooner(s.to, to).Sub(later(s.from, from)))
	}
	return sum
}
