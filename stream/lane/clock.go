package lane

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// timeHeap has things by when their time comes.
type timeHeap[T comparable] []timed[T]

type timed[T comparable] struct {
	at time.Time
	of T
}

func (h timeHeap[T]) Len() int           { return len(h) }
func (h timeHeap[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
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
	if len(*h) == 0 || (*h)[0].at.After(now) {
		return of, false
	}
	return heap.Pop(h).(timed[T]).of, true
}

// wait is how long until the first thing's time; an hour where there is none.
func (h timeHeap[T]) wait(now time.Time) time.Duration {
	if len(h) == 0 {
		return time.Hour
	}
	return h[0].at.Sub(now)
}

// removeAll takes things out.
func (h *timeHeap[T]) removeAll(which func(T) bool) {
	*h = slices.DeleteFunc(*h, func(x timed[T]) bool { return which(x.of) })
	heap.Init(h)
}

// timers have the heads that wait for a moment: for their next attempt, or for the end of the wait for a report. The clock
// sleeps until the first. Callers hold mu.
type timers struct {
	heap    timeHeap[*entry]
	changed chan struct{} // capacity 1, never closed: the first is another one, or a destination's turn has come
}

// add lets a head wait until its notBefore.
func (t *timers) add(e *entry) {
	heap.Push(&t.heap, timed[*entry]{e.notBefore, e})
	if t.heap[0].of == e {
		signal(t.changed)
	}
}

// remove takes a head out, if it waits.
func (t *timers) remove(e *entry) {
	if i := slices.IndexFunc(t.heap, func(x timed[*entry]) bool { return x.of == e }); i >= 0 {
		heap.Remove(&t.heap, i)
	}
}

// clock lets heads go on whose time has come, and destinations whose turn has, until ctx ends.
func (s *scheduler) clock(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.due())
		select {
		case <-timer.C:
		case <-s.q.timers.changed:
		case <-ctx.Done():
			return
		}
	}
}

// signal signals a channel of capacity one whose reader looks at everything anyway.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
