package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// idleState is when partitions were last looked at that have been read to their end.
type idleState struct {
	asked time.Time
	busy  bool
}

// clockMargin is how far the broker's clock, which append times are of, may be behind ours. What is told by it is kept
// for days.
const clockMargin = 10 * time.Minute

// sweepIdle tells the ledger of partitions that are read to their end: an idle one has no records to tell by how far it
// has been processed, and a single one of them would keep every dedupe window for ever.
func (l *loop) sweepIdle() {
	now := time.Now()
	if l.idle.busy || len(l.claims) == 0 || now.Sub(l.idle.asked) < l.cfg.IdleSweep {
		return
	}
	l.idle = idleState{asked: now, busy: true}
	l.forgetLines()
	l.leaveTopics()
	all := slices.Collect(maps.Values(l.claims))
	l.observers.Go(func() { l.caughtUp(all, now) })
}

// forgetter is a ledger whose lines can expire; see [ledger.Namespace.Forget].
type forgetter interface {
	Forget(ctx context.Context, c *ledger.Claim) (more bool, err error)
}

var _ forgetter = (*ledger.Namespace)(nil)

// forgetLines lets the ledger forget lines that nothing moves any more: some now, the rest with the next sweep.
func (l *loop) forgetLines() {
	from, ok := l.cfg.Ledger.(forgetter)
	if !ok {
		return
	}
	for _, o := range l.claims {
		ctx, done := l.running.begin(l.ctx)
		_, err := from.Forget(ctx, o.claim)
		done()
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("lines not forgotten; trying again", "topic", o.at.topic, "partition", o.at.number, "error", err)
		}
	}
}

// leaver is a ledger that is to know which topics are listened to; see [ledger.Namespace.Leave].
type leaver interface {
	Leave(ctx context.Context, topics []string) error
}

var _ leaver = (*ledger.Namespace)(nil)

// leaveTopics tells the ledger which topics are listened to: others would keep every dedupe window for ever.
func (l *loop) leaveTopics() {
	from, ok := l.cfg.Ledger.(leaver)
	if !ok {
		return
	}
	ctx, done := l.running.begin(l.ctx)
	err := from.Leave(ctx, l.cfg.Topics)
	done()
	if err != nil && l.ctx.Err() == nil {
		l.log.Warn("topics that are no longer listened to not noted; dedupe windows are kept longer", "error", err)
	}
}

// caughtUp asks for the ends of partitions and notes those that are read to it. What fails now comes with the next sweep.
func (l *loop) caughtUp(all []*owned, asked time.Time) {
	ends := make(map[*owned]int64, len(all))
	for _, o := range all {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		end, err := l.broker.offset(ctx, o.at.topic, o.at.number, atEnd, true)
		cancel()
		if err == nil {
			ends[o] = end
		}
	}
	var read []*ledger.Claim
	l.do(l.ctx, func() {
		l.idle.busy = false
		for o, end := range ends {
			if !o.gone && o.next.Offset >= end {
				read = append(read, o.claim)
			}
		}
	})
	if len(read) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
	defer cancel()
	if err := l.cfg.Ledger.CaughtUp(ctx, asked.Add(-clockMargin), read); err != nil && l.ctx.Err() == nil {
		l.log.Warn("idle partitions not noted; dedupe windows are kept longer", "partitions", len(read), "error", err)
	}
}
