package stream

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Lanes runs the actions of claimed partitions; stream/lane implements it. All methods are safe for concurrent use;
// the owner calls Open, Add and Close of one claim in that order.
type Lanes interface {
	// Open starts the lanes of a claim: it loads the open actions from the ledger and runs their heads.
	Open(ctx context.Context, c *ledger.Claim) error
	// Add takes the actions that a batch has just committed, in lane_seq order, each with its event where it is at
	// hand. It never blocks on a destination: what does not fit is left to the ledger and loaded as room appears.
	Add(c *ledger.Claim, items []Item)
	// Close stops starting attempts, waits for those in flight until ctx ends, records what they brought and forgets
	// the claim. After it nothing is written for c. An error says that calls may still be in flight, of this claim or, where
	// it was unclean, of the one before: the fence must then not be released, so that the next claim is unclean too.
	Close(ctx context.Context, c *ledger.Claim) error
	// Drop forgets the claim at once: its fence is lost. Attempts in flight are cancelled, nothing is written.
	Drop(c *ledger.Claim)
	// ApplyCommand does what a command asks of an action of c, in one transaction with the note that it is done. An empty outcome
	// says not now: the claim is not served here, or an attempt of the action is under way; the command comes again.
	ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error)
}

// Item is an open action and, where it is at hand, its event. Lanes keep the event, and copy the action.
type Item struct {
	*ledger.Action
	Event *schemas.Event // nil: load through Action.Packed or Action.Pointer
}

// Payloads loads events through pointers. Each result is the event whose source, id and hash match the pointer, or an
// AttemptError of ClassPayload where the log no longer has it.
type Payloads interface {
	Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error)
}

// Alive reports whether this process may still act for its group: the last successful heartbeat lies within the
// session timeout, on a monotonic clock. Asked before every attempt (P6 covers the ledger, not the wire).
type Alive func() bool
