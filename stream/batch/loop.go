package batch

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Loop runs the subscription's batches one after the other. A batch may span all claimed partitions, because small transactions are
// expensive. Everything that changes a running claim runs on the loop's goroutine.
type Loop struct {
	cfg     Config
	log     *slog.Logger
	metrics *Metrics

	warnings *rate.Limiter // of lines about decisions

	calls  chan func() // run on the loop's goroutine; never closed
	claims map[reader.TopicPartition]*Partition
	gaps   gapClock
	idle   idleSweep
	pace   pace
	carry  *reader.Unit // did not fit into the last batch: the next one begins with it
	paused atomic.Bool  // nothing is decided: see Pause

	forCommands, forReplays wakes // the ledger may have some for the claims

	ctx       context.Context // ends Run
	running   transaction
	observers sync.WaitGroup
}

// wakes has a goroutine look, once for all that came meanwhile. Capacity 1, never closed.
type wakes chan struct{}

func (w wakes) notify() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// transaction lets another goroutine cancel the loop's running transaction, when that delays giving up a partition.
type transaction struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil: no transaction is running
}

// start returns a context that abort cancels. The caller calls done when the transaction has ended.
func (t *transaction) start(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.set(cancel)
	return ctx, func() { t.set(nil); cancel(nil) }
}

func (t *transaction) set(cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = cancel
}

// abort cancels the transaction that is running, if there is one.
func (t *transaction) abort(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel(cause)
	}
}

// New makes a loop that works until ctx is done, once [Loop.Run] is called.
func New(ctx context.Context, cfg Config) *Loop {
	l := &Loop{ctx: ctx, cfg: cfg, log: cfg.Logger, metrics: cfg.Metrics,
		calls: make(chan func()), claims: map[reader.TopicPartition]*Partition{}, warnings: rate.NewLimiter(warningsPerSecond, warningsBurst),
		forCommands: make(wakes, 1), forReplays: make(wakes, 1), pace: pace{most: cfg.BatchPace, loaded: true}}
	l.idle = idleSweep{l: l, sweptAt: time.Now()}
	l.paused.Store(cfg.Paused)
	return l
}

// do runs fn on the loop's goroutine, between two batches, and waits until fn returns. It returns false if ctx ended before fn began.
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

// Attach starts a partition's run. It returns false if ctx ended first.
func (l *Loop) Attach(ctx context.Context, p *Partition) bool {
	return l.do(ctx, func() {
		l.claims[p.at()] = p
		p.look = lookState{next: p.next.Offset, since: p.Unread}
		p.failed = time.Now() // a first failure that comes late is not one with those of the run before
		p.Moved(p.next)       // mirrors the position even if no batch follows: the group's commit may have expired
		if !p.LanesOnly {
			p.reading = l.cfg.Reader.Add(l.ctx, p.Claim.Partition, p.Partitions, p.next)
		}
		l.forCommands.notify()
		l.forReplays.notify()
	})
}

// Detach ends a partition's run without a value on [Partition.Ended]. When it returns true, no transaction of the claim is running
// or will run. It returns false if ctx ended first.
func (l *Loop) Detach(ctx context.Context, p *Partition) bool {
	return l.do(ctx, func() { l.end(p, nil) })
}

// Abort cancels the running transaction, if there is one. The run of each of its partitions ends with ErrUnknown; their next claims read
// whether it was committed.
func (l *Loop) Abort(cause error) { l.running.abort(cause) }

// Pause has nothing decided from now on, or again: no batch and no end of a wait begins, and commands about events wait. Claims stay. It
// returns once the transaction that is running has ended, or ctx or the loop has.
func (l *Loop) Pause(ctx context.Context, paused bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	l.paused.Store(paused)
	l.do(ctx, func() {}) // waits for a transaction that is running, and wakes the loop
}

// Claims returns the claims of the attached partitions; none when the loop has ended.
func (l *Loop) Claims() (claims []*ledger.Claim) {
	l.do(l.ctx, func() {
		for _, p := range l.claims {
			claims = append(claims, p.Claim)
		}
	})
	return claims
}

// end ends a partition's run and sends why on [Partition.Ended], unless why is nil. After the first call it does nothing. It runs on the
// loop's goroutine.
func (l *Loop) end(p *Partition, why error) {
	if p.gone {
		return
	}
	p.gone = true
	at := p.at()
	delete(l.claims, at)
	l.metrics.lag.DeleteLabelValues(at.Topic, strconv.Itoa(int(at.Number)))
	l.metrics.lagTime.forget(at)
	if p.reading != nil {
		l.cfg.Reader.Drop(l.ctx, p.reading)
	}
	if why != nil {
		p.ended <- why
	}
}

// Run runs the loop until its context is done. The claims must be detached before that.
func (l *Loop) Run() {
	defer l.observers.Wait()
	l.observers.Go(l.watchTopics)
	l.observers.Go(l.watchReading)
	l.observers.Go(l.runCommands)
	if l.cfg.Replays != nil {
		l.observers.Go(l.runReplays)
	}
	for l.step() {
		l.sweepGaps()
		l.idle.sweep()
	}
}

// step waits for the next unit, call or timer and handles it. It returns false once the loop's context is done.
func (l *Loop) step() bool {
	if u := l.carry; u != nil && !l.paused.Load() {
		select { // during a catch-up there is always a carry; calls must not wait for the end of the catch-up
		case fn := <-l.calls:
			fn()
		default:
		}
		if l.paused.Load() { // by that call
			return true
		}
		l.carry = nil
		l.fillAndApply(*u)
		return l.ctx.Err() == nil
	}
	units := l.cfg.Reader.Out()
	if l.paused.Load() {
		units = nil
	}
	select {
	case <-l.ctx.Done():
		return false
	case fn := <-l.calls:
		fn()
	case u := <-units:
		l.fillAndApply(u)
	case <-l.gaps.timer():
	}
	return true
}

