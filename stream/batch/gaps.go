package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// gapState is the state of a claim's waits for gaps (P5):
//
//	waiting ──deadline by the database's clock──▶ overdue ──end of the log, asked after that──▶ read to it? ──▶ expired
//
// A filler that reached the log before the deadline is below that end. So it is decided before the wait ends, however long this
// process was down. Control records count as read: otherwise an idle partition that ends with one would wait for ever. Expire ends
// the waits that were overdue when NextDeadline was last called, so NextDeadline is not called between overdue and Expire.
type gapState struct {
	ask     bool      // the ledger has to be asked for the first deadline, as soon as askEvery allows
	waiting bool      // when it was last asked, events waited: ask with every sweep
	due     time.Time // the first deadline by our clock; zero: not known
	overdue bool      // the deadline has passed by the ledger's clock
	end     int64     // if overdue: the end of the log, observed after that; -1: not known yet
}

// mustAsk reports whether the ledger has to be asked for the first deadline: the state asks for it, the first known deadline has passed
// by our clock, or events wait and the sweep is due.
func (g *gapState) mustAsk(now time.Time, sweep bool) bool {
	switch {
	case g.overdue: // not before Expire
		return false
	case g.ask:
		return true
	case !g.due.IsZero() && !now.Before(g.due):
		return true
	}
	return g.waiting && sweep
}

// askEvery is the shortest time between two questions for deadlines.
const askEvery = 100 * time.Millisecond

// observeTimeout bounds one question to the brokers or the ledger beside the batches.
const observeTimeout = 10 * time.Second

// gapClock wakes the loop when sweepGaps has something to do.
type gapClock struct {
	t       *time.Timer // nil before the first sweep
	askedAt time.Time   // when the ledger was last asked for deadlines
	sweptAt time.Time   // when it was last asked for those of all claims with waiting events
}

// timer returns the channel that has a value when it is time for sweepGaps; nil before the first one.
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

// sweepGaps asks the ledger for the deadlines of the claims that need it now, and sets the timer for the next time.
func (l *Loop) sweepGaps() {
	if l.paused.Load() {
		l.gaps.set(l.cfg.GapSweep)
		return
	}
	now := time.Now()
	sweep := now.Sub(l.gaps.sweptAt) >= l.cfg.GapSweep
	if sweep {
		l.gaps.sweptAt = now
	}
	var ask []*Partition
	for _, p := range l.claims {
		if !p.LanesOnly && p.gap.mustAsk(now, sweep) {
			ask = append(ask, p)
		}
	}
	if len(ask) > 0 && now.Sub(l.gaps.askedAt) >= askEvery {
		l.gaps.askedAt = now
		l.askDeadlines(ask)
	}
	l.gaps.set(l.nextGap(time.Now()))
}

// nextGap returns how long it is until sweepGaps has something to do.
func (l *Loop) nextGap(now time.Time) time.Duration {
	next := l.cfg.GapSweep
	for _, p := range l.claims {
		g := &p.gap
		if p.LanesOnly || g.overdue {
			continue // nothing to ask
		}
		if g.ask {
			next = min(next, askEvery)
		} else if !g.due.IsZero() {
			next = min(next, max(g.due.Sub(now), askEvery))
		}
	}
	return next
}

// askDeadlines asks the ledger how long it is to the first deadline of each of these claims, by the database's clock. Where that has
// passed, the end of the partition is asked for.
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
		return // the state is as before: the next sweep asks again
	}
	now := time.Now()
	for _, p := range ask {
		d, waiting := left[p.Claim.ID]
		p.gap = gapState{waiting: waiting}
		if !waiting {
			continue
		}
		if d > 0 {
			p.gap.due = now.Add(d)
			continue
		}
		p.gap.overdue, p.gap.end = true, -1
		l.observeEnd(p)
	}
}

// observeEnd asks the brokers for the end of an overdue partition, without blocking the loop, and then ends the waits if the partition
// is read to there already. If the question fails, the deadline is asked for again.
func (l *Loop) observeEnd(p *Partition) {
	l.observers.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		defer cancel()
		end, err := l.cfg.Log.End(ctx, p.at()) // a filler may be behind a transaction that is open
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
	if l.paused.Load() { // asked again afterwards
		return
	}
	ctx, done := l.running.start(l.ctx)
	a, err := l.cfg.Ledger.Expire(ctx, p.Claim)
	done()
	l.afterTransaction(&part{of: p}, "end of waits", a, err)
}

// afterTransaction handles the outcome of a transaction, which kind names for the log: of a batch, of Expire, of a command, or of a step of a
// replay. read has the partition, and the records of a batch or of a replay's step; the others have none.
func (l *Loop) afterTransaction(read *part, kind string, a ledger.Applied, err error) {
	p := read.of
	switch {
	case err != nil:
		l.log.Error(kind+" not committed; claiming the partition again", "topic", p.at().Topic, "partition", p.at().Number, "error", err)
		l.end(p, ErrUnknown)
		return
	case a.Fenced:
		l.end(p, ErrFenced)
		return
	case a.Refused != nil:
		l.refused(p, a.Refused)
		return
	}
	if a.Waiting {
		p.gap.ask = true
	}
	if a.BackfillRequested {
		l.cfg.Backfills.notify()
	}
	l.metrics.decided(a.Outcomes)
	l.logDecisions(read, a)
	l.handToLanes(p, a, read.Events)
}
