package reader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	copyPage     = 1000             // open actions that one query returns
	copyGroup    = 2 << 20          // bytes of copies that are stored together
	copySweeps   = 2                // sweeps of one subscription at a time; each holds a group and one payload in memory
	copyFailures = 10               // after so many failed loads a sweep ends; the next one loads the rest
	copyTimeout  = 20 * time.Second // of one load, and of the questions that begin a sweep
	copySoonest  = time.Second      // the shortest time between two sweeps of a claim
	copyLatest   = time.Hour        // the longest
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

// Copier copies payloads into the ledger before the log deletes them: those of actions that are still open when their event has reached
// half of the topic's retention. It sweeps each claim on its own, beside batches and lanes. Buffered and parked events and failed actions
// have copies before that. The rest never had an attempt: most of them wait behind a head that fails or is dead.
type Copier struct {
	ledger   CopyLedger
	payloads Payloads
	topics   *Log
	metrics  *Metrics
	log      *slog.Logger
	fallback map[string]time.Duration // retention, where the broker does not say
	slots    chan struct{}            // a semaphore of copySweeps
}

// NewCopier makes a copier for the claims of a subscription.
func NewCopier(cfg CopierConfig) *Copier {
	return &Copier{ledger: cfg.Ledger, payloads: cfg.Payloads, topics: cfg.Log, metrics: cfg.Metrics, log: cfg.Logger,
		fallback: cfg.Retention, slots: make(chan struct{}, copySweeps)}
}

// Start sweeps a claim again and again until stop is called or ctx ends. stop waits until the sweep under way has ended. If the claim
// has lost its fence, Start's goroutine calls fenced and ends. A nil copier copies nothing.
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
	// done is a lane_seq: every action up to it has ended, has its copy, or has lost its payload, but for those that run again.
	done int64
	// pages are those that earlier walks made of what is open behind it: one in which all that needs a copy is too young for one is not read again
	// until it no longer is.
	pages []walkedPage

	// Of the sweep under way.
	start, before int64         // the offsets of the log to copy from, see endangered; before 0: nothing is to be copied
	group         []ledger.Copy // not stored yet
	groupBytes    int
	firstLeft     int64      // lane_seq of the first action that the next sweep has to copy; 0: none so far
	page          walkedPage // under way
	failures      int        // loads that failed
	failure       error      // the last of them
	copied, lost  int        // actions
	bytes         int        // of what was copied
}

// sweep makes one sweep, once one of the slots is free, and returns how long to wait until the next.
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

// interval returns the time between two sweeps of a claim: an eighth of the retention. So a payload that one sweep finds younger than
// half of the retention is copied by the next one, long before it is deleted. Of a topic whose size is bounded nobody knows how soon.
func (r retention) interval() time.Duration {
	every := copyLatest // where nothing is deleted now: the topic's retention may be changed
	if r.keep >= 0 {
		every = min(max(r.keep/8, copySoonest), copyLatest)
	}
	if r.sized {
		every = min(every, time.Minute)
	}
	return every
}

// beginSweep resets the sweep's state, and finds out the topic's retention and which offsets are to be copied.
func (s *copySweep) beginSweep(ctx context.Context, now time.Time) (retention, error) {
	s.group, s.groupBytes, s.firstLeft, s.failures, s.failure, s.copied, s.lost, s.bytes = nil, 0, 0, 0, nil, 0, 0, 0
	s.start, s.before = 0, 0
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	keep, err := s.topics.retention(ctx, s.at.Topic)
	if err != nil {
		configured, ok := s.fallback[s.at.Topic]
		if !ok || ctx.Err() != nil {
			return retention{keep: -1}, err
		}
		s.log.Warn("retention not read; going by the configured one", "topic", s.at.Topic, "retention", configured, "error", err)
		keep = retention{keep: configured} // if that is for ever, err stays: the next sweep comes soon
	}
	if keep.keep >= 0 || keep.sized {
		s.start, s.before, err = s.topics.endangered(ctx, s.at, keep, now)
	}
	return keep, err
}

