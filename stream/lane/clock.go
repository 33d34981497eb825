package lane

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// timeHeap is a heap of things, the one that is due first on top.
type timeHeap[T comparable] []timed[T]

type timed[T comparable] struct {
	at moment
	of T
}

// moment is a time on the monotonic clock, in 8 bytes. Zero is none.
type moment int64

var momentsBegin = time.Now()

func momentOf(t time.Time) moment { return moment(t.Sub(momentsBegin)) }

func (h timeHeap[T]) Len() int           { return len(h) }
func (h timeHeap[T]) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timeHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap[T]) Push(x any)        { *h = append(*h, x.(timed[T])) }
func (h *timeHeap[T]) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = timed[T]{}
	*h = old[:len(old)-1]
	return last
}

// pop takes out the first thing if its time has come.
func (h *timeHeap[T]) pop(now time.Time) (of T, ok bool) {
	if len(*h) == 0 || (*h)[0].at > momentOf(now) {
		return of, false
	}
	return heap.Pop(h).(timed[T]).of, true
}

// wait returns how long until the first thing's time; an hour if there is none.
func (h timeHeap[T]) wait(now time.Time) time.Duration {
	if len(h) == 0 {
		return time.Hour
	}
	return time.Duration(h[0].at - momentOf(now))
}

// removeAll removes the things for which which returns true.
func (h *timeHeap[T]) removeAll(which func(T) bool) {
	*h = slices.DeleteFunc(*h, func(x timed[T]) bool { return which(x.of) })
	heap.Init(h)
}

// timers has the heads that wait for a time: that of their next attempt, or the end of the wait for a report. The clock sleeps
// until the first. Callers hold mu.
type timers struct {
	heap    timeHeap[*entry]
	changed chan struct{} // capacity 1, never closed: another timer is the first now, or a destination's turn has come
}

// add lets a head wait until its notBefore.
func (t *timers) add(e *entry) {
	heap.Push(&t.heap, timed[*entry]{momentOf(e.notBefore), e})
	if t.heap[0].of == e {
		signal(t.changed)
	}
}

// remove removes the timer of a head, if it has one.
func (t *timers) remove(e *entry) {
	if i := slices.IndexFunc(t.heap, func(x timed[*entry]) bool { return x.of == e }); i >= 0 {
		heap.Remove(&t.heap, i)
	}
}

// clock calls runDue whenever a head is due or a destination's turn has come, until ctx ends.
func (s *scheduler) clock(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.runDue())
		select {
		case <-timer.C:
		case <-s.q.timers.changed:
		case <-ctx.Done():
			return
		}
	}
}

// signal sends on a channel of capacity one without blocking: a reader that has not read the last signal sees this change, too.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
