package lane

import (
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Pauses are the times in which an operator has the subscription attempt nothing.
type Pauses struct {
	Since time.Time     // since when it is paused; zero: it is not
	Ended []ledger.Span // when it was paused before
}

// spans returns all these times up to until.
func (p *Pauses) spans(until time.Time) []ledger.Span {
	if p == nil {
		return nil
	}
	if p.Since.IsZero() {
		return p.Ended
	}
	return append(slices.Clone(p.Ended), ledger.Span{From: p.Since, To: until})
}

// SetPauses keeps heads from being attempted while the subscription is paused; attempts under way end, and are recorded. Claims are opened
// and closed as ever, and commands are applied. No time of a pause counts in the time for which an action is retried.
func (l *Lanes) SetPauses(p Pauses) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.q.judge.pauses.Store(&p)
	l.s.q.dispatch.pause(!p.Since.IsZero())
}

// pause keeps lanes from being picked, or lets them be again. A destination whose turn has come passes it to other subscriptions meanwhile.
func (x *dispatcher) pause(paused bool) {
	x.paused = paused
	if !paused {
		x.wake()
		return
	}
	for _, d := range x.order {
		d.passTurn()
	}
}
