package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// Event is an event that is to run. Data is the body as the provider sent it, which may be compressed: Text returns it without that. Entity is what
// it is about, which Deleted says is gone; the other fields are those of CloudEvents. A handler may keep it, and must not change it: it may be called with it again.
type Event struct {
	*schemas.Event
	Decision  gate.Decision // applied, or late: older than what has run for its entity, and still news
	Reason    gate.Reason
	Topic     string
	Partition int32
	Offset    int64
}

// Handler does what is to be done for an event, by statements on tx. It must neither commit nor roll back, and not keep tx. ctx ends with
// the transaction's time, see [Config].Timeout, and the handler should return then: a rebalance and the end of [Subscriber.Run] wait for it.
// It is called by one goroutine per partition. A panic counts as an error, with its stack.
type Handler func(ctx context.Context, tx pgx.Tx, e Event) error

// Begin is where a group begins that has no position, neither in Postgres nor in Kafka. It counts when the group is first started with a
// topic: of a partition that the topic gets later, and of a topic that does not exist yet, all events are read.
type Begin string

const (
	BeginNow Begin = "now" // with what comes after its first start
	BeginAll Begin = "all" // with the oldest event that the topic has
)

// Config says what to read and what to do with it.
type Config struct {
	// Pool is the database of the handler. Its tables are those of SQL, found by its search_path. It needs a connection for each
	// partition that this process may own, or partitions wait for each other.
	Pool *pgxpool.Pool
	// Kafka has the options for the client: the brokers, and TLS, SASL and the like. Group, topics, offsets and commits are the subscriber's
	// to set. The user needs the rights READ and DESCRIBE on the topics and the group.
	Kafka []kgo.Opt
	// Group is the Kafka group, and names this consumer's rows. Every process of one group has the same Config.
	Group string
	// Topics are read from all partitions.
	Topics []string
	// Handler is called for every event that is to run.
	Handler Handler

	// Begin is BeginNow if empty.
	Begin Begin
	// Policy says how events are ordered. GapWait is half a minute if zero, and FutureSkew five minutes, also beside fields that are set; a
	// GapWait of a millisecond waits for nothing but what is in the log already. Start first is for a group that begins with all: entities
	// that are older than its beginning would wait for their first events in vain. What needs an operator or a backfill is refused: stale or
	// equal hold, then park, backfill or dead_letter, start backfill, and caps.
	Policy gate.Policy
	// Attempts is how often an event is tried whose handler fails, before it is set aside. 0: until it succeeds. What Postgres fails with
	// for no event's sake does not count, and is tried until it passes: a connection that is lost, a statement that takes longer than
	// Timeout, a conflict, a lack of resources, a table or right that is missing. For this, the handler's error has to wrap that of Postgres.
	Attempts int
	// Batch is how many records at most are decided in one transaction, and how many waiting events of an entity it releases; 100 if zero.
	// A transaction may be of fewer, and of one.
	Batch int
	// QueueBytes bounds the records that this process has read and not decided: 64 MiB if zero. Each of its partitions has an equal part of
	// it, and is not fetched while that is full; the client for Kafka holds one more fetch of a broker at most.
	QueueBytes int
	// Timeout is how long one transaction may take, with all calls of the handler in it; 20 s if zero. It must be less than the group's
	// rebalance timeout, a minute unless Kafka's options say otherwise.
	Timeout time.Duration
	// Dedupe is how long an event that was decided is remembered; 14 days if zero. It must be longer than the topic's retention and the
	// longest time after which a provider delivers again, together.
	Dedupe time.Duration
	// Logger takes what an operator should know; nothing is logged if nil.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Begin == "" {
		c.Begin = BeginNow
	}
	if c.Policy.GapWait == 0 {
		c.Policy.GapWait = 30 * time.Second
	}
	if c.Policy.FutureSkew == 0 {
		c.Policy.FutureSkew = 5 * time.Minute
	}
	if c.Batch == 0 {
		c.Batch = 100
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 64 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	if c.Dedupe == 0 {
		c.Dedupe = 14 * 24 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Pool == nil:
		return errors.New("subscriber: Pool is missing: the pool of the database that the handler writes to")
	case c.Group == "":
		return errors.New("subscriber: Group is missing: the name of the Kafka group")
	case len(c.Topics) == 0 || slices.Contains(c.Topics, ""):
		return errors.New("subscriber: Topics are missing, for example events.acme.orders")
	case c.Handler == nil:
		return errors.New("subscriber: Handler is missing")
	case c.Begin != BeginNow && c.Begin != BeginAll:
		return fmt.Errorf("subscriber: Begin %q is not one of now, all", c.Begin)
	case c.Attempts < 0 || c.Batch < 0 || c.QueueBytes < 0 || c.Timeout < 0 || c.Dedupe < 0:
		return errors.New("subscriber: Attempts, Batch, QueueBytes, Timeout and Dedupe cannot be negative")
	}
	return validatePolicy(c.Policy)
}

// validatePolicy refuses what leaves an event to somebody who is not there.
func validatePolicy(p gate.Policy) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	switch {
	case p.Then != "" && p.Then != gate.ThenSkip:
		return fmt.Errorf("subscriber: then %q needs a managed subscription: here a wait ends in skip; let GapWait be longer instead", p.Then)
	case p.Start == gate.StartBackfill:
		return errors.New("subscriber: start backfill needs a managed subscription: take any or first")
	case p.Equal == gate.EqualHold || p.Stale.Snapshot == gate.StaleHold || p.Stale.Delta == gate.StaleHold:
		return errors.New("subscriber: hold needs a managed subscription, whose operators decide about what is held")
	case p.MaxPerEntity != 0 || p.MaxBuffered != 0 || p.MaxBytesPerEntity != 0 || p.MaxBytes != 0:
		return errors.New("subscriber: caps of the gap buffer park events, which needs a managed subscription: GapWait bounds what waits here")
	}
	return nil
}
