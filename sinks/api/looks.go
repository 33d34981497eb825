package api

import (
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// maxLooks bounds how many looks are remembered. One that is forgotten begins again.
const maxLooks = 1000

// Looks remembers how far looks for what an earlier attempt did have come, so that one that is cut short, by a rate limit or the
// attempt's end, goes on where it was. Safe for concurrent use. The zero value remembers nothing yet.
type Looks[T any] struct {
	mu  sync.Mutex
	far map[look]T
}

// look is one of an action, by one owner: another may have acted in between, and that may be in a page that was read.
type look struct {
	id    schemas.ActionID
	epoch int64
	doubt bool // whether the span is that of a doubt: its times are read again with the lane, and differ by a little then
}

// At returns how far the look of an action in a span of time has come; the zero T: it has not begun.
func (l *Looks[T]) At(a sink.Action, in sink.Span) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.far[look{a.ID, a.Epoch, !in.To.IsZero()}]
}

// Reach notes how far it has come.
func (l *Looks[T]) Reach(a sink.Action, in sink.Span, at T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.far == nil || len(l.far) >= maxLooks {
		l.far = map[look]T{}
	}
	l.far[look{a.ID, a.Epoch, !in.To.IsZero()}] = at
}

// Forget is to be called where an action is done, and before it is attempted: what is made then is in none of the pages that were read.
func (l *Looks[T]) Forget(a sink.Action) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, doubt := range []bool{false, true} {
		delete(l.far, look{a.ID, a.Epoch, doubt})
	}
}

// Wider returns a span of time as it is to be asked for by a clock that is ahead of ours, or behind: it begins or ends where that has it, and lacks
// nothing that it had.
func Wider(in sink.Span, ahead time.Duration) sink.Span {
	in.From = in.From.Add(min(0, ahead))
	if !in.To.IsZero() {
		in.To = in.To.Add(max(0, ahead))
	}
	return in
}
