package stream

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Why the loop gave up a claim; what its owner does next depends on it.
var (
	errFenced        = errors.New("somebody else holds the fence")
	errUnknown       = errors.New("whether the batch was written is not known")
	errRecheck       = errors.New("the position and the log may not fit each other")
	errDiscontinuity = errors.New("what was read does not begin where the ledger stands")
)

// owned is a claimed partition while it runs. Its fields belong to the loop.
type owned struct {
	at         topicPartition
	claim      *ledger.Claim
	member     string          // that made the claim
	partitions int32           // of the topic
	unreading  bool            // its records are not read, nor its gaps ended: the topic has grown
	next       ledger.Position // behind the last batch; a Claim's own Next is where it began
	end        chan error      // capacity 1: why the loop gave the claim up
	unread     time.Time       // since when reading has failed; zero: it does not
	committed  chan struct{}   // capacity 1: something of it was committed
	gone       bool            // detached: what is still polled for it is not used
	gap        gapState
}

func newOwned(at topicPartition, c claimed) *owned {
	return &owned{at: at, claim: c.Claim, member: c.member, partitions: c.partitions, unreading: c.grown != nil, next: c.Next, end: make(chan error, 1), committed: make(chan struct{}, 1), gap: gapState{ask: true}}
}

// mirrored is its position for the mirror.
func (o *owned) mirrored() mirrored {
	return mirrored{id: o.claim.Partition.TopicID, at: o.next, member: o.member}
}

// loop runs the subscription's batches, one after the other, over all claimed partitions: small transactions are what
// costs, so a batch may span partitions. Everything that touches a running claim runs on its goroutine.
type loop struct {
	cfg     Config
	log     *slog.Logger
	fetch   *fetcher
	mirror  *mirror
	broker  *broker
	metrics *metrics

	calls  chan func() // never closed
	claims map[topicPartition]*owned
	gaps   gapClock
	idle   idleState
	carry  *unit // taken from the fetcher, did not fit the batch before: it goes before all that the fetcher has

	ctx       context.Context // what run lives by
	running   transaction
	observers sync.WaitGroup

	mu      sync.Mutex
	opening map[*ledger.Claim]bool // lanes run, and the loop does not have the claim yet; true: found fenced
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

func newLoop(ctx context.Context, cfg Config, f *fetcher, m *mirror, b *broker, ms *metrics) *loop {
	return &loop{ctx: ctx, cfg: cfg, log: cfg.Logger, fetch: f, mirror: m, broker: b, metrics: ms,
		calls: make(chan func()), claims: map[topicPartition]*owned{}, idle: idleState{asked: time.Now()}, opening: map[*ledger.Claim]bool{}}
}

// expect is called before c's lanes open: they may find the fence lost before the loop attaches it. forget ends it.
func (l *loop) expect(c *ledger.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening[c] = false
}

// forget ends what expect began, and says whether the claim was found fenced meanwhile.
func (l *loop) forget(c *ledger.Claim) (fenced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fenced = l.opening[c]
	delete(l.opening, c)
	return fenced
}

// do runs fn between two batches and returns when it has run. It reports false when ctx ended before.
func (l *loop) do(ctx context.Context, fn func()) bool {
	ran := make(chan struct{})
	select {
	case l.calls <- func() { fn(); close(ran) }:
		<-ran
		return true
	case <-ctx.Done():
		return false
	}
}

// attach starts a claim's reading.
func (l *loop) attach(ctx context.Context, o *owned) bool {
	return l.do(ctx, func() {
		l.claims[o.at] = o
		l.mirror.set(o.at, o.mirrored()) // brings back a group's commit that expired
		if !o.unreading {
			l.fetch.add(l.ctx, o)
		}
		if l.forget(o.claim) {
			l.end(o, errFenced)
		}
	})
}

// detach ends it: when it returns true, no transaction runs on the claim and none will. With a nil reason nobody is
// told.
func (l *loop) detach(ctx context.Context, o *owned) bool {
	return l.do(ctx, func() { l.end(o, nil) })
}

// end is detach for the loop's own goroutine. It is idempotent.
func (l *loop) end(o *owned, why error) {
	if o.gone {
		return
	}
	o.gone = true
	delete(l.claims, o.at)
	l.metrics.lag.DeleteLabelValues(o.at.topic, strconv.Itoa(int(o.at.number)))
	l.fetch.drop(l.ctx, o)
	if why != nil {
		o.end <- why
	}
}

// fenced ends a claim whose fence somebody found lost. It does not wait, and must not be called once run ends.
func (l *loop) fenced(c *ledger.Claim) {
	l.mu.Lock()
	_, opening := l.opening[c]
	if opening {
		l.opening[c] = true
	}
	l.mu.Unlock()
	if opening {
		return
	}
	l.observers.Go(func() {
		l.do(l.ctx, func() {
			for _, o := range l.claims {
				if o.claim == c {
					l.end(o, errFenced)
				}
			}
		})
	})
}

// run works until the loop's context is done. The claims must be detached before.
func (l *loop) run() {
	defer l.observers.Wait()
	l.observers.Go(l.watchTopics)
	if from, ok := l.cfg.Ledger.(CommandLedger); ok {
		l.observers.Go(func() { l.commands(from) })
	}
	if from, ok := l.cfg.Ledger.(ExportLedger); ok && l.cfg.Export {
		l.observers.Go(func() { l.exports(from) })
	}
	for l.step() {
		l.sweepGaps()
		l.sweepIdle()
	}
}

// step does the next thing there is to do. It reports false once the loop's context is done.
func (l *loop) step() bool {
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
	case u := <-l.fetch.out:
		l.work(u)
	case <-l.gaps.timer():
	}
	return true
}

