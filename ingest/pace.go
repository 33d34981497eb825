package ingest

import "time"

// lookEvery is how often the pace of bodies is looked at. One timer for all costs a delivery nothing; a deadline of its own would.
const lookEvery = time.Second

// lookSoon has the pace looked at, if nobody is about to.
func (r *room) lookSoon(now time.Time) {
	if r.looks {
		return
	}
	r.looks, r.due = true, now.Add(lookEvery)
	time.AfterFunc(lookEvery, r.look)
}

// look ends the bodies that come too slowly. Where it comes late, this process stood still, and no sender is blamed.
func (r *room) look() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks = false
	stood := now.Sub(r.due) > lookEvery
	if stood {
		r.stood = now
	}
	for _, q := range r.sizes {
		for a := q.oldest; a != nil; {
			newer := a.links[bySize].newer
			if !a.keepsPace(r.limits, now) && !stood {
				_ = r.end(a, errPace)
				a.interrupt()
			}
			a = newer
		}
	}
	if len(r.senders) > 0 {
		r.lookSoon(now)
	}
}

// keepsPace reports whether enough of a body has come since this was asked last. Within the grace nobody asks.
func (a *arrival) keepsPace(l Limits, now time.Time) bool {
	passed := now.Sub(a.looked)
	if passed < l.Grace {
		return true
	}
	got := a.got.Load()
	enough := float64(got-a.before) >= float64(l.Pace)*passed.Seconds()
	a.looked, a.before = now, got
	return enough
}
