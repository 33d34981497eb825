package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// Ledger is what the runtime needs of a [ledger.Namespace].
type Ledger interface {
	owner.Ledger
	batch.Ledger
	reader.CopyLedger
	deadletter.Ledger
}

var _ Ledger = (*ledger.Namespace)(nil)

// Config describes a subscription's runtime.
type Config struct {
	// Group is "<team>.<subscription>": the Kafka group and the ledger's namespace.
	Group string
	// Generation is 0 outside replays.
	Generation int32
	// Topics are subscribed to; all of them must exist before the group is joined.
	Topics []string
	// Client is what every client of the subscription shares: seed brokers, TLS, SASL, client id, metrics hooks.
	Client []kgo.Opt
	// InstanceID makes the member static; empty is dynamic.
	InstanceID string
	// Filter reports whether an event is wanted; nil wants all. It must be safe for concurrent use. See [reader.Globs].
	Filter func(eventType, source string) bool
	// Select is asked about the events that Filter wants: those that do not match are filtered, the others have a second key, zero: none. An error
	// has the event quarantined (expression). nil matches all. It must be safe for concurrent use. See policy.Select.
	Select func(e *schemas.Event) (matches bool, also gate.Also, err error)
	// Begin is where a new subscription begins.
	Begin  owner.Begin
	Ledger Ledger
	// Payloads reads the payloads that the owner of a partition copies into the ledger at half of the topic's retention, for actions
	// that are still open. nil copies none.
	Payloads reader.Payloads
	// Replays is where the subscription finds replays to run, and writes what became of them: the same namespace as Ledger; nil: it runs none.
	Replays batch.ReplayLedger
	// Decides is a digest of what decides about an event and what it does: a replay that was planned under another one is not run.
	Decides string
	// Backfills hands out the backfills that the gate asks for; nil: none.
	Backfills *batch.BackfillRequests
	// Export copies dead letters to the subscription's dead topic, [deadletter.Topic]; it needs Payloads.
	Export bool
	// Retention is for how long each topic keeps its records. It is used if the broker does not say.
	Retention map[string]time.Duration

	Tracer     *trace.Tracer         // nil makes no spans
	Logger     *slog.Logger          // nil logs nothing
	Registerer prometheus.Registerer // nil registers nothing

	BatchRecords int           // the most records of a batch; default 1000
	BatchBytes   int           // the most bytes of keys, values and headers in a batch of more than one record; default 16 MiB
	BatchWait    time.Duration // how long a batch behind a large one waits to fill up; default 2 ms
	BatchPace    time.Duration // the most that small batches keep apart: twice as long as one takes, or this; default none
	// MaxRecordBytes is the largest size of a record, with the decompressed record batch that it is in; default 64 MiB. In memory
	// that may become four times as much. A larger record is quarantined (too_large), since the ledger could not keep a copy.
	MaxRecordBytes int

	SessionTimeout    time.Duration // default 45 s
	HeartbeatInterval time.Duration // default 3 s, at most a third of SessionTimeout
	// RebalanceTimeout is how long the group waits for a member to give up what it loses; default 60 s. Half of it is
	// for draining lanes.
	RebalanceTimeout time.Duration
	// DrainTimeout bounds shutdown, even if brokers or the database do not answer; default 20 s. It is for attempts in flight; the
	// last fourth, at most five seconds, is kept to mirror positions, release fences and leave the group.
	DrainTimeout time.Duration
	// GapSweep is how often the ledger is asked for the deadlines of waiting events, besides when one is due; default 5 s.
	GapSweep time.Duration
	// IdleSweep is how often the ledger is told which partitions are read to their end; default 10 min.
	IdleSweep time.Duration
	// StopLook is how often a stopped partition is claimed again, once its calls have ended, to see whether the stop was accepted; default 5 s.
	StopLook time.Duration
	// UnreadAfter is for how long a partition cannot be read before it is stopped with a report; default 1 min.
	UnreadAfter time.Duration
	// TopicLook is how often the brokers are asked for each topic's number of partitions, besides when a record is in another
	// partition than its key's, and whether partitions can be read that stand still; default 10 s.
	TopicLook time.Duration
	// MirrorInterval is how often positions are mirrored to Kafka; default 500 ms.
	MirrorInterval time.Duration
	// CommandSweep is how often the ledger is asked for operators' commands, besides when it notifies and shortly after some were open;
	// default 30 s. It is how much later a command runs whose notification was lost.
	CommandSweep time.Duration
	// ExportSweep is how often the ledger is asked for dead letters to export; default 5 s.
	ExportSweep time.Duration
}

// withDefaults fills in defaults, sorts the topics and adds the group to the logger.
func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	or(&c.BatchWait, 2*time.Millisecond)
	or(&c.SessionTimeout, 45*time.Second)
	or(&c.HeartbeatInterval, min(3*time.Second, c.SessionTimeout/3))
	or(&c.RebalanceTimeout, time.Minute)
	or(&c.DrainTimeout, 20*time.Second)
	or(&c.GapSweep, 5*time.Second)
	or(&c.IdleSweep, 10*time.Minute)
	or(&c.MirrorInterval, 500*time.Millisecond)
	or(&c.StopLook, 5*time.Second)
	or(&c.UnreadAfter, time.Minute)
	or(&c.TopicLook, 10*time.Second)
	or(&c.CommandSweep, 30*time.Second)
	or(&c.ExportSweep, 5*time.Second)
	if c.BatchRecords == 0 {
		c.BatchRecords = 1000
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 16 << 20
	}
	if c.MaxRecordBytes == 0 {
		c.MaxRecordBytes = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Filter == nil {
		c.Filter = func(string, string) bool { return true }
	}
	c.Topics = slices.Sorted(slices.Values(c.Topics))
	c.Logger = c.Logger.With("subscription", c.Group)
	return c
}

// validate returns all that is wrong with a config that has its defaults and its topics sorted.
func (c Config) validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Group == "" || strings.ContainsAny(c.Group, ": \n"), "group %q is not <team>.<subscription>", c.Group)
	bad(len(c.Topics) == 0, "no topics")
	bad(slices.Contains(c.Topics, ""), "a topic without a name")
	bad(len(slices.Compact(slices.Clone(c.Topics))) != len(c.Topics), "a topic is named twice: %q", c.Topics)
	bad(c.Ledger == nil, "no ledger")
	bad(c.Export && c.Payloads == nil, "dead letters are to be exported, and there is nothing to read their payloads with")
	bad(c.Begin.All && !c.Begin.At.IsZero(), "begin is both all and a time")
	bad(c.BatchRecords < 1 || c.BatchBytes < 1 || c.MaxRecordBytes < 1, "a batch limit is not positive")
	bad(c.MaxRecordBytes > 256<<20, "max record bytes %d is over 256 MiB: Postgres could not keep a copy of a much larger one", c.MaxRecordBytes)
	bad(c.HeartbeatInterval <= 0 || c.HeartbeatInterval > c.SessionTimeout/3,
		"heartbeat interval %s is not within a third of the session timeout %s", c.HeartbeatInterval, c.SessionTimeout)
	bad(min(c.BatchWait, c.BatchPace, c.RebalanceTimeout, c.DrainTimeout, c.GapSweep, c.IdleSweep, c.MirrorInterval, c.StopLook, c.UnreadAfter, c.TopicLook, c.CommandSweep, c.ExportSweep) < 0, "a duration is negative")
	return errors.Join(errs...)
}
