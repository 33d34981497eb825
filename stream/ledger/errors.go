package ledger

import (
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// What errors of the ledger itself mean for a transaction, beside what pg knows.
const (
	oldWindows                   = pg.NoTable // the windows have rotated: read which are live, and try again at once
	possibleDuplicate pg.Trouble = -1         // an event may not be new: look up all keys, and try again at once
	tooLittle         pg.Trouble = -2         // a line is needed whole: try again at once, which reads it
)

// ErrForgotten says that the ledger lacks a row which the claim remembers, of an action or of its result, as after it came back older. What the
// claim remembers is worth nothing then: the partition must be claimed again.
var ErrForgotten = errors.New("the ledger lacks what its claim remembers")

var errRotated = errors.New("the dedupe windows have rotated")

// troubleOf classifies an error of a transaction: by what is to be done about it, as [pg.TroubleOf]. It also knows the ledger's own errors,
// and takes a server that did not answer in time for a slow one.
func troubleOf(err error) pg.Trouble {
	switch {
	case pg.IsSilent(err):
		return pg.Slow
	case errors.Is(err, errRotated):
		return oldWindows
	case errors.Is(err, errPossibleDuplicate):
		return possibleDuplicate
	case errors.Is(err, errTooLittle):
		return tooLittle
	}
	return pg.TroubleOf(err)
}

// exactly is [pg.Exactly].
func exactly(tag interface{ RowsAffected() int64 }, err error) error { return pg.Exactly(tag, err) }

// ContinuityError says that a slice does not begin at the ledger's next offset, that its records are not in order, that the ledger has moved
// on without this claim, or that a row is missing which the claim remembers. The partition must be claimed again, and read from the
// stored offset.
type ContinuityError struct {
	Partition    Partition
	Stored, From int64 // the ledger's next offset, and where the slice begins
	Detail       string
}

func (e *ContinuityError) Error() string {
	if e.From == e.Stored && e.Detail != "" {
		return fmt.Sprintf("%s/%d at offset %d: %s", e.Partition.Topic, e.Partition.Number, e.From, e.Detail)
	}
	text := fmt.Sprintf("%s/%d was read from offset %d, but the ledger's next offset is %d", e.Partition.Topic, e.Partition.Number, e.From, e.Stored)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}
