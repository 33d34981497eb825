package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// gapState is how far a claim is with the end of its waits for gaps (P5):
//
//	waiting ──deadline by the database's clock──▶ overdue ──end of the log, asked after that──▶ read to it? ──▶ expired
//
// A filler that reached the log before the deadline is below that end. So it is decided before the wait ends, however long this
// process was down. Control records count as read, so that an idle partition that ends with one does not wait for ever. Expire ends
// the waits that were overdue when the ledger was last asked, so it is not asked again before Expire.
type gapState struct {
	ask     bool      // the ledger has to be asked for the first deadline
	waiting bool      // the ledger said that events wait
	due     time.Time // the first deadline by our clock; zero: not known
	overdue bool      // the deadline has passed by the ledger's clock
	end     int64     // if overdue: the end of the log, observed after that; -1: not known yet
}

// askEvery is the shortest time between two questions for deadlines.
const askEvery = 100 * time.Millisecond

// observeTimeout bounds one question to the brokers or the ledger beside the batches. If the question for the end of a partition
// fails, everything begins again with the deadline.
const observeTimeout = 10 * time.Second

// gapClock wakes the loop when sweepGaps has something to do.
type gapClock struct {
	t         *time.Timer
	queriedAt time.Time
	sweptAt   time.Time
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

// sweepGaps asks the ledger for deadlines, for the claims that need it now, and sets the timer for the next time.
func (l *Loop) sweepGaps() {
	now := time.Now()
	sweep := now.Sub(l.gaps.sweptAt) >= l.cfg.GapSweep
	if sweep {
		l.gaps.sweptAt = now
	}
	var ask []*Partition
	for _, p := range l.claims {
		if g := &p.gap; !p.LanesOnly && !g.overdue && (g.ask || g.waiting && sweep || !g.due.IsZero() && !now.Before(g.due)) {
			ask = append(ask, p)
		}
	}
	if len(ask) > 0 && now.Sub(l.gaps.queriedAt) >= askEvery {
		l.gaps.queriedAt = now
		l.askDeadlines(ask)
	}
	l.gaps.set(l.nextGap(time.Now()))
}

// nextGap returns how long it is until sweepGaps has something to do.
func (l *Loop) nextGap(now time.Time) time.Duration {
	next := l.cfg.GapSweep
	for _, p := range l.claims {
		switch g := &p.gap; {
		case p.LanesOnly, g.overdue:
		case g.ask:
			next = min(next, askEvery)
		case !g.due.IsZero():
			next = min(next, max(g.due.Sub(now), askEvery))
		}
	}
	return next
}

// askDeadlines asks the ledger how long it is to the first deadline of each claim, by the database's clock.
func (l *Loop) askDeadlines(ask []*Partition) {
	claims := make([]*ledger.Claim, len(ask))
	for i, p := range ask {
		claims[i] = p.Claim
	}
	ctx, done := l.running.start(l.ctx)
	left, err := l.cfg.Ledger.NextDeadline(ctx, claims)
	done()
	if err != nil {
		l.log.Warn("gap deadlines not read; trying again", "error", err)
		return // ask stays set
	}
	now := time.Now()
	for _, p := range ask {
		d, ok := left[p.Claim.ID]
		p.gap = gapState{waiting: ok}
		switch {
		case !ok:
		case d > 0:
			p.gap.due = now.Add(d)
		default:
			p.gap.overdue, p.gap.end = true, -1
			l.observe(p)
		}
	}
}

// observe asks the brokers for the end of the partition, without blocking the loop.
func (l *Loop) observe(p *Partition) {
	l.observers.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		defer cancel()
		end, err := l.cfg.Log.StableEnd(ctx, p.at())
		var now reader.Topic
		if err == nil { // if the topic has grown, the filler may be in a new partition
			now, err = l.cfg.Log.Count(ctx, p.at().Topic)
		}
		l.do(l.ctx, func() {
			if err == nil {
				l.grown(&reader.GrownError{Topic: p.at().Topic, Now: now})
			}
			if p.gone || !p.gap.overdue {
				return
			}
			if err != nil {
				l.log.Warn("end of partition not read; trying again", "topic", p.at().Topic, "partition", p.at().Number, "error", err)
				p.gap = gapState{ask: true, waiting: true}
				return
			}
			p.gap.end = end
			l.expireIfRead(p)
		})
	})
}

// expireIfRead ends overdue waits once the partition is read to the end that was observed after the deadline.
func (l *Loop) expireIfRead(p *Partition) {
	if p.gone || !p.gap.overdue || p.gap.end < 0 || p.next.Offset < p.gap.end {
		return
	}
	p.gap = gapState{ask: true, waiting: true}
	ctx, done := l.running.start(l.ctx)
	a, err := l.cfg.Ledger.Expire(ctx, p.Claim)
	done()
	l.afterTransaction(p, a, err)
}

// afterTransaction handles the outcome of a transaction without records: of Expire, or of a command.
func (l *Loop) afterTransaction(p *Partition, a ledger.Applied, err error) {
	switch {
	case err != nil:
		l.log.Error("waits not ended; claiming the partition again", "topic", p.at().Topic, "partition", p.at().Number, "error", err)
		l.end(p, ErrUnknown)
		return
	case a.Fenced:
		l.end(p, ErrFenced)
		return
	case a.Refused != nil:
		l.refused(p, a.Refused)
		return
	}
	if a.BackfillRequested {
		l.cfg.Backfills.notify()
	}
	l.metrics.decided(a.Outcomes)
	l.logDecisions(&part{of: p}, a)
	l.handToLanes(p, a, nil)
}
