package lane

import (
	"context"
	"errors"
	"sync"
	"time"
)

// deadline is the context of an attempt. It ends as context.WithTimeoutCause does with errTimeout, but takes a timer only once
// somebody waits for its end: for an attempt that nobody waits in, that was a third of all that lanes did.
type deadline struct {
	context.Context // of the claim
	at              time.Time

	mu    sync.Mutex
	armed context.Context    // nil: nobody waits
	end   context.CancelFunc // of armed
	over  bool               // the attempt is
}

func newDeadline(ctx context.Context, d time.Duration, now time.Time) *deadline {
	return &deadline{Context: ctx, at: now.Add(d)}
}

// Deadline implements [context.Context].
func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.armed != nil:
	case d.over:
		d.armed, d.end = context.WithCancel(d.Context)
		d.end()
	default:
		d.armed, d.end = context.WithDeadlineCause(d.Context, d.at, errTimeout)
	}
	return d.armed.Done()
}

// Err implements [context.Context].
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stands()
}

// stands is Err. Of a claim and a deadline that nobody waited for and that have both come, it is the claim.
func (d *deadline) stands() error {
	switch err := d.Context.Err(); {
	case d.armed != nil:
		return d.armed.Err()
	case err != nil:
		return err
	case d.over:
		return context.Canceled
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context]: contexts made of this one find the armed one by it, and are cancelled with it.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	ctx := d.armed
	d.mu.Unlock()
	if ctx == nil {
		ctx = d.Context
	}
	return ctx.Value(key)
}

// passed reports whether the deadline has ended the attempt, and not the claim before it.
func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed != nil {
		return errors.Is(context.Cause(d.armed), errTimeout)
	}
	return errors.Is(d.stands(), context.DeadlineExceeded)
}

// cancel ends the context: nobody may act for the attempt any more.
func (d *deadline) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.end != nil {
		d.end()
	}
}