// work fills a batch from u and what follows it within the wait, and commits it.
func (l *loop) work(u unit) {
	b := newBatch()
	l.take(b, u)
	wait := time.NewTimer(l.cfg.BatchWait)
	defer wait.Stop()
	for b.records < l.cfg.BatchRecords && b.bytes < l.cfg.BatchBytes {
		select {
		case u := <-l.fetch.out:
			if b.records+u.records > l.cfg.BatchRecords || b.bytes+u.bytes > l.cfg.BatchBytes {
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
func (l *loop) take(b *batch, u unit) {
	for _, p := range u.parts {
		switch {
		case p.own.gone:
		case p.err != nil:
			l.fetchFailed(p.own, p)
		default:
			if err := b.add(p); err != nil {
				l.refused(p.own, err)
			}
		}
	}
}

// fetchFailed goes on after the fetcher could not read a partition. It reads again by itself; see fetcher.
func (l *loop) fetchFailed(o *owned, p part) {
	if e, ok := errors.AsType[*grownError](p.err); ok {
		l.grown(e)
		return
	}
	l.metrics.fetchErrs.Inc()
	log := l.log.With("topic", o.at.topic, "partition", o.at.number, "offset", p.from, "error", p.err)
	if o.unread.IsZero() {
		o.unread = time.Now()
	}
	switch {
	case mustRecheck(p.err):
		log.Warn("partition not read; claiming it again")
		l.end(o, errRecheck)
	case time.Since(o.unread) >= l.cfg.UnreadAfter:
		l.end(o, unreadable(o.claim.Partition, p.from, o.unread, p.err))
	default:
		log.Warn("partition not read; trying again")
	}
}

// refused ends a claim of which the ledger has not taken what was read.
func (l *loop) refused(o *owned, err error) {
	if gap, ok := errors.AsType[*ledger.ContinuityError](err); ok {
		l.metrics.gaps.Inc()
		l.log.Error("what was read does not begin where the ledger stands: this is a fault of forebay, please report it; nothing of it is written, "+
			"and the partition is read again from the ledger's offset", "topic", o.at.topic, "partition", o.at.number, "ledger", gap.Stored, "read", gap.From, "error", err)
		l.end(o, errDiscontinuity)
		return
	}
	l.end(o, stop(o.claim.Partition, StopRefused, err))
}

// apply commits a batch and hands on what follows from it.
func (l *loop) apply(b *batch) {
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
			l.end(s.own, errUnknown)
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

func (l *loop) applied(p *part, a ledger.Applied) {
	o := p.own
	if a.Fenced {
		l.log.Warn("fenced: somebody else claimed the partition", "topic", o.at.topic, "partition", o.at.number,
			"epoch", a.Claim.Epoch)
		l.end(o, errFenced)
		return
	}
	if a.Refused != nil {
		l.refused(o, a.Refused)
		return
	}
	o.next, o.unread = p.next, time.Time{}
	select {
	case o.committed <- struct{}{}:
	default:
	}
	l.metrics.decided(a.Outcomes)
	l.metrics.lag.WithLabelValues(o.at.topic, strconv.Itoa(int(o.at.number))).Set(float64(max(0, p.end-p.next.Offset)))
	l.logDecisions(p, a)
	l.mirror.set(o.at, o.mirrored())
	if a.Waiting {
		o.gap.ask = true
	}
	if a.Asked {
		l.cfg.Questions.asked()
	}
	l.hand(o, a, p.events)
	l.expireIfRead(o)
}
