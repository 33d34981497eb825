package destination

import (
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
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
// far as this process knows, or in one of the spans of also. Nobody could attempt anything then, but for a few that tried whether it works
// again.
func (d *Destination) BlockedFor(from, to time.Time, also ...ledger.Span) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		d.addBlocked(d.pausedFrom, time.Now())
	}
	if openSince := d.breaker.openSince; !openSince.IsZero() {
		d.addBlocked(openSince, time.Now())
	}
	all := slices.Clone(d.blocked)
	for _, s := range also {
		all = append(all, span{s.From, s.To})
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	counted := from // what is before is in sum
	for _, s := range all {
		if end := sooner(s.to, to); end.After(counted) {
			sum += max(0, end.Sub(later(s.from, counted)))
			counted = end
		}
	}
	return sum
}
