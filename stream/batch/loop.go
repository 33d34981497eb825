package batch

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Loop runs the subscription's batches, one after the other, over all claimed partitions: small transactions are what
// costs, so a batch may span partitions. Everything that touches a running claim runs on its goroutine.
type Loop struct {
	cfg     Config
	log     *slog.Logger
	metrics *Metrics

	calls  chan func() // never closed
	claims map[reader.TopicPartition]*Partition
	gaps   gapClock
	idle   idleState
	carry  *reader.Unit // taken from the reader, did not fit the batch before: it goes before all that the reader has

	ctx       context.Context // what Run lives by
	running   transaction
	observers sync.WaitGroup
}

// transaction lets other goroutines end the one that runs, where it holds up a partition that must be given up.
type transaction struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil: none runs
}

func (t *transaction) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.set(cancel)
	return ctx, func() { t.set(nil); cancel(nil) }
}

func (t *transaction) set(cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = cancel
}

func (t *transaction) abort(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel(cause)
	}
}

// New makes a loop that works until ctx is done, once [Loop.Run] is called.
func New(ctx context.Context, cfg Config) *Loop {
	return &Loop{ctx: ctx, cfg: cfg, log: cfg.Logger, metrics: cfg.Metrics,
		calls: make(chan func()), claims: map[reader.TopicPartition]*Partition{}, idle: idleState{sweptAt: time.Now()}}
}

// do runs fn between two batches and returns when it has run. It reports false when ctx ended before.
func (l *Loop) do(ctx context.Context, fn func()) bool {
	ran := make(chan struct{})
	select {
	case l.calls <- func() { fn(); close(ran) }:
		<-ran
		return true
	case <-ctx.Done():
		return false
	}
}

// Attach starts a partition's run. It reports false when ctx ended before.
func (l *Loop) Attach(ctx context.Context, p *Partition) bool {
	return l.do(ctx, func() {
		l.claims[p.at()] = p
		p.Moved(p.next) // brings back a group's commit that expired
		if !p.LanesOnly {
			p.reading = l.cfg.Reader.Add(l.ctx, p.Claim.Partition, p.Partitions, p.next)
		}
	})
}

// Detach ends it, and tells no reason: when it returns true, no transaction runs on the claim and none will.
func (l *Loop) Detach(ctx context.Context, p *Partition) bool {
	return l.do(ctx, func() { l.end(p, nil) })
}

// Abort cuts off the transaction that runs, if one does, with all of its partitions. Their next claims read whether it was written.
func (l *Loop) Abort(cause error) { l.running.abort(cause) }

// Claims are those of the partitions that run; none when the loop has ended.
func (l *Loop) Claims() (claims []*ledger.Claim) {
	l.do(l.ctx, func() {
		for _, p := range l.claims {
			claims = append(claims, p.Claim)
		}
	})
	return claims
}

// end ends a run, on the loop's own goroutine. With a nil reason nobody is told. It is idempotent.
func (l *Loop) end(p *Partition, why error) {
	if p.gone {
		return
	}
	p.gone = true
	at := p.at()
	delete(l.claims, at)
	l.metrics.lag.DeleteLabelValues(at.Topic, strconv.Itoa(int(at.Number)))
	if p.reading != nil {
		l.cfg.Reader.Drop(l.ctx, p.reading)
	}
	if why != nil {
		p.ended <- why
	}
}

// Run works until the loop's context is done. The claims must be detached before.
func (l *Loop) Run() {
	defer l.observers.Wait()
	l.observers.Go(l.watchTopics)
	l.observers.Go(l.runCommands)
	for l.step() {
		l.sweepGaps()
		l.sweepIdle()
	}
}

// step does the next thing there is to do. It reports false once the loop's context is done.
func (l *Loop) step() bool {
	if u := l.carry; u != nil {
		select { // what is asked between two batches waits for one batch, not for the end of a catch-up
		case fn := <-l.calls:
			fn()
		default:
		}
		l.carry = nil
		l.work(*u)
		return l.ctx.Err() == nil
	}
	select {
	case <-l.ctx.Done():
		return false
	case fn := <-l.calls:
		fn()
	case u := <-l.cfg.Reader.Out():
		l.work(u)
	case <-l.gaps.timer():
	}
	return true
}

