package batch

import (
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Why a partition's run ended; what its owner does next depends on it. It may also be a [RefusedError], an [UnreadableError]
// or, in a [schemas.Error], a [ledger.TopicError]: then the topic has grown.
var (
	ErrFenced        = errors.New("somebody else holds the fence")
	ErrUnknown       = errors.New("whether the batch was written is not known")
	ErrRecheck       = errors.New("the position and the log may not fit each other")
	ErrDiscontinuity = errors.New("what was read does not begin where the ledger stands")
)

// RefusedError says that the ledger refuses for good what was read of a partition.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return fmt.Sprintf("refused by the ledger: %v", e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// UnreadableError says that a partition could not be read for too long.
type UnreadableError struct {
	Offset int64
	Since  time.Time
	Err    error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("offset %d cannot be read: %v", e.Offset, e.Err)
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// Partition is a claimed partition while it runs, from [Loop.Attach] to its end. What is exported is set before that.
type Partition struct {
	Claim      *ledger.Claim
	Partitions int32                      // of the topic
	LanesOnly  bool                       // its records are not read, nor its gaps ended: the topic has grown
	Unread     time.Time                  // since when reading has failed; zero: it does not
	Moved      func(next ledger.Position) // is told of its position, by the loop: with Attach, and after each of its batches

	// The loop's.
	reading   *reader.Reading // nil: it is not read
	next      ledger.Position // behind the last batch; a Claim's own Next is where it began
	ended     chan error      // capacity 1: why the loop ended the run
	committed chan struct{}   // capacity 1: something of it was committed
	gone      bool            // detached: what is still read of it is not used
	gap       gapState
}

// NewPartition is a claim of one of so many partitions of its topic.
func NewPartition(c *ledger.Claim, partitions int32) *Partition {
	return &Partition{Claim: c, Partitions: partitions, Moved: func(ledger.Position) {}, next: c.Next,
		ended: make(chan error, 1), committed: make(chan struct{}, 1), gap: gapState{ask: true}}
}

// Ended brings why the loop ended the run, if it did so by itself.
func (p *Partition) Ended() <-chan error { return p.ended }

// Committed brings a value when a batch of it was committed.
func (p *Partition) Committed() <-chan struct{} { return p.committed }

func (p *Partition) at() reader.TopicPartition { return reader.At(p.Claim.Partition) }
