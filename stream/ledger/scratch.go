package ledger

import (
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// scratch is the memory that one try of a batch needs. It is used again: otherwise it would be most of the garbage that the ledger
// makes.
type scratch struct {
	keyOf    []int32               // by record: index into keys, or -1
	keys     []gate.VersionLineKey // of this batch, each once
	cached   []*cachedLine         // as keys; nil: not in the cache
	before   []lineBefore          // as keys
	mover    []int32               // as keys: index of the last record that only moved the line, or -1
	after    []*gate.VersionLine   // as keys: after the gate's call
	deferred []bool                // as keys: changed, and to be written later
	gated    []gate.Record         // by record, as the gate sees them
	verdicts []verdict             // by record
	lookedUp []bool                // by record: the current window was asked for its key
	begun    map[gate.VersionLineKey]*gate.VersionLine
	seen     map[schemas.EventKey]gate.Seen // of the whole batch; only the first part's is used
}

var scratches = sync.Pool{New: func() any {
	return &scratch{begun: map[gate.VersionLineKey]*gate.VersionLine{}, seen: map[schemas.EventKey]gate.Seen{}}
}}

// reset empties s for a try.
func (s *scratch) reset() {
	s.keyOf, s.keys, s.cached, s.before, s.mover = s.keyOf[:0], s.keys[:0], s.cached[:0], s.before[:0], s.mover[:0]
	s.after, s.deferred, s.gated, s.verdicts = s.after[:0], s.deferred[:0], s.gated[:0], s.verdicts[:0]
	clear(s.begun)
	clear(s.seen)
}

// sized returns s with n elements, whose values are undefined.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// zeroed returns s with n elements that are zero.
func zeroed[T any](s []T, n int) []T {
	s = sized(s, n)
	clear(s)
	return s
}
