package ledger

import (
	"context"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// Config opens a ledger.
type Config struct {
	URL schemas.Secret
	// Schema is the Postgres schema; default "forebay".
	Schema string
	// MaxConns bounds the pool; default 8.
	MaxConns int32
	Logger   *slog.Logger
}

// Ledger is a pool on one ledger database. Safe for concurrent use.
type Ledger struct{}

// Open connects and refuses a database whose migrations are behind or ahead of this binary, naming `forebay migrate`,
// and one whose session has synchronous_commit off.
func Open(ctx context.Context, cfg Config) (*Ledger, error) { panic("being written") }

// Close releases the pool.
func (l *Ledger) Close() {}

// Migrate brings the schema to this binary's version under a session lock and says what it applied.
func Migrate(ctx context.Context, cfg Config) (applied []string, err error) { panic("being written") }

// Namespace is one subscription's part of the ledger. Safe for concurrent use, except that a Claim belongs to one
// goroutine at a time.
type Namespace struct{}

// Namespace registers the subscription, or finds it, and returns its part.
func (l *Ledger) Namespace(ctx context.Context, spec Spec) (*Namespace, error) {
	panic("being written")
}

// Begin stores where a new subscription begins: the first call's offsets win, later calls get those back.
// A partition that is not in the stored set begins at 0.
func (n *Namespace) Begin(ctx context.Context, offsets map[Partition]int64) (map[Partition]int64, error) {
	panic("being written")
}

// Began reports whether Begin has stored this subscription's beginning.
func (n *Namespace) Began(ctx context.Context) (bool, error) { panic("being written") }

// Claim takes the fence of a partition; see ClaimRequest. Errors of Confirm come back as they are.
func (n *Namespace) Claim(ctx context.Context, req ClaimRequest) (*Claim, error) {
	panic("being written")
}

// Release gives the fence back after a drain, so that the next claim is clean. Not an error when fenced already.
func (n *Namespace) Release(ctx context.Context, c *Claim) error { panic("being written") }

// Apply runs one batch in one transaction. It retries what may be retried, bisects data errors down to the record,
// and after an unknown COMMIT looks whether it happened; it returns an error only when ctx ends or the database
// stays away, and then nothing of the batch is written, or all of it (the next claim reads which).
func (n *Namespace) Apply(ctx context.Context, batch []Slice) ([]Applied, error) {
	panic("being written")
}

// NextDeadline is how long until the first gap of each claim may expire by the database's clock, for claims that have
// one (negative when overdue).
func (n *Namespace) NextDeadline(ctx context.Context, claims []*Claim) (map[int32]time.Duration, error) {
	panic("being written")
}

// Expire ends the overdue waits of a claim. The caller has read the partition to the end it observed after the
// deadline had passed (P5).
func (n *Namespace) Expire(ctx context.Context, c *Claim) (Applied, error) { panic("being written") }

// Open reads open actions of a claim with lane_seq > after, ascending, at most limit, and whether more follow.
// Dead actions that park their lane are included, so that the lane knows it stands still.
func (n *Namespace) Open(ctx context.Context, c *Claim, after int64, limit int) (actions []Action, more bool, err error) {
	panic("being written")
}

// Record writes results in one transaction. Results of claims that are fenced are left out and their claim ids
// returned.
func (n *Namespace) Record(ctx context.Context, results []Result) (fenced map[int32]bool, err error) {
	panic("being written")
}

var _ = gate.Applied
