package lane

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// timers have the heads that wait for a moment: for their next attempt, or for the end of the wait for a report. No goroutine
// and no timer of the runtime belongs to a lane: the clock sleeps until the first of them. Callers hold mu.
type timers struct {
	heap    timerHeap
	changed chan struct{} // capacity 1, never closed: the first is another one, or a destination's turn has come
}

// timerHeap is a heap of heads by the time before which they do not run.
type timerHeap []*entry

func (t timerHeap) Len() int           { return len(t) }
func (t timerHeap) Less(i, j int) bool { return t[i].notBefore.Before(t[j].notBefore) }
func (t timerHeap) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timerHeap) Push(x any)        { *t = append(*t, x.(*entry)) }
func (t *timerHeap) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	return e
}

// add lets a head wait until its notBefore.
func (t *timers) add(e *entry) {
	heap.Push(&t.heap, e)
	if t.heap[0] == e {
		signal(t.changed)
	}
}

// remove takes a head out, if it waits.
func (t *timers) remove(e *entry) {
	if i := slices.Index(t.heap, e); i >= 0 {
		heap.Remove(&t.heap, i)
	}
}

// removeAll takes heads out.
func (t *timers) removeAll(of func(*entry) bool) {
	t.heap = slices.DeleteFunc(t.heap, of)
	heap.Init(&t.heap)
}

// pop takes out the first head if its time has come; else it gives nil.
func (t *timers) pop(now time.Time) *entry {
	if len(t.heap) == 0 || t.heap[0].notBefore.After(now) {
		return nil
	}
	return heap.Pop(&t.heap).(*entry)
}

// wait is how long the clock may sleep.
func (t *timers) wait(now time.Time) time.Duration {
	if len(t.heap) == 0 {
		return time.Hour
	}
	return t.heap[0].notBefore.Sub(now)
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
