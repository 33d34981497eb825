package batch

import (
	"context"
	"time"
)

// smallBatch is the number of records below which a batch is small: a transaction of fewer records costs about as much as one of so many.
const smallBatch = 8

// pace keeps small batches apart: what came while a transaction ran goes with the next one, and that begins no sooner than as much time has
// passed as the transaction took. So at most half of the time goes into small transactions: they join the more records the longer they take, and
// what comes alone goes at once. Nothing waits while batches are large.
type pace struct {
	most   time.Duration // the most time from the beginning of a small batch to that of the next; 0: they are not kept apart
	until  time.Time     // the next batch begins no sooner; zero: at once
	ended  time.Time     // the batch before
	loaded bool          // the batch before was large, or there was none: the next one fills up
}

// wait waits until the next batch may begin, and returns for how long that fills up: for all of fill behind a large batch, for a quarter of it
// while small ones follow one another, not at all where it comes alone. It returns false if ctx ended first.
func (p *pace) wait(ctx context.Context, fill time.Duration) (time.Duration, bool) {
	left, few := time.Until(p.until), fill/4
	switch {
	case p.loaded:
		return fill, ctx.Err() == nil
	case left <= 0 && time.Since(p.ended) > few:
		return 0, ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return few, true // it came while that ran, and the reader may have others at hand
	case <-ctx.Done():
		return 0, false
	}
}

// applied sets when the batch after one of so many records, which began at began and has ended now, may begin.
func (p *pace) applied(began time.Time, records int) {
	p.ended, p.until, p.loaded = time.Now(), time.Time{}, records >= smallBatch
	if !p.loaded {
		p.until = began.Add(min(p.most, 2*p.ended.Sub(began)))
	}
}
