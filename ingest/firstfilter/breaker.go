package firstfilter

import (
	"sync"
	"time"
)

const (
	mostFailures = 5 // in a row
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// breaker keeps deliveries from asking a Redis that does not answer: once mostFailures in a row have failed, only one asks after a pause, and
// after a longer one where that fails, too. The zero value asks. Safe for concurrent use.
type breaker struct {
	mu       sync.Mutex
	failures int
	pause    time.Duration // 0: closed
	until    time.Time     // when the next one may ask
}

// allows reports whether one may ask, and whether that is the one that tries after a pause.
func (b *breaker) allows(now time.Time) (trial, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pause == 0:
		return false, true
	case now.Before(b.until):
		return false, false
	}
	b.until = now.Add(b.pause)
	return true, true
}

// open reports whether nobody may ask now.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause > 0 && now.Before(b.until)
}

// works notes an answer, and reports whether the breaker was open.
func (b *breaker) works() (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.pause > 0
	b.failures, b.pause = 0, 0
	return was
}

// fails notes that there was no answer, and reports whether that has opened the breaker.
func (b *breaker) fails(now time.Time, trial bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.pause == 0 && (trial || b.failures >= mostFailures):
		b.pause, opened = firstPause, true
	case b.pause > 0 && trial:
		b.pause = min(2*b.pause, longestPause)
	default:
		return false
	}
	b.until = now.Add(b.pause)
	return opened
}
