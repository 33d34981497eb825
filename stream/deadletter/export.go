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
	exportGroup   = 50 // dead letters that are read at once, and noted together
	exportLatest  = 30 * time.Second
	exportTimeout = 20 * time.Second // of each step; what was written so far is noted after as long
)

// Config is what an exporter needs to know.
type Config struct {
	Subscription   string
	Ledger         Ledger
	Payloads       reader.Payloads
	Client         []kgo.Opt // what every client of the subscription shares: seed brokers, TLS, SASL
	MaxRecordBytes int       // the largest record that is written
	Sweep          time.Duration
	Metrics        *Metrics
	Logger         *slog.Logger
}

// Exporter copies the dead letters of the claimed partitions to the subscription's dead topic, in lane order. The ledger notes which
// ones are exported after the brokers have confirmed them. So after a crash or a change of owner some are written again, but none is
// left out.
type Exporter struct {
	cfg    Config
	write  func(ctx context.Context, d *ledger.DeadLetter) error
	client *kgo.Client // made with the first dead letter
}

// New makes an exporter.
func New(cfg Config) *Exporter {
	x := &Exporter{cfg: cfg}
	x.write = x.produce
	return x
}

// Run exports the dead letters of claims until ctx is done.
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
		more, err := x.once(ctx, claims())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.cfg.Metrics.exports.WithLabelValues("failed").Inc()
			wait = min(2*max(wait, x.cfg.Sweep), max(exportLatest, x.cfg.Sweep))
			x.cfg.Logger.Warn("dead letters not exported; trying again", "topic", Topic(x.cfg.Subscription), "error", err, "wait", wait)
		case more:
			wait = 0
		default:
			wait = x.cfg.Sweep
		}
	}
}

// once exports one group, or as many of it as can be written in time, and reports whether there may be more. Each step has a timeout
// of its own, so that what was written is noted even if the log and the brokers are slow.
func (x *Exporter) once(ctx context.Context, claims []*ledger.Claim) (more bool, err error) {
	if len(claims) == 0 {
		return false, nil
	}
	var list []ledger.DeadLetter
	err = x.step(ctx, func(ctx context.Context) (err error) {
		list, err = x.cfg.Ledger.Unexported(ctx, claims, exportGroup)
		return err
	})
	if err != nil {
		return false, err
	}
	done, began := 0, time.Now()
	for done < len(list) && err == nil && time.Since(began) < exportTimeout {
		if err = x.step(ctx, func(ctx context.Context) error { return x.write(ctx, &list[done]) }); err == nil {
			done++
		}
	}
	if done > 0 {
		err = errors.Join(err, x.step(ctx, func(ctx context.Context) error { return x.cfg.Ledger.Exported(ctx, claims, list[:done]) }))
		x.cfg.Metrics.exports.WithLabelValues("done").Add(float64(done))
	}
	return done < len(list) || done == exportGroup, err
}

func (x *Exporter) step(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	return do(ctx)
}

// produce writes one dead letter and waits for the brokers. If it is too large for the topic, it is written without its body.
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
