package batch

import (
	"context"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Ledger is what batches, and what goes on between them, need of a [ledger.Namespace].
type Ledger interface {
	Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error)
	gapLedger
	commandLedger
	idleLedger
}

// gapLedger is what the end of waits for gaps needs.
type gapLedger interface {
	NextDeadline(ctx context.Context, claims []*ledger.Claim) (map[int32]time.Duration, error)
	Expire(ctx context.Context, c *ledger.Claim) (ledger.Applied, error)
}

// commandLedger is what commands need.
type commandLedger interface {
	Commands(ctx context.Context, claims []*ledger.Claim, after int64) ([]ledger.Command, error)
	ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.Applied, error)
	Listen(notify func()) (stop func())
}

// idleLedger is what idle partitions need. What is noted by the ledger's clock is kept for days, and compared with when windows
// were closed, by the same clock: ours may be wrong.
type idleLedger interface {
	Now(ctx context.Context) (time.Time, error)
	CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error
	Tidy(ctx context.Context, c *ledger.Claim) (old bool, err error)
	OldLines(ctx context.Context, c *ledger.Claim) (ledger.OldLines, error)
	ForgetLines(ctx context.Context, c *ledger.Claim, old ledger.OldLines) error
	Leave(ctx context.Context, topics []string) error
}

var _ Ledger = (*ledger.Namespace)(nil)

// Lanes are what batches need of the lanes. All methods are safe for concurrent use.
type Lanes interface {
	// Add takes the actions that a batch has just committed, in lane_seq order, each with its event where it is at
	// hand. It never blocks on a destination: what does not fit is left to the ledger and loaded as room appears.
	Add(c *ledger.Claim, items []lane.Item)
	// ApplyCommand does what a command asks of an action of c, in one transaction with the note that it is done. An empty outcome
	// says not now: the claim is not served here, or an attempt of the action is under way; the command comes again.
	ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error)
}

// Reader is what batches need of a [reader.Reader].
type Reader interface {
	Add(ctx context.Context, p ledger.Partition, partitions int32, from ledger.Position) *reader.Reading
	Drop(ctx context.Context, r *reader.Reading)
	Out() <-chan reader.Unit
}

var _ Reader = (*reader.Reader)(nil)

// Config is what a loop needs to know.
type Config struct {
	Topics    []string // that are subscribed to
	Ledger    Ledger
	Lanes     Lanes
	Reader    Reader
	Log       *reader.Log
	Backfills *BackfillRequests // nil: nobody asks for any
	Metrics   *Metrics
	Logger    *slog.Logger

	BatchRecords int           // most records of a batch
	BatchBytes   int           // most bytes of one with more than one record
	BatchWait    time.Duration // how long a batch waits to fill up
	GapSweep     time.Duration // how often claims with waiting events are asked for their deadlines besides their timers
	IdleSweep    time.Duration // how often the ledger is told of partitions that are read to their end
	UnreadAfter  time.Duration // how long a partition may not be readable before its run ends
	TopicLook    time.Duration // how often topics are asked for their number of partitions
	CommandSweep time.Duration // how often the loop looks for commands, besides being told
}
