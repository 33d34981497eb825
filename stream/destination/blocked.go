package destination

import (
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// span is a time in which no attempt could begin, or two and more of them with what was between.
type span struct {
	from, to time.Time
	blocked  time.Duration // how much of it: all, but for spans that were joined
}

const (
	maxSpans = 256
	// mergeWithin is the distance up to which two spans count as one: what lies between them is only a late timer, or an attempt that
	// was refused at once.
	mergeWithin = time.Second
)

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// exact reports whether nothing could begin in all of s.
func (s span) exact() bool { return s.blocked == s.length() }

// addBlocked notes that no attempt can begin between from and to. Spans stay apart and in order. Where there are too many, the two that are
// shortest together become one, which keeps how much of it was blocked: of a destination that flaps for a day, little is known of when, and all
// of how long.
func (d *Destination) addBlocked(from, to time.Time) {
	if !to.After(from) {
		return
	}
	now := span{from, to, to.Sub(from)}
	d.blocked = slices.DeleteFunc(d.blocked, func(s span) bool {
		near := !s.from.After(now.to.Add(mergeWithin)) && !now.from.After(s.to.Add(mergeWithin))
		if near {
			now = now.and(s)
		}
		return near
	})
	at := slices.IndexFunc(d.blocked, func(s span) bool { return s.from.After(now.from) })
	if at < 0 {
		at = len(d.blocked)
	}
	d.blocked = slices.Insert(d.blocked, at, now)
	if len(d.blocked) > maxSpans {
		d.joinShortest()
	}
}

// and returns what s and a span near it are together. What lies between them counts as blocked.
func (s span) and(o span) span {
	both := span{from: sooner(s.from, o.from), to: later(s.to, o.to)}
	common := max(0, sooner(s.to, o.to).Sub(later(s.from, o.from)))
	between := max(0, later(s.from, o.from).Sub(sooner(s.to, o.to)))
	both.blocked = min(both.length(), max(s.blocked, o.blocked, s.blocked+o.blocked-common+between))
	return both
}

// joinShortest makes one of the two neighbours that are the shortest together. The newest span stays as it is: it may still grow.
func (d *Destination) joinShortest() {
	at := 0
	for i := range len(d.blocked) - 2 {
		if d.blocked[i+1].to.Sub(d.blocked[i].from) < d.blocked[at+1].to.Sub(d.blocked[at].from) {
			at = i
		}
	}
	a, b := d.blocked[at], d.blocked[at+1]
	d.blocked[at] = span{a.from, b.to, a.blocked + b.blocked}
	d.blocked = slices.Delete(d.blocked, at+1, at+2)
}

// BlockedFor returns how much of the time between from and to the destination was paused, on hold or behind an open breaker, as
// far as this process knows, or in one of the spans of also. Nobody could attempt anything then, but for a few that tried whether it works
// again. Of spans that were joined it is a share, evenly over all of it.
func (d *Destination) BlockedFor(from, to time.Time, also ...ledger.Span) (sum time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		d.addBlocked(d.pausedFrom, time.Now())
	}
	if openSince := d.breaker.openSince; !openSince.IsZero() {
		d.addBlocked(openSince, time.Now())
	}
	var exact, joined []span
	for _, s := range d.blocked {
		if s.exact() {
			exact = append(exact, s)
		} else {
			joined = append(joined, s)
		}
	}
	for _, s := range also {
		exact = append(exact, span{from: s.From, to: s.To})
	}
	slices.SortFunc(exact, func(a, b span) int { return a.from.Compare(b.from) })
	sum = covered(exact, from, to)
	for _, s := range joined {
		if from, to := later(from, s.from), sooner(to, s.to); to.After(from) {
			rest := to.Sub(from) - covered(exact, from, to)
			sum += time.Duration(float64(rest) * float64(s.blocked) / float64(s.length()))
		}
	}
	return sum
}

// covered returns how much of the time between from and to is in one of spans, which are in order and may overlap.
func covered(spans []span, from, to time.Time) (sum time.Duration) {
	counted := from // what is before is in sum
	for _, s := range spans {
		if end := sooner(s.to, to); end.After(counted) {
			sum += max(0, end.Sub(later(s.from, counted)))
			counted = end
		}
	}
	return sum
}
