package reader

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// CopyLedger is what a [Copier] needs of a [ledger.Namespace].
type CopyLedger interface {
	WithoutCopy(ctx context.Context, c *ledger.Claim, after, before int64, limit int) (ledger.WithoutCopyPage, error)
	Copy(ctx context.Context, c *ledger.Claim, copies []ledger.Copy) (stored int, fenced bool, err error)
}

var _ CopyLedger = (*ledger.Namespace)(nil)

const (
	copyPage     = 1000    // open actions looked at in one read
	copyGroup    = 2 << 20 // bytes of copies held before they are stored
	copySweeps   = 2       // sweeps of one subscription at a time; each holds a group and one payload in memory
	copyFailures = 10      // loads that fail end a sweep; the next one goes on
	copyTimeout  = 20 * time.Second
	copySoonest  = time.Second
	copyLatest   = time.Hour
)

// CopierConfig is what a copier needs to know.
type CopierConfig struct {
	Ledger    CopyLedger
	Payloads  Payloads
	Log       *Log
	Retention map[string]time.Duration // by topic; used if the broker does not say
	Metrics   *Metrics
	Logger    *slog.Logger
}

// Copier copies payloads into the ledger before the log deletes them. It runs per claim, beside batches and lanes, and copies for
// actions that are still open when their event has reached half of the topic's retention. Buffered and parked events and failed
// actions have copies before that. The rest never had an attempt: most of them wait behind a head that fails or is dead.
type Copier struct {
	ledger   CopyLedger
	payloads Payloads
	source   *Log
	metrics  *Metrics
	log      *slog.Logger
	fallback map[string]time.Duration
	slots    chan struct{} // capacity copySweeps
}

// NewCopier makes a copier for the claims of a subscription.
func NewCopier(cfg CopierConfig) *Copier {
	return &Copier{ledger: cfg.Ledger, payloads: cfg.Payloads, source: cfg.Log, metrics: cfg.Metrics, log: cfg.Logger,
		fallback: cfg.Retention, slots: make(chan struct{}, copySweeps)}
}

// Start sweeps a claim until stop is called or ctx ends. stop waits until the sweep has ended. fenced is called if the claim turns
// out to have lost its fence. A nil copier copies nothing.
func (k *Copier) Start(ctx context.Context, c *ledger.Claim, fenced func()) (stop func()) {
	if k == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx, c, fenced)
	}()
	return func() { cancel(); <-ended }
}

// run sweeps a claim until ctx ends. If the claim has lost its fence, it calls fenced and ends. A sweep that fails is tried again.
func (k *Copier) run(ctx context.Context, c *ledger.Claim, fenced func()) {
	s := &copySweep{Copier: k, claim: c, at: At(c.Partition)}
	for {
		wait, err := s.sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errFenceLost):
			fenced()
			return
		case err != nil:
			k.metrics.copies.WithLabelValues("failed").Inc()
			k.log.Warn("payloads of open actions not all copied; trying again", "topic", s.at.Topic, "partition", s.at.Number,
				"error", err, "wait", wait)
		}
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// copySweep is the state of one claim's sweeps.
type copySweep struct {
	*Copier
	claim *ledger.Claim
	at    TopicPartition
	// done is a lane_seq: every action up to it is finished, has its copy, or has lost its payload.
	done int64

	// Of the sweep under way.
	start, before int64 // the stretch of the log to copy from; see endangered
	group         []ledger.Copy
	held          int   // bytes in group
	left          int64 // lane_seq of the first action that the next sweep has to copy; 0: none so far
	failed        int
	failure       error
	copied, lost  int
	bytes         int
}

// sweep makes one sweep and returns how long to wait until the next.
func (s *copySweep) sweep(ctx context.Context) (wait time.Duration, err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	began := time.Now()
	keep, err := s.beginSweep(ctx, began)
	if err == nil {
		err = s.walk(ctx)
	}
	if s.copied > 0 || s.lost > 0 {
		level := slog.LevelInfo
		if s.lost > 0 {
			level = slog.LevelWarn // each ends in its lane as payload_lost
		}
		s.log.Log(ctx, level, "payloads copied", "topic", s.at.Topic, "partition", s.at.Number, "copied", s.copied,
			"bytes", s.bytes, "lost", s.lost, "start", s.start, "before", s.before, "took", time.Since(began))
	}
	wait = keep.interval()
	if err != nil {
		wait = min(wait, 10*time.Second)
	}
	return wait, err
}