// work fills a batch from u and what follows it within the wait, and commits it.
func (l *Loop) work(u reader.Unit) {
	b := newBatch()
	l.take(b, u)
	wait := time.NewTimer(l.cfg.BatchWait)
	defer wait.Stop()
	for b.records < l.cfg.BatchRecords && b.bytes < l.cfg.BatchBytes {
		select {
		case u := <-l.cfg.Reader.Out():
			if b.records+u.Records > l.cfg.BatchRecords || b.bytes+u.Bytes > l.cfg.BatchBytes {
				l.carry = &u
				l.apply(b)
				return
			}
			l.take(b, u)
		case <-wait.C:
			l.apply(b)
			return
		case <-l.ctx.Done():
			return
		}
	}
	l.apply(b)
}

// take adds a unit's parts to the batch, except those of claims that have ended.
func (l *Loop) take(b *batch, u reader.Unit) {
	for i := range u.Parts {
		read := &u.Parts[i]
		switch p := l.claims[reader.At(read.Of.Partition)]; {
		case p == nil || p.reading != read.Of: // its claim has ended
		case read.Err != nil:
			l.readFailed(p, read)
		default:
			if err := b.add(p, *read); err != nil {
				l.refused(p, err)
			}
		}
	}
}

// readFailed goes on after a partition could not be read. The reader tries again by itself.
func (l *Loop) readFailed(p *Partition, read *reader.Part) {
	if e, ok := errors.AsType[*reader.GrownError](read.Err); ok {
		l.grown(e)
		return
	}
	l.metrics.fetchErrs.Inc()
	at := p.at()
	log := l.log.With("topic", at.Topic, "partition", at.Number, "offset", read.From, "error", read.Err)
	if p.Unread.IsZero() {
		p.Unread = time.Now()
	}
	switch {
	case mustRecheck(read.Err):
		log.Warn("partition not read; claiming it again")
		l.end(p, ErrRecheck)
	case time.Since(p.Unread) >= l.cfg.UnreadAfter:
		l.end(p, &UnreadableError{Offset: read.From, Since: p.Unread, Err: read.Err})
	default:
		log.Warn("partition not read; trying again")
	}
}

// mustRecheck reports whether an error means that the position and the log may not fit each other any more: then the
// partition is claimed again, and the claim's own questions say what is wrong. After other errors it is just read again.
func mustRecheck(err error) bool {
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return true
	}
	return errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// refused ends a claim of which the ledger has not taken what was read.
func (l *Loop) refused(p *Partition, err error) {
	if gap, ok := errors.AsType[*ledger.ContinuityError](err); ok {
		l.metrics.gaps.Inc()
		at := p.at()
		l.log.Error("what was read does not begin where the ledger stands: this is a fault of forebay, please report it; nothing of it is written, "+
			"and the partition is read again from the ledger's offset", "topic", at.Topic, "partition", at.Number, "ledger", gap.Stored, "read", gap.From, "error", err)
		l.end(p, ErrDiscontinuity)
		return
	}
	l.end(p, &RefusedError{err})
}

// apply commits a batch and hands on what follows from it.
func (l *Loop) apply(b *batch) {
	slices := b.slices()
	if len(slices) == 0 {
		return
	}
	began := time.Now()
	ctx, done := l.running.begin(l.ctx)
	applied, err := l.cfg.Ledger.Apply(ctx, slices)
	done()
	l.metrics.apply.Observe(time.Since(began).Seconds())
	if err != nil {
		l.log.Error("batch not committed; claiming its partitions again", "records", b.records, "error", err)
		for _, s := range b.parts {
			l.end(s.of, ErrUnknown)
		}
		return
	}
	l.metrics.batch.Observe(float64(b.records))
	l.metrics.bytes.Observe(float64(b.bytes))
	for i := range applied {
		if p := b.byClaim[applied[i].Claim]; p != nil {
			l.applied(p, applied[i])
		}
	}
}

// applied goes on after a batch was committed, with one of its partitions.
func (l *Loop) applied(read *part, a ledger.Applied) {
	p, at := read.of, read.of.at()
	if a.Fenced {
		l.log.Warn("fenced: somebody else claimed the partition", "topic", at.Topic, "partition", at.Number,
			"epoch", a.Claim.Epoch)
		l.end(p, ErrFenced)
		return
	}
	if a.Refused != nil {
		l.refused(p, a.Refused)
		return
	}
	p.next, p.Unread = read.Next, time.Time{}
	select {
	case p.committed <- struct{}{}:
	default:
	}
	l.metrics.decided(a.Outcomes)
	l.metrics.lag.WithLabelValues(at.Topic, strconv.Itoa(int(at.Number))).Set(float64(max(0, read.End-read.Next.Offset)))
	l.logDecisions(read, a)
	p.Moved(p.next)
	if a.Waiting {
		p.gap.ask = true
	}
	if a.BackfillRequested {
		l.cfg.Backfills.notify()
	}
	l.hand(p, a, read.Events)
	l.expireIfRead(p)
}
