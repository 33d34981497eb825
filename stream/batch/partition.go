package batch

import (
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Why a partition's run ended, which decides what its owner does next. Other reasons are a [RefusedError], an [UnreadableError],
// and a [ledger.TopicError] inside a [schemas.Error], which means that the topic has grown.
var (
	ErrFenced        = errors.New("somebody else holds the fence")
	ErrUnknown       = errors.New("whether the batch was written is not known")
	ErrRecheck       = errors.New("the position and the log may not fit each other")
	ErrSeek          = errors.New("an operator has asked to move the position")
	ErrDiscontinuity = errors.New("what was read does not begin where the ledger stands")
)

// RefusedError says that the ledger refuses the records of a partition for good.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return fmt.Sprintf("refused by the ledger: %v", e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// UnreadableError says that a partition could not be read for too long.
type UnreadableError struct {
	Offset   int64
	Since    time.Time
	AtBroker bool // the partition's leader does not give the offset; else it does, and no record can be made of what it gives
	Err      error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("offset %d cannot be read: %v", e.Offset, e.Err)
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// Partition is a claimed partition while it runs, from [Loop.Attach] to its end. Its exported fields are set before Attach.
type Partition struct {
	Claim      *ledger.Claim
	Partitions int32                      // how many partitions the topic has
	LanesOnly  bool                       // the topic has grown: no records are read and no waits for gaps end
	Unread     time.Time                  // since when reading has failed; zero: it has not
	Moved      func(next ledger.Position) // called by the loop with the position: at Attach, and after each batch

	// Used by the loop's goroutine only, apart from the channels.
	reading   *reader.Reading // nil: not being read
	next      ledger.Position // where the next batch begins; the first one begins at Claim.Next
	ended     chan error      // capacity 1: why the loop ended the run
	committed wakes           // a batch of this partition was committed
	failed    time.Time       // when reading last failed in this run; before that, when it was attached
	look      lookState
	gone      bool // the run has ended: parts that the reader still brings are ignored
	gap       gapState
}

// NewPartition returns the partition of a claim, ready to be attached. partitions is how many its topic has.
func NewPartition(c *ledger.Claim, partitions int32) *Partition {
	return &Partition{Claim: c, Partitions: partitions, Moved: func(ledger.Position) {}, next: c.Next,
		ended: make(chan error, 1), committed: make(wakes, 1), gap: gapState{ask: true}}
}

// Ended returns the channel on which the loop sends why it ended the run. Detach sends nothing.
func (p *Partition) Ended() <-chan error { return p.ended }

// Committed returns a channel that gets a value when a batch of this partition was committed; one value may stand for several batches.
func (p *Partition) Committed() <-chan struct{} { return p.committed }

func (p *Partition) at() reader.TopicPartition { return reader.At(p.Claim.Partition) }
