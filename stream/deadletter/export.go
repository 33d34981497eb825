package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
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
	exportGroupSize = 500              // dead letters that are read at once, beside those that wait for another try
	maxRetryWait    = 30 * time.Second // between two groups of which nothing was written
	maxLetterWait   = time.Hour        // between two tries of one dead letter, where others are written
	maxPassed       = 10_000           // dead letters that are read again while they wait for another try
	maxStuckWait    = 5 * time.Minute  // the same where none is: brokers that are back shall not wait for long
	exportTimeout   = 20 * time.Second // of each step; no write begins later than that after the first one
	stopTime        = 2 * time.Second  // for the mark of what is written, once Run is to end
	maxTogether     = 192 << 10        // bytes of records that are on their way at once, or one larger record: the least that the topic takes is 256 KiB
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
// out. One that cannot be written (its batch in the log is broken, say) is tried again later and later, and holds up no other.
type Exporter struct {
	cfg      Config
	write    func(ctx context.Context, d *ledger.DeadLetter) written // produce; a field for tests
	client   *kgo.Client                                             // nil until the first dead letter
	together int                                                     // bytes of the records that may be on their way
	renew    bool                                                    // the topic is another one than the client knows
	failed   map[letter]*failure                                     // dead letters that wait for another try
	stuck    bool                                                    // nothing was written since the last failure
}

// written waits for what became of a write that has begun.
type written func() error

// letter is a dead letter's place among those of all claims.
type letter struct {
	fence   int32
	laneSeq int64
}

// failure is when a dead letter is tried again, and how long it has waited for that.
type failure struct {
	next time.Time
	wait time.Duration
}

// New makes an exporter.
func New(cfg Config) *Exporter {
	x := &Exporter{cfg: cfg, failed: map[letter]*failure{}}
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
// slow. An error says that nothing was written, or not marked.
func (x *Exporter) exportGroup(ctx context.Context, claims []*ledger.Claim) (more bool, err error) {
	if len(claims) == 0 {
		return false, nil
	}
	var list []ledger.DeadLetter
	limit := exportGroupSize + min(len(x.failed), maxPassed)
	err = x.step(ctx, func(ctx context.Context) (err error) {
		list, err = x.cfg.Ledger.Unexported(ctx, claims, limit)
		return err
	})
	if err != nil {
		return false, err
	}
	more = len(list) == limit
	due := x.due(list)
	var begun []written
	for began := time.Now(); len(begun) < len(due) && ctx.Err() == nil; {
		if time.Since(began) >= exportTimeout {
			more = true
			break
		}
		begun = append(begun, x.write(ctx, &due[len(begun)]))
	}
	var written, failed []ledger.DeadLetter
	for i, wait := range begun {
		if cause := wait(); cause != nil {
			failed, err = append(failed, due[i]), fmt.Errorf("action %s: %w", due[i].ID, cause)
		} else {
			written = append(written, due[i])
		}
	}
	x.reschedule(written, failed)
	if len(failed) > 0 && len(written) > 0 {
		x.cfg.Logger.Warn("dead letters not exported, while others are; trying them again", "topic", Topic(x.cfg.Subscription), "failed", len(failed), "error", err)
	}
	if len(written) == 0 {
		return more && err == nil, err
	}
	x.cfg.Metrics.exports.WithLabelValues("done").Add(float64(len(written)))
	return more, x.step(context.WithoutCancel(ctx), func(mark context.Context) error {
		mark, cancel := context.WithCancel(mark)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTime, cancel) })() // else all of them are written again by the next owner
		return x.cfg.Ledger.Exported(mark, claims, written)
	})
}

// reschedule says when those that failed are tried again: each after twice as long as before. Once one is written where none could be, as when
// the brokers are back, all that wait are due at once.
func (x *Exporter) reschedule(written, failed []ledger.DeadLetter) {
	x.cfg.Metrics.exports.WithLabelValues("failed").Add(float64(len(failed)))
	for i := range written {
		delete(x.failed, letterOf(&written[i]))
	}
	longest := maxLetterWait
	if len(written) == 0 {
		longest = maxStuckWait
	}
	now := time.Now()
	for i := range failed {
		l := letterOf(&failed[i])
		if x.failed[l] == nil {
			x.failed[l] = &failure{}
		}
		f := x.failed[l]
		f.wait = min(max(2*f.wait, x.cfg.Sweep), longest)
		f.next = now.Add(f.wait)
	}
	if len(written) > 0 && x.stuck {
		for _, f := range x.failed {
			f.next = now
		}
	}
	x.stuck = len(written) == 0 && (x.stuck || len(failed) > 0)
}