// fillAndApply fills a batch with u and the units that are at hand, or behind a large batch follow within BatchWait, and applies it. If the
// batch before was small, it waits first as [pace] says; the records that come meanwhile wait in the reader.
func (l *Loop) fillAndApply(u reader.Unit) {
	fill, ok := l.pace.wait(l.ctx, l.cfg.BatchWait)
	if !ok {
		return
	}
	b := newBatch()
	defer func(began time.Time) { l.pace.applied(began, b.records) }(time.Now())
	l.addUnit(b, u)
	wait := time.NewTimer(fill)
	defer wait.Stop()
	for b.records < l.cfg.BatchRecords && b.bytes < l.cfg.BatchBytes {
		select {
		case u := <-l.cfg.Reader.Out():
			if b.records+u.Records > l.cfg.BatchRecords || b.bytes+u.Bytes > l.cfg.BatchBytes {
				l.carry = &u
				l.apply(b)
				return
			}
			l.addUnit(b, u)
		case <-wait.C:
			l.apply(b)
			return
		case <-l.ctx.Done():
			return
		}
	}
	l.apply(b)
}

// addUnit adds a unit's parts to the batch, and handles those that could not be read. Parts of claims that have ended are left out.
func (l *Loop) addUnit(b *batch, u reader.Unit) {
	for i := range u.Parts {
		read := &u.Parts[i]
		switch p := l.claims[reader.At(read.Of.Partition)]; {
		case p == nil || p.reading != read.Of: // the claim that it was read for has ended
		case read.Err != nil:
			l.readFailed(p, read)
		default:
			if err := b.add(p, *read); err != nil {
				l.refused(p, err)
			}
		}
	}
}

// readFailed handles a partition that could not be read. Mostly the reader tries again by itself. The partition's run ends if the log
// may no longer have the position, or after UnreadAfter; that of all the topic's partitions if the topic has grown.
func (l *Loop) readFailed(p *Partition, read *reader.Part) {
	if e, ok := errors.AsType[*reader.GrownError](read.Err); ok {
		l.grown(e)
		return
	}
	p.Unread = failingSince(p.Unread, p.failed)
	p.failed = time.Now()
	if mustRecheck(read.Err) {
		l.metrics.fetchErrs.Inc()
		l.log.Warn("partition not read; claiming it again", "topic", p.at().Topic, "partition", p.at().Number, "offset", read.From, "error", read.Err)
		l.end(p, ErrRecheck)
		return
	}
	l.unread(p, &UnreadableError{Offset: read.From, Since: p.Unread, Err: read.Err})
}

// unread counts a failure to read a partition, and ends its run if that is so for UnreadAfter.
func (l *Loop) unread(p *Partition, e *UnreadableError) {
	l.metrics.fetchErrs.Inc()
	if time.Since(e.Since) >= l.cfg.UnreadAfter {
		l.end(p, e)
		return
	}
	l.log.Warn("partition not read; trying again", "topic", p.at().Topic, "partition", p.at().Number, "offset", e.Offset, "error", e.Err)
}

// ReadAgain is how long after a failure, or the begin of a run, a partition that cannot be read has surely failed again. The reader pauses for
// 5 s at the most, and its client may ask for metadata first. A look (see [lookState]) ends within half a minute of that, and the loop notes it
// after a transaction.
const ReadAgain = time.Minute

// failingSince returns since when reading fails without a break, now that it has failed again: since is when it first did, and last when it last
// did, its run began, or zero. Where nothing was read for longer than the reader waits, it has worked in between, although no record may have come.
func failingSince(since, last time.Time) time.Time {
	if since.IsZero() || (!last.IsZero() && time.Since(last) > ReadAgain) {
		return time.Now()
	}
	return since
}

// mustRecheck reports whether an error means that the log may no longer have the position. Then the partition is claimed again,
// and the claim finds out what is wrong. After other errors it is simply read again.
func mustRecheck(err error) bool {
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return true
	}
	return errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// refused ends the run of a partition whose records cannot be written: the ledger refuses them, or they do not follow on what was
// written or read before, which is a fault of ours.
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

// apply has the ledger decide and commit a batch, and handles the outcome of each partition.
func (l *Loop) apply(b *batch) {
	slices := b.slices()
	if len(slices) == 0 {
		return
	}
	began := time.Now()
	ctx, done := l.running.start(l.ctx)
	applied, err := l.cfg.Ledger.Apply(ctx, slices)
	done()
	l.metrics.apply.Observe(time.Since(began).Seconds())
	transaction := l.transaction(b, began)
	transaction.EndWith(err)
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
			l.trace(p, applied[i], began, transaction)
			l.applied(p, applied[i])
		}
	}
}

// applied handles the outcome of a committed batch for one of its partitions; read is what the batch had of it.
func (l *Loop) applied(read *part, a ledger.Applied) {
	p, at := read.of, read.of.at()
	if a.Fenced {
		l.log.Warn("fenced: somebody else claimed the partition", "topic", at.Topic, "partition", at.Number,
			"epoch", a.Claim.Epoch)
	}
	if a.Fenced || a.Refused != nil {
		l.afterTransaction(read, "batch", a, nil)
		return
	}
	p.next, p.Unread = read.Next, time.Time{}
	p.committed.notify()
	l.metrics.lag.WithLabelValues(at.Topic, strconv.Itoa(int(at.Number))).Set(float64(max(0, read.End-read.Next.Offset)))
	l.metrics.lagTime.decided(at, &read.Part)
	p.Moved(p.next)
	l.afterTransaction(read, "batch", a, nil)
	l.expireIfRead(p)
}
