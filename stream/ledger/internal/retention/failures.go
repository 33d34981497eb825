package retention

import "sync"

// failures remembers which subscriptions failed in the sweeps of this process.
type failures struct {
	mu             sync.Mutex
	bySubscription map[int32]*failure
}

// failure counts how often in a row a subscription has failed, and in how many sweeps it is still left out.
type failure struct{ failed, skipLeft int }

// maxLeftOut bounds how many sweeps in a row a subscription is left out of.
const maxLeftOut = 15

// skip reports whether a subscription is left out of this sweep.
func (f *failures) skip(id int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.bySubscription[id]
	if one == nil || one.skipLeft == 0 {
		return false
	}
	one.skipLeft--
	return true
}

// note takes what came of a subscription's sweep.
func (f *failures) note(id int32, err error) {
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
	one.skipLeft = min(1<<one.failed-1, maxLeftOut) // after the first failure it is in the next sweep
	one.failed = min(one.failed+1, 8)
}
