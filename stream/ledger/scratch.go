package ledger

import (
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// scratch is what a work needs for a try and nobody keeps. It is used again: made anew for each batch, it would be the most
// of what the ledger leaves to the collector.
type scratch struct {
	keyOf  []int32        // by record: index into keys, or -1
	keys   []gate.LineKey // touched by this work, each once
	cached []*cachedLine  // as keys; nil: not in the cache
	lines  []lineMark     // as keys
	mover  []int32        // as keys: index of the record whose row tells where the line is, or -1
	now    []*gate.Line   // as keys: after the gate's call
	later  []bool         // as keys: changed, and not written
	gated  []gate.Record  // by record, as the gate sees them
	final  []verdict      // by record
	asked  []bool         // by record: the current window was asked for its key
	begun  map[gate.LineKey]*gate.Line
	seen   map[schemas.EventKey]gate.Seen // of the whole batch, in its first work
}

var scratches = sync.Pool{New: func() any {
	return &scratch{begun: map[gate.LineKey]*gate.Line{}, seen: map[schemas.EventKey]gate.Seen{}}
}}

// reset empties it for a try.
func (s *scratch) reset() {
	s.keyOf, s.keys, s.cached, s.lines, s.mover = s.keyOf[:0], s.keys[:0], s.cached[:0], s.lines[:0], s.mover[:0]
	s.now, s.later, s.gated, s.final = s.now[:0], s.later[:0], s.gated[:0], s.final[:0]
	clear(s.begun)
	clear(s.seen)
}

// sized is s with n elements, whatever they were before.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// zeroed is s with n elements that are zero.
func zeroed[T any](s []T, n int) []T {
	s = sized(s, n)
	clear(s)
	return s
}
