package batch

import (
	"context"
	"time"
)

// smallBatch is how many records make a batch worth its transaction: one with fewer costs about as much as one with so many.
const smallBatch = 8

// pace keeps small batches apart, so that at a low rate not every record costs a transaction of its own. The first record after a
// quiet time does not wait, nor does anything while batches are large.
type pace struct {
	apart time.Duration // at least, from the beginning of a small batch to that of the next
	until time.Time     // when the next batch may begin
}

// wait waits until the next batch may begin. It returns false if ctx ended first.
func (p *pace) wait(ctx context.Context) bool {
	left := time.Until(p.until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// note takes into account that a batch of so many records began.
func (p *pace) note(began time.Time, records int) {
	p.until = time.Time{}
	if records < smallBatch {
		p.until = began.Add(p.apart)
	}
}
