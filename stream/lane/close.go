package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Close implements [stream.Lanes]. It takes the doubt from a claim of which nothing is in doubt any more. An error means that attempts were cancelled or their results not recorded when ctx
// ended, or that the claim was unclean and what the owner before may have in flight has not timed out yet.
func (l *Lanes) Close(ctx context.Context, c *ledger.Claim) error {
	l.mu.Lock()
	p := l.parts[c]
	if p == nil || p.closing {
		l.mu.Unlock()
		return nil
	}
	p.closing = true
	quiet := make(chan struct{})
	if p.busy == 0 {
		close(quiet)
	} else {
		p.quiet = quiet
	}
	l.mu.Unlock()

	select {
	case <-quiet:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := p.busy
	if !p.gone {
		l.forget(p, errClosed)
	}
	l.results.waitUnwritten(p)
	if busy > 0 {
		return fmt.Errorf("close lanes of %s/%d with %d actions under way: %w",
			c.Partition.Topic, c.Partition.Number, busy, context.Cause(ctx))
	}
	if left := l.unclean(p); left > 0 {
		return fmt.Errorf("close lanes of %s/%d: calls of the owner before may be in flight for another %s",
			c.Partition.Topic, c.Partition.Number, left)
	}
	if p.undoubted() {
		c.DoubtTo = 0
	}
	return nil
}

// unclean is how long calls of the owner before p's claim may still be in flight, at any destination.
func (l *Lanes) unclean(p *part) (left time.Duration) {
	if p.safeFrom.IsZero() {
		return 0
	}
	for _, d := range l.dispatch.order {
		left = max(left, time.Until(p.safeFrom.Add(d.Timeout)))
	}
	return left
}

// Drop implements [stream.Lanes].
func (l *Lanes) Drop(c *ledger.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.parts[c]; p != nil {
		l.forget(p, errFenced)
	}
}

// forget lets go of a part: attempts in flight are cancelled, their results come to nothing.
func (l *Lanes) forget(p *part, cause error) {
	p.gone = true
	p.cancel(cause)
	delete(l.parts, p.claim)
	for _, d := range l.dispatch.order {
		l.dispatch.remove(d, func(la *lane) bool { return la.part == p })
	}
	l.timers.removeAll(func(e *entry) bool { return e.lane.part == p })
	for _, la := range p.lanes {
		if la.out != nil {
			l.untrack(la.out)
		}
		for e := la.head; e != nil; e = e.next {
			if busy := e == la.head && (la.state == running || la.state == recording); !busy {
				l.budget.free(e)
			}
		}
	}
	l.spilled.forget(p, l.dispatch.order)
	l.open -= p.open
	p.open = 0
	clear(p.needsRefill)
	l.results.changed.Broadcast()
	l.dispatch.wake()
}
