package destination

import (
	"slices"
	"time"
)

// windowSize is how many attempts a window remembers: about three times those that a destination has under way by default.
const windowSize = 200

// window remembers how the last attempts ended.
type window struct {
	ended [windowSize]ended // a ring
	first int               // the oldest
	n     int
	good  int // how many of them got through
}

type ended struct {
	at     time.Time
	good   bool
	entity string // whose attempt failed
}

// add adds the end of an attempt and forgets what is older than span.
func (w *window) add(e ended, span time.Duration) {
	if w.n == windowSize {
		w.drop()
	}
	w.ended[(w.first+w.n)%windowSize] = e
	w.n++
	if e.good {
		w.good++
	}
	w.forget(e.at, span)
}

// forget drops what is older than span, as long as something got through since. Failures that nothing followed but failures stay: where
// little is asked of a destination they are rare, and say as much.
func (w *window) forget(now time.Time, span time.Duration) {
	for w.good > 0 && now.Sub(w.ended[w.first].at) > span {
		w.drop()
	}
}

// drop forgets the oldest.
func (w *window) drop() {
	if w.ended[w.first].good {
		w.good--
	}
	w.ended[w.first] = ended{}
	w.first = (w.first + 1) % windowSize
	w.n--
}

func (w *window) failed() int { return w.n - w.good }

// failing returns of how many entities attempts failed, at most the given number. No name is another entity each time.
func (w *window) failing(most int) int {
	var known []string
	n := 0
	for i := 0; i < w.n && n < most; i++ {
		e := w.ended[(w.first+i)%windowSize]
		if e.good || e.entity != "" && slices.Contains(known, e.entity) {
			continue
		}
		known = append(known, e.entity)
		n++
	}
	return n
}
