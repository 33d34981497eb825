package batch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// idleState is the state of the idle sweep.
type idleState struct {
	sweptAt time.Time // when the last one began
	busy    bool      // it has not ended
}

// sweepIdle tells the ledger, every IdleSweep, which partitions are read to their end. Batches record how far a partition was processed,
// but an idle partition has none: a single one would keep every dedupe window for ever. The sweep also has version lines written and
// old ones deleted, and ends topics that the subscription no longer has.
func (l *Loop) sweepIdle() {
	now := time.Now()
	if l.idle.busy || len(l.claims) == 0 || now.Sub(l.idle.sweptAt) < l.cfg.IdleSweep {
		return
	}
	l.idle = idleState{sweptAt: now, busy: true}
	withOldLines := l.tidy()
	l.leaveTopics()
	partitions := slices.Collect(maps.Values(l.claims))
	l.observers.Go(func() {
		l.forgetLines(withOldLines)
		l.recordCaughtUp(partitions)
		l.do(l.ctx, func() { l.idle.busy = false })
	})
}

// tidy has the ledger write the version lines that it has not written yet. It returns the partitions that may have version lines to
// delete, because no event has moved them for long.
func (l *Loop) tidy() (withOldLines []*Partition) {
	for _, p := range l.claims {
		ctx, done := l.running.start(l.ctx)
		mayHaveOldLines, err := l.cfg.Ledger.Tidy(ctx, p.Claim)
		done()
		if err != nil {
			l.warnNotTidied(p, err)
		} else if mayHaveOldLines {
			withOldLines = append(withOldLines, p)
		}
	}
	return withOldLines
}

// forgetLines has the ledger delete version lines that no event has moved for long: a bounded number now, the rest with the next sweeps.
// The search reads all version lines of a partition, so it runs beside the batches; the deletion runs between two of them.
func (l *Loop) forgetLines(partitions []*Partition) {
	for _, p := range partitions {
		ctx, cancel := context.WithTimeout(l.ctx, forgetTimeout)
		old, err := l.cfg.Ledger.OldLines(ctx, p.Claim)
		cancel()
		if err != nil {
			l.warnNotTidied(p, err)
			continue
		}
		l.do(l.ctx, func() {
			if p.gone {
				return
			}
			ctx, done := l.running.start(l.ctx)
			defer done()
			if err := l.cfg.Ledger.ForgetLines(ctx, p.Claim, old); err != nil {
				l.warnNotTidied(p, err)
			}
		})
	}
}

// forgetTimeout bounds the search for version lines to delete in one partition.
const forgetTimeout = 30 * time.Second

func (l *Loop) warnNotTidied(p *Partition, err error) {
	if l.ctx.Err() == nil {
		l.log.Warn("version lines not tidied; trying again with the next sweep", "topic", p.at().Topic, "partition", p.at().Number, "error", err)
	}
}

// leaveTopics tells the ledger which topics the subscription has. Topics that it had before are processed no further, and would keep
// every dedupe window for ever.
func (l *Loop) leaveTopics() {
	ctx, done := l.running.start(l.ctx)
	err := l.cfg.Ledger.Leave(ctx, l.cfg.Topics)
	done()
	if err != nil && l.ctx.Err() == nil {
		l.log.Warn("could not record which topics the subscription has left; dedupe windows are kept longer until that works; trying again", "error", err)
	}
}

// recordCaughtUp has the ledger record which of the partitions are read to their end. The time of that is the ledger's before the
// brokers were asked for the ends: records that were appended later may be beyond these. If anything fails, the next sweep tries again.
func (l *Loop) recordCaughtUp(partitions []*Partition) {
	ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
	at, err := l.cfg.Ledger.Now(ctx)
	cancel()
	if err != nil {
		l.warnNotRecorded(len(partitions), err)
		return
	}
	read := l.readToTheEnd(partitions)
	if len(read) == 0 {
		return
	}
	ctx, cancel = context.WithTimeout(l.ctx, observeTimeout)
	defer cancel()
	if err := l.cfg.Ledger.CaughtUp(ctx, at, read); err != nil {
		l.warnNotRecorded(len(read), err)
	}
}

// readToTheEnd asks the brokers for the ends of partitions, and returns the claims of those that are read to their end. A partition
// whose end is not known is left out.
func (l *Loop) readToTheEnd(partitions []*Partition) (read []*ledger.Claim) {
	ends := make(map[*Partition]int64, len(partitions))
	for _, p := range partitions {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		end, err := l.cfg.Log.StableEnd(ctx, p.at())
		cancel()
		if err == nil {
			ends[p] = end
		}
	}
	l.do(l.ctx, func() {
		for p, end := range ends {
			if !p.gone && p.next.Offset >= end {
				read = append(read, p.Claim)
			}
		}
	})
	return read
}

func (l *Loop) warnNotRecorded(partitions int, err error) {
	if l.ctx.Err() == nil {
		l.log.Warn("could not record which partitions are idle; dedupe windows are kept longer until that works; trying again", "partitions", partitions, "error", err)
	}
}
