package batch

import (
	"context"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Ledger is what the loop needs of a [ledger.Namespace].
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

// idleLedger is what the idle sweep needs. Now is the ledger's clock, by which CaughtUp dates what it stores: that date is compared with
// the ends of dedupe windows, which are by the ledger's clock too. This process's own clock may be wrong.
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
	// Add takes actions that were just committed, in lane_seq order, each with its event if that is in memory. It never waits for a
	// destination: actions for which there is no room stay in the ledger and are loaded later.
	Add(c *ledger.Claim, items []lane.Item)
	// ApplyCommand applies a command about an action of c, and marks it as done in the same transaction. An empty outcome means not
	// now: the lanes do not have the claim, or an attempt of the action is under way. The command is tried again later.
	ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error)
	// Full reports whether a claim has as many open actions as a replay may give it: what came live would wait behind more of them.
	Full(c *ledger.Claim) bool
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
	Group     string   // the subscription's name
	Topics    []string // of the subscription
	Ledger    Ledger
	Lanes     Lanes
	Reader    Reader
	Log       *reader.Log
	Backfills *BackfillRequests // nil: no backfills
	Paused    bool              // as by [Loop.Pause], from the beginning
	Replays   *Replays          // nil: no replays
	Metrics   *Metrics
	Tracer    *trace.Tracer // makes a span of each event that is decided; nil makes none
	Logger    *slog.Logger

	BatchRecords int           // the most records of a batch
	BatchBytes   int           // the most bytes of a batch that has more than one record
	BatchWait    time.Duration // how long a batch behind a large one waits to fill up
	BatchPace    time.Duration // the most that small batches keep apart; see pace
	GapSweep     time.Duration // how often the ledger is asked for the deadlines of waiting events, besides when one is due
	IdleSweep    time.Duration // how often the ledger is told which partitions are read to their end
	UnreadAfter  time.Duration // the run of a partition that cannot be read for this long ends
	TopicLook    time.Duration // how often the brokers are asked for each topic's number of partitions, and for what stands still
	CommandSweep time.Duration // how often the ledger is asked for commands, besides when it notifies
}
