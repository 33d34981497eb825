package stream

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// gapState is how far a claim is with the gap it waits for (P5):
//
//	waiting ──deadline by the database's clock──▶ overdue ──end of the log, asked after that──▶ read to it? ──▶ expired
//
// A filler that reached the log before the deadline lies below that end, so it is decided before the wait is ended,
// however long this process was down. Control records count as read: an idle partition that ends in one is not waited
// for for ever. Expire ends only what was overdue when the ledger was asked, so between that question and Expire it is
// not asked again.
type gapState struct {
	ask     bool      // the ledger must be asked for the deadline
	waiting bool      // the ledger said that something waits
	due     time.Time // when it is due by our clock; zero: not known
	overdue bool      // the ledger's clock says so; the end is being asked for, or known
	end     int64     // of the log, observed after that; -1: not yet
}

// askEvery bounds how often deadlines are asked for while batches leave something waiting.
const askEvery = 100 * time.Millisecond

// observeTimeout bounds one question for the end of a partition; a failed one is asked again with the deadline.
const observeTimeout = 10 * time.Second

// gapClock wakes the loop for the next thing that gaps need.
type gapClock struct {
	t     *time.Timer
	asked time.Time
	swept time.Time
}

func (g *gapClock) timer() <-chan time.Time {
	if g.t == nil {
		return nil
	}
	return g.t.C
}

func (g *gapClock) set(d time.Duration) {
	if g.t == nil {
		g.t = time.NewTimer(d)
		return
	}
	g.t.Reset(d)
}

// sweepGaps asks for deadlines where that is due and sets the timer for the next time.
func (l *loop) sweepGaps() {
	now := time.Now()
	sweep := now.Sub(l.gaps.swept) >= l.cfg.GapSweep
	if sweep {
		l.gaps.swept = now
	}
	var ask []*owned
	for _, o := range l.claims {
		if g := &o.gap; !o.unreading && !g.overdue && (g.ask || g.waiting && sweep || !g.due.IsZero() && !now.Before(g.due)) {
			ask = append(ask, o)
		}
	}
	if len(ask) > 0 && now.Sub(l.gaps.asked) >= askEvery {
		l.gaps.asked = now
		l.askDeadlines(ask)
	}
	l.gaps.set(l.nextGap(time.Now()))
}

func (l *loop) nextGap(now time.Time) time.Duration {
	next := l.cfg.GapSweep
	for _, o := range l.claims {
		switch g := &o.gap; {
		case o.unreading, g.overdue:
		case g.ask:
			next = min(next, askEvery)
		case !g.due.IsZero():
			next = min(next, max(g.due.Sub(now), askEvery))
		}
	}
	return next
}

// askDeadlines asks the database's clock.
func (l *loop) askDeadlines(ask []*owned) {
	claims := make([]*ledger.Claim, len(ask))
	for i, o := range ask {
		claims[i] = o.claim
	}
	ctx, done := l.running.begin(l.ctx)
	left, err := l.cfg.Ledger.NextDeadline(ctx, claims)
	done()
	if err != nil {
		l.log.Warn("gap deadlines not read; trying again", "error", err)
		return // ask stays set
	}
	now := time.Now()
	for _, o := range ask {
		d, ok := left[o.claim.ID]
		o.gap = gapState{waiting: ok}
		switch {
		case !ok:
		case d > 0:
			o.gap.due = now.Add(d)
		default:
			o.gap.overdue, o.gap.end = true, -1
			l.observe(o)
		}
	}
}

// observe asks for the end of the partition without holding up the loop.
func (l *loop) observe(o *owned) {
	l.observers.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		defer cancel()
		end, err := l.broker.offset(ctx, o.at.topic, o.at.number, atEnd, true)
		var now topic
		if err == nil { // in a topic that has grown the filler may be in a new partition
			now, err = l.broker.count(ctx, o.at.topic)
		}
		l.do(l.ctx, func() {
			if err == nil {
				l.grown(&grownError{o.at.topic, now})
			}
			if o.gone || !o.gap.overdue {
				return
			}
			if err != nil {
				l.log.Warn("end of partition not read; trying again", "topic", o.at.topic, "partition", o.at.number, "error", err)
				o.gap = gapState{ask: true, waiting: true}
				return
			}
			o.gap.end = end
			l.expireIfRead(o)
		})
	})
}

// expireIfRead ends overdue waits once the partition is read to the end observed after the deadline.
func (l *loop) expireIfRead(o *owned) {
	if o.gone || !o.gap.overdue || o.gap.end < 0 || o.next.Offset < o.gap.end {
		return
	}
	o.gap = gapState{ask: true, waiting: true}
	ctx, done := l.running.begin(l.ctx)
	a, err := l.cfg.Ledger.Expire(ctx, o.claim)
	done()
	l.concluded(o, a, err)
}

// concluded goes on after a transaction without records: the end of waits, or a command.
func (l *loop) concluded(o *owned, a ledger.Applied, err error) {
	switch {
	case err != nil:
		l.log.Error("waits not ended; claiming the partition again", "topic", o.at.topic, "partition", o.at.number, "error", err)
		l.end(o, errUnknown)
		return
	case a.Fenced:
		l.end(o, errFenced)
		return
	case a.Refused != nil:
		l.refused(o, a.Refused)
		return
	}
	if a.Asked {
		l.cfg.Questions.asked()
	}
	l.metrics.decided(a.Outcomes)
	l.logDecisions(&part{own: o}, a)
	l.hand(o, a, nil)
}