// interval returns how often a claim is swept: an eighth of the retention, so that a payload that one sweep finds younger than
// half of the retention is copied by the next, long before it is deleted.
func (r retention) interval() time.Duration {
	switch {
	case r.keep >= 0:
		return min(max(r.keep/8, copySoonest), copyLatest)
	case r.sized:
		return time.Minute
	}
	return copyLatest // nothing is deleted now, but the topic's retention may be changed
}

// beginSweep begins a sweep.
func (s *copySweep) beginSweep(ctx context.Context, now time.Time) (retention, error) {
	s.group, s.held, s.left, s.failed, s.failure, s.copied, s.lost, s.bytes = nil, 0, 0, 0, nil, 0, 0, 0
	s.start, s.before = 0, 0
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	keep, err := s.source.retention(ctx, s.at.Topic)
	if err != nil {
		own, ok := s.fallback[s.at.Topic]
		if !ok || ctx.Err() != nil {
			return retention{keep: -1}, err
		}
		s.log.Warn("retention not read; going by the configured one", "topic", s.at.Topic, "retention", own, "error", err)
		keep = retention{keep: own}
	}
	if keep.keep >= 0 || keep.sized {
		s.start, s.before, err = s.source.endangered(ctx, s.at, keep, now)
	}
	return keep, err
}

// walk copies the payloads of the claim's open actions that are in the endangered stretch of the log.
func (s *copySweep) walk(ctx context.Context) error {
	if s.before == 0 {
		return nil
	}
	after := s.done
	for {
		page, err := s.ledger.WithoutCopy(ctx, s.claim, after, s.before, copyPage)
		if err != nil {
			return err
		}
		for i := range page.Actions {
			if err := s.copyOne(ctx, &page.Actions[i]); err != nil {
				return errors.Join(err, s.store(ctx))
			}
		}
		if err := s.store(ctx); err != nil {
			return err
		}
		s.leaveForNextSweep(page.Left)
		after = max(after, page.Upto)
		if s.left == 0 {
			s.done = after
		} else {
			s.done = s.left - 1
		}
		if !page.More {
			return s.failure
		}
	}
}

// leaveForNextSweep notes an action that the next sweep has to look at again; 0 is none.
func (s *copySweep) leaveForNextSweep(laneSeq int64) {
	if laneSeq > 0 && (s.left == 0 || laneSeq < s.left) {
		s.left = laneSeq
	}
}

// copyOne loads the payload of an action and adds it to the group. If the log has lost it, the action ends in its lane as
// payload_lost.
func (s *copySweep) copyOne(ctx context.Context, a *ledger.WithoutCopy) error {
	if a.Pointer.Offset < s.start {
		s.countLost()
		return nil
	}
	load, cancel := context.WithTimeout(ctx, copyTimeout)
	e, err := s.payloads.Load(load, a.Pointer)
	cancel()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case sink.ClassOf(err) == sink.ClassPayload:
		s.countLost()
		return nil
	case err != nil:
		s.leaveForNextSweep(a.LaneSeq)
		s.failure = err
		if s.failed++; s.failed >= copyFailures {
			return err
		}
		return nil
	}
	packed := record.Pack(record.Encode("", e))
	s.group = append(s.group, ledger.Copy{LaneSeq: a.LaneSeq, Packed: packed})
	if s.held += len(packed); s.held >= copyGroup {
		return s.store(ctx)
	}
	return nil
}

func (s *copySweep) countLost() {
	s.lost++
	s.metrics.copies.WithLabelValues("lost").Inc()
}

// errFenceLost says that somebody else holds the fence of a claim that was swept.
var errFenceLost = errors.New("somebody else holds the fence")

// store writes the group under the fence.
func (s *copySweep) store(ctx context.Context) error {
	if len(s.group) == 0 {
		return nil
	}
	stored, fenced, err := s.ledger.Copy(ctx, s.claim, s.group)
	s.copied += stored
	s.metrics.copies.WithLabelValues("stored").Add(float64(stored))
	switch {
	case fenced:
		return errFenceLost
	case err != nil:
		return err
	}
	s.bytes += s.held
	s.group, s.held = s.group[:0], 0
	clear(s.group[:cap(s.group)])
	return nil
}
