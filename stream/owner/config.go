package owner

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Ledger is what owning partitions needs of a [ledger.Namespace].
type Ledger interface {
	Begin(ctx context.Context, offsets map[ledger.Partition]int64) (map[ledger.Partition]int64, error)
	Began(ctx context.Context) (time.Time, error)
	Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error)
	Release(ctx context.Context, c *ledger.Claim) error
	Report(ctx context.Context, s ledger.Stop, epoch int64) (ledger.Stop, error)
	Enter(member string)
	Present(member string) bool
	Unknown(member string) bool
	Absent(tell func(members []string)) (stop func())
	Left(notify func()) (stop func())
	ForgetMember(ctx context.Context, member string) error
}

var _ Ledger = (*ledger.Namespace)(nil)

// Lanes are what an owner needs of the lanes. All methods are safe for concurrent use; those of one claim are called in the
// order Open, Close or Drop.
type Lanes interface {
	// Open starts the lanes of a claim: it loads the open actions from the ledger and runs their heads.
	Open(ctx context.Context, c *ledger.Claim) error
	// Close starts no more attempts, waits for those in flight until ctx ends, records their results and forgets the claim. After it
	// nothing is written for c. An error means that calls may still be in flight, of this claim or, if it was unclean, of the claim
	// before it. The fence must not be released then, so that the next claim is unclean.
	Close(ctx context.Context, c *ledger.Claim) error
	// Drop forgets the claim at once: its fence is lost. Attempts in flight are cancelled, nothing is written.
	Drop(c *ledger.Claim)
}

// Config is what an owner needs to know.
type Config struct {
	Group      string    // the Kafka group, and the ledger's namespace
	Generation int32     // 0 outside replays
	Topics     []string  // all of them must exist before the group is joined
	Client     []kgo.Opt // what every client of the subscription shares: seed brokers, TLS, SASL
	InstanceID string    // makes the member static; empty is dynamic
	Begin      Begin     // where a new subscription begins
	Ledger     Ledger
	Backfills  *batch.BackfillRequests // gets the claims that run; nil: nobody asks for any
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil registers nothing

	SessionTimeout    time.Duration
	HeartbeatInterval time.Duration // at most a third of SessionTimeout
	RebalanceTimeout  time.Duration // how long the group waits for what is given up; half of it is for draining lanes
	DrainTimeout      time.Duration // bounds shutdown, even if brokers or the database do not answer
	StopLook          time.Duration // how often a stopped partition is looked at again
	MirrorInterval    time.Duration // how often positions are mirrored to Kafka
}

// Begin says where in the log a new subscription begins. The zero value is now: the end of every partition.
type Begin struct {
	All bool      // the start of every partition
	At  time.Time // the first record appended at or after At; the end if there is none
}

func (b Begin) String() string {
	switch {
	case b.All:
		return "all"
	case !b.At.IsZero():
		return b.At.UTC().Format(time.RFC3339)
	}
	return "now"
}
