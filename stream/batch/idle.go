package batch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// idleSweep tells the ledger now and then what a partition without batches does not. sweptAt and busy are the loop's goroutine's.
type idleSweep struct {
	l       *Loop
	sweptAt time.Time // when the last one began
	busy    bool      // it has not ended
}

// sweep tells the ledger, every IdleSweep, which partitions are read to their end. Batches record how far a partition was processed,
// but an idle partition has none: a single one would keep every dedupe window for ever. The sweep also has version lines written and
// old ones deleted, and ends topics that the subscription no longer has.
func (s *idleSweep) sweep() {
	now := time.Now()
	if s.busy || len(s.l.claims) == 0 || now.Sub(s.sweptAt) < s.l.cfg.IdleSweep {
		return
	}
	s.sweptAt, s.busy = now, true
	withOldLines := s.tidy()
	s.leaveTopics()
	partitions := slices.Collect(maps.Values(s.l.claims))
	s.l.observers.Go(func() {
		s.forgetLines(withOldLines)
		s.recordCaughtUp(partitions)
		s.l.do(s.l.ctx, func() { s.busy = false })
	})
}

// tidy has the ledger write the version lines that it has not written yet. It returns the partitions that may have version lines to
// delete, because no event has moved them for long.
func (s *idleSweep) tidy() (withOldLines []*Partition) {
	for _, p := range s.l.claims {
		ctx, done := s.l.running.start(s.l.ctx)
		mayHaveOldLines, err := s.l.cfg.Ledger.Tidy(ctx, p.Claim)
		done()
		if err != nil {
			s.warnNotTidied(p, err)
		} else if mayHaveOldLines {
			withOldLines = append(withOldLines, p)
		}
	}
	return withOldLines
}

// forgetLines has the ledger delete version lines that no event has moved for long, for half of the time until the next sweep, of which each
// partition gets an even part; the next sweep goes on where this one ends.
func (s *idleSweep) forgetLines(partitions []*Partition) {
	end := time.Now().Add(s.l.cfg.IdleSweep / 2)
	for i, p := range partitions {
		turn := time.Now().Add(time.Until(end) / time.Duration(len(partitions)-i))
		for s.forgetSome(p) && time.Now().Before(turn) {
		}
	}
}

// forgetSome has the ledger delete some of a partition's version lines, and reports whether there may be more. The search reads all version
// lines of the partition, so it runs beside the batches; the deletion runs between two of them, which then have their turn for as long as it took.
func (s *idleSweep) forgetSome(p *Partition) (more bool) {
	ctx, cancel := context.WithTimeout(s.l.ctx, forgetTimeout)
	old, err := s.l.cfg.Ledger.OldLines(ctx, p.Claim)
	cancel()
	if err != nil {
		s.warnNotTidied(p, err)
		return false
	}
	var took time.Duration
	s.l.do(s.l.ctx, func() {
		if p.gone {
			return
		}
		began := time.Now()
		defer func() { took = time.Since(began) }()
		ctx, done := s.l.running.start(s.l.ctx)
		defer done()
		if err := s.l.cfg.Ledger.ForgetLines(ctx, p.Claim, old); err != nil {
			s.warnNotTidied(p, err)
			return
		}
		more = old.More
	})
	_ = retry.Sleep(s.l.ctx, took) // what ends it ends the next search, too
	return more
}

// forgetTimeout bounds a search for some version lines to delete in one partition.
const forgetTimeout = 30 * time.Second

func (s *idleSweep) warnNotTidied(p *Partition, err error) {
	if s.l.ctx.Err() == nil {
		s.l.log.Warn("version lines not tidied; trying again with the next sweep", "topic", p.at().Topic, "partition", p.at().Number, "error", err)
	}
}

// leaveTopics tells the ledger which topics the subscription has. Topics that it had before are processed no further, and would keep
// every dedupe window for ever.
func (s *idleSweep) leaveTopics() {
	ctx, done := s.l.running.start(s.l.ctx)
	err := s.l.cfg.Ledger.Leave(ctx, s.l.cfg.Topics)
	done()
	if err != nil && s.l.ctx.Err() == nil {
		s.l.log.Warn("could not record which topics the subscription has left; dedupe windows are kept longer until that works; trying again", "error", err)
	}
}

// recordCaughtUp has the ledger record which of the partitions are read to their end. The time of that is the ledger's before the
// brokers were asked for the ends: records that were appended later may be beyond these. If anything fails, the next sweep tries again.
func (s *idleSweep) recordCaughtUp(partitions []*Partition) {
	ctx, cancel := context.WithTimeout(s.l.ctx, observeTimeout)
	at, err := s.l.cfg.Ledger.Now(ctx)
	cancel()
	if err != nil {
		s.warnNotRecorded(len(partitions), err)
		return
	}
	read := s.readToTheEnd(partitions)
	if len(read) == 0 {
		return
	}
	ctx, cancel = context.WithTimeout(s.l.ctx, observeTimeout)
	defer cancel()
	err = s.l.cfg.Ledger.CaughtUp(ctx, at, read)
	if e, ok := errors.AsType[*ledger.BehindError](err); ok {
		s.claimAgain(partitions, e.Fences)
	} else if err != nil {
		s.warnNotRecorded(len(read), err)
	}
}

// claimAgain ends the runs of partitions of which the ledger lacks what was written: their next claims read again from where the ledger is. Without it
// that would wait for the next record, and with it what was buffered for a gap.
func (s *idleSweep) claimAgain(partitions []*Partition, behind map[int32]bool) {
	s.l.do(s.l.ctx, func() {
		for _, p := range partitions {
			if behind[p.Claim.ID] {
				s.l.end(p, ErrFenced)
			}
		}
	})
}

// readToTheEnd asks the brokers for the ends of partitions, and returns the claims of those that are read to their end. A partition
// whose end is not known is left out.
func (s *idleSweep) readToTheEnd(partitions []*Partition) (read []*ledger.Claim) {
	ends := make(map[*Partition]int64, len(partitions))
	for _, p := range partitions {
		ctx, cancel := context.WithTimeout(s.l.ctx, observeTimeout)
		end, err := s.l.cfg.Log.End(ctx, p.at()) // behind a transaction that is open, records may lie unread
		cancel()
		if err == nil {
			ends[p] = end
		}
	}
	s.l.do(s.l.ctx, func() {
		for p, end := range ends {
			if !p.gone && p.next.Offset >= end {
				read = append(read, p.Claim)
			}
		}
	})
	return read
}

func (s *idleSweep) warnNotRecorded(partitions int, err error) {
	if s.l.ctx.Err() == nil {
		s.l.log.Warn("could not record which partitions are idle; dedupe windows are kept longer until that works; trying again", "partitions", partitions, "error", err)
	}
}
