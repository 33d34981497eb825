package retention

import "sync"

// failures remembers which subscriptions failed in the sweeps of this process.
type failures struct {
	mu             sync.Mutex
	bySubscription map[int32]*failure
}

// failure counts the failures of a subscription in a row, and the sweeps that it still has to skip.
type failure struct{ inRow, sweepsToSkip int }

const (
	maxSweepsToSkip = 15
	maxCounted      = 8 // of the failures in a row: enough to reach maxSweepsToSkip, and the shift in record cannot overflow
)

// skip reports whether a subscription is left out of this sweep.
func (f *failures) skip(id int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.bySubscription[id]
	if one == nil || one.sweepsToSkip == 0 {
		return false
	}
	one.sweepsToSkip--
	return true
}

// record records whether a subscription's sweep failed. A success clears its failures. A failure makes it skip sweeps: none after the
// first in a row, then 1, 3, 7 and so on, at most maxSweepsToSkip.
func (f *failures) record(id int32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.bySubscription, id)
		return
	}
	if f.bySubscription == nil {
		f.bySubscription = map[int32]*failure{}
	}
	one := f.bySubscription[id]
	if one == nil {
		one = &failure{}
		f.bySubscription[id] = one
	}
	one.sweepsToSkip = min((1<<one.inRow)-1, maxSweepsToSkip)
	one.inRow = min(one.inRow+1, maxCounted)
}
