package batch

import (
	"context"
	"time"
)

// smallBatch is the number of records below which a batch is small: a transaction of fewer records costs about as much as one of so many.
const smallBatch = 8

// pace keeps small batches apart: at a low rate, not every record has a transaction of its own. The first record after a quiet time does not
// wait, nor does any while batches are large.
type pace struct {
	apart time.Duration // the least time from the beginning of a small batch to that of the next batch
	until time.Time     // the next batch begins no sooner; zero: at once
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

// applied sets when the batch after one of so many records, which began at began, may begin.
func (p *pace) applied(began time.Time, records int) {
	p.until = time.Time{}
	if records < smallBatch {
		p.until = began.Add(p.apart)
	}
}
