package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Ledger is what the export of dead letters needs of a [ledger.Namespace].
type Ledger interface {
	Store
	Unexported(ctx context.Context, claims []*ledger.Claim, limit int) ([]ledger.DeadLetter, error)
	Exported(ctx context.Context, claims []*ledger.Claim, list []ledger.DeadLetter) error
}

var _ Ledger = (*ledger.Namespace)(nil)

const (
	exportGroupSize = 50               // dead letters that are read at once
	maxRetryWait    = 30 * time.Second // between two tries after failures
	exportTimeout   = 20 * time.Second // of each step; no write begins later than that after the first one
)

// Config is what an exporter needs to know.
type Config struct {
	Subscription   string
	Ledger         Ledger
	Payloads       reader.Payloads
	Client         []kgo.Opt     // what every client of the subscription shares: seed brokers, TLS, SASL
	MaxRecordBytes int           // the largest record that is written
	Sweep          time.Duration // how often the ledger is asked for dead letters
	Metrics        *Metrics
	Logger         *slog.Logger
}

// Exporter copies the dead letters of the claimed partitions to the subscription's dead topic, in lane order. Only after the brokers have
// confirmed them are they marked in the ledger as exported. So after a crash or a change of owner some are written again, but none is left
// out.
type Exporter struct {
	cfg    Config
	write  func(ctx context.Context, d *ledger.DeadLetter) error // produce; a field for tests
	client *kgo.Client                                           // nil until the first dead letter
}

// New makes an exporter.
func New(cfg Config) *Exporter {
	x := &Exporter{cfg: cfg}
	x.write = x.produce
	return x
}

// Run exports the dead letters of the partitions that claims returns, until ctx is done.
func (x *Exporter) Run(ctx context.Context, claims func() []*ledger.Claim) {
	defer func() {
		if x.client != nil {
			x.client.Close()
		}
	}()
	wait := x.cfg.Sweep
	for {
		if retry.Sleep(ctx, wait) != nil {
			return
		}
		more, err := x.exportGroup(ctx, claims())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.cfg.Metrics.exports.WithLabelValues("failed").Inc()
			wait = min(2*max(wait, x.cfg.Sweep), max(maxRetryWait, x.cfg.Sweep))
			x.cfg.Logger.Warn("dead letters not exported; trying again", "topic", Topic(x.cfg.Subscription), "error", err, "wait", wait)
		case more:
			wait = 0
		default:
			wait = x.cfg.Sweep
		}
	}
}

// exportGroup writes one group of dead letters, or as many of it as it can begin to write within exportTimeout, and marks them as exported.
// It reports whether there may be more. Each step has a timeout of its own: what was written is marked even if the log and the brokers are
// slow.
func (x *Exporter) exportGroup(ctx context.Context, claims []*ledger.Claim) (more bool, err error) {
	if len(claims) == 0 {
		return false, nil
	}
	var list []ledger.DeadLetter
	err = x.step(ctx, func(ctx context.Context) (err error) {
		list, err = x.cfg.Ledger.Unexported(ctx, claims, exportGroupSize)
		return err
	})
	if err != nil {
		return false, err
	}
	written, began := 0, time.Now()
	for written < len(list) && err == nil && time.Since(began) < exportTimeout {
		err = x.step(ctx, func(ctx context.Context) error { return x.write(ctx, &list[written]) })
		if err == nil {
			written++
		}
	}
	if written > 0 {
		err = errors.Join(err, x.step(ctx, func(ctx context.Context) error { return x.cfg.Ledger.Exported(ctx, claims, list[:written]) }))
		x.cfg.Metrics.exports.WithLabelValues("done").Add(float64(written))
	}
	return written < len(list) || written == exportGroupSize, err
}

// step runs do with exportTimeout.
func (x *Exporter) step(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	return do(ctx)
}

// produce writes one dead letter and waits for the brokers. If the record is too large for the topic, it is written with a null value and
// a header that says so.
func (x *Exporter) produce(ctx context.Context, d *ledger.DeadLetter) error {
	if x.client == nil {
		opts := append([]kgo.Opt{}, x.cfg.Client...)
		largest := int32(x.cfg.MaxRecordBytes)
		client, err := kgo.NewClient(append(opts, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.UnknownTopicRetries(1), kgo.ProducerBatchMaxBytes(largest),
			kgo.BrokerMaxWriteBytes(max(100<<20, largest+1<<20)))...)
		if err != nil {
			return err
		}
		x.client = client
	}
	rec, _, err := Record(ctx, x.cfg.Ledger, x.cfg.Payloads, d)
	if err != nil {
		return err
	}
	err = x.client.ProduceSync(ctx, rec).FirstErr()
	if errors.Is(err, kerr.MessageTooLarge) {
		lost := fmt.Sprintf("its %d bytes are more than the topic takes", len(rec.Value))
		rec.Value, rec.Headers = nil, append(rec.Headers, kgo.RecordHeader{Key: "forebay-dead-lost", Value: []byte(lost)})
		err = x.client.ProduceSync(ctx, rec).FirstErr()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("topic %s does not exist: run `forebay topics apply`: %w", rec.Topic, err)
	}
	return err
}