// walk goes through the claim's open actions that have no copy and whose events have an offset below before, and copies their payloads. A
// payload that cannot be loaded is left for the next sweep; walk returns the last such failure.
func (s *copySweep) walk(ctx context.Context) error {
	if s.before == 0 {
		return nil // nothing will be deleted soon
	}
	if again := s.claim.TakeRevived(); again != 0 { // what was open in its page and behind it is no longer all that is
		s.done = min(s.done, again-1)
		s.pages = slices.DeleteFunc(s.pages, func(p walkedPage) bool { return p.upto >= again })
	}
	after, known := s.done, s.pages
	s.pages = nil
	defer func() { s.pages = append(s.pages, known...) }()
	for more := true; more; {
		for len(known) > 0 && known[0].upto <= after {
			known = known[1:]
		}
		if len(known) > 0 && (known[0].left == 0 || known[0].lowest >= s.before) {
			s.page = known[0]
		} else {
			var err error
			if more, err = s.copyPage(ctx, after); err != nil {
				return err
			}
		}
		if s.firstLeft == 0 {
			s.firstLeft = s.page.left
		}
		after = max(after, s.page.upto)
		if s.firstLeft == 0 {
			s.done = after
		} else {
			s.done = s.firstLeft - 1
		}
		if more { // the last one grows
			s.pages = append(s.pages, s.page)
		}
	}
	return s.failure
}

// copyPage copies the payloads of the page behind after, and leaves in s.page what the next sweep has to know of it.
func (s *copySweep) copyPage(ctx context.Context, after int64) (more bool, err error) {
	page, err := s.ledger.WithoutCopy(ctx, s.claim, after, s.before, copyPage)
	if err != nil {
		return false, err
	}
	s.page = walkedPage{upto: page.Upto, left: page.Left, lowest: page.LeftOffset}
	for i := range page.Actions {
		if err := s.copyOne(ctx, &page.Actions[i]); err != nil {
			return false, errors.Join(err, s.storeGroup(ctx))
		}
	}
	return page.More, s.storeGroup(ctx)
}

// walkedPage is what a walk found of up to copyPage open actions.
type walkedPage struct {
	upto   int64 // lane_seq of the last one
	left   int64 // of the first one that has no copy; 0: none
	lowest int64 // the lowest offset of those that have none
}

// leave notes an action that has no copy.
func (p *walkedPage) leave(a *ledger.WithoutCopy) {
	if p.left == 0 || a.Pointer.Offset < p.lowest {
		p.lowest = a.Pointer.Offset
	}
	if p.left == 0 || a.LaneSeq < p.left {
		p.left = a.LaneSeq
	}
}

// copyOne loads the payload of an action and adds it to the copies to be stored, which are stored at once when they are large enough. A
// payload that the log has lost is only counted: its action becomes a dead letter (payload_lost) when its lane comes to it. A load that
// fails is left for the next sweep. An error ends this one: ctx has ended, copyFailures loads of it failed that were not of records that the
// brokers cannot give, or storing failed.
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
		s.page.leave(a)
		s.failure = err
		if _, is := errors.AsType[*unreadableError](err); is {
			return nil // it alone: the sweep goes on to those that can be read
		}
		s.failures++
		if s.failures >= copyFailures {
			return err
		}
		return nil
	}
	packed := record.PackEvent(e)
	s.group = append(s.group, ledger.Copy{LaneSeq: a.LaneSeq, Packed: packed})
	s.groupBytes += len(packed)
	if s.groupBytes >= copyGroup {
		return s.storeGroup(ctx)
	}
	return nil
}

func (s *copySweep) countLost() {
	s.lost++
	s.metrics.copies.WithLabelValues("lost").Inc()
}

// errFenceLost says that somebody else holds the fence of a claim that was swept.
var errFenceLost = errors.New("somebody else holds the fence")

// storeGroup writes the group to the ledger, and empties it. The error is errFenceLost if somebody else holds the fence.
func (s *copySweep) storeGroup(ctx context.Context) error {
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
	s.bytes += s.groupBytes
	s.group, s.groupBytes = s.group[:0], 0
	clear(s.group[:cap(s.group)]) // free the payloads
	return nil
}