// due leaves out the dead letters that wait for another try, and forgets those that the ledger does not list any more.
func (x *Exporter) due(list []ledger.DeadLetter) (due []ledger.DeadLetter) {
	now, listed := time.Now(), make(map[letter]bool, len(list))
	for i := range list {
		l := letterOf(&list[i])
		listed[l] = true
		if f := x.failed[l]; f == nil || !now.Before(f.next) {
			due = append(due, list[i])
		}
	}
	maps.DeleteFunc(x.failed, func(l letter, _ *failure) bool { return !listed[l] })
	return due
}

func letterOf(d *ledger.DeadLetter) letter { return letter{d.Fence, d.LaneSeq} }

// step runs do with exportTimeout.
func (x *Exporter) step(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	return do(ctx)
}

// connect makes the client, or another one where the topic was deleted and created again: the one before would refuse it for good.
func (x *Exporter) connect() error {
	if x.client != nil && !x.renew {
		return nil
	}
	largest := int32(x.cfg.MaxRecordBytes)
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, x.cfg.Client...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.UnknownTopicRetries(1),
		kgo.ProducerBatchMaxBytes(largest), kgo.BrokerMaxWriteBytes(max(100<<20, largest+1<<20)), record.Compressor())...)
	if err != nil {
		return err
	}
	if x.client != nil {
		x.client.Close()
	}
	x.client, x.renew = client, false
	return nil
}

// produce begins to write one dead letter, and returns what waits for the brokers' answer: many are on their way at once. Before there would be more
// than maxTogether it waits for those: the topic would refuse a larger batch.
func (x *Exporter) produce(ctx context.Context, d *ledger.DeadLetter) written {
	if err := x.connect(); err != nil {
		return func() error { return err }
	}
	each, cancel := context.WithTimeout(ctx, exportTimeout)
	rec, _, err := Record(each, x.cfg.Ledger, x.cfg.Payloads, d)
	if err == nil {
		if size := record.PackedSize(rec); x.together+size > maxTogether {
			err, x.together = x.client.Flush(each), size
		} else {
			x.together += size
		}
	}
	if err != nil {
		cancel()
		return func() error { return err }
	}
	acked := make(chan error, 1)
	x.client.Produce(each, rec, func(_ *kgo.Record, err error) {
		rec.Value = nil // a whole group of them may be too much for memory
		acked <- err
	})
	return func() error {
		defer cancel()
		err := <-acked
		if errors.Is(err, kerr.MessageTooLarge) { // or its batch is
			err = x.step(ctx, func(ctx context.Context) error { return x.writeAlone(ctx, d) })
		}
		x.renew = x.renew || errors.Is(err, kerr.UnknownTopicID)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("topic %s does not exist: run `forebay topics apply`: %w", rec.Topic, err)
		}
		return record.Lacks(x.client, "Write", "topic "+rec.Topic, err)
	}
}

// writeAlone writes one dead letter once more, in a batch of its own. If the record is too large for the topic, it is written with a null value
// and a header that says so.
func (x *Exporter) writeAlone(ctx context.Context, d *ledger.DeadLetter) error {
	rec, _, err := Record(ctx, x.cfg.Ledger, x.cfg.Payloads, d)
	if err != nil {
		return err
	}
	if err = x.client.Flush(ctx); err == nil {
		err = x.client.ProduceSync(ctx, rec).FirstErr()
	}
	if errors.Is(err, kerr.MessageTooLarge) {
		lost := fmt.Sprintf("its %d bytes are more than the topic takes", len(rec.Value))
		rec.Value, rec.Headers = nil, append(rec.Headers, kgo.RecordHeader{Key: "forebay-dead-lost", Value: []byte(lost)})
		err = x.client.ProduceSync(ctx, rec).FirstErr()
	}
	return err
}
