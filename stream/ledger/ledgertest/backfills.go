package ledgertest

import (
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// backfill is a backfill request, and whether it has ended.
type backfill struct {
	ledger.Backfill
	requested time.Time
	ended     bool
}

// addBackfill adds a request for what is missing on a line. It replaces one that is open.
func (p *Process) addBackfill(w *partitionBatch, q gate.Request) {
	m := p.m
	for _, b := range m.backfills {
		if b.Claim == w.f.id && b.VersionLine == q.VersionLine {
			b.ended = true
		}
	}
	for _, v := range w.f.waits {
		if v.held || v.Decision != gate.Buffered || v.line() != q.VersionLine {
			continue
		}
		m.backfills = append(m.backfills, &backfill{requested: m.now(), Backfill: ledger.Backfill{ID: int64(len(m.backfills) + 1), Claim: w.f.id,
			Source: v.source, VersionLine: q.VersionLine, Kind: q.Before.Kind, Epoch: q.Before.Epoch, From: q.From, To: q.To, Reason: q.Reason}})
		return
	}
}

// Backfills is [ledger.Namespace.Backfills].
func (p *Process) Backfills(ctx context.Context, claims []*ledger.Claim, after int64, limit int) (list []ledger.Backfill, err error) {
	ids := idsOf(claims)
	err = p.read(ctx, "backfills", func() error {
		for _, b := range p.m.backfills {
			if !b.ended && b.ID > after && slices.Contains(ids, b.Claim) && len(list) < limit {
				one := b.Backfill
				one.Left = p.spec.Policy.BackfillWait - p.m.now().Sub(b.requested)
				list = append(list, one)
			}
		}
		return nil
	})
	if err != nil {
		return nil, unavailable("read the backfills of "+p.spec.Name, err)
	}
	return list, nil
}

// EndBackfill is [ledger.Namespace.EndBackfill]: after a failure, what waited for it is due now.
func (p *Process) EndBackfill(ctx context.Context, c *ledger.Claim, id int64, end ledger.BackfillEnd) (fenced bool, err error) {
	err = p.untilDone(ctx, "backfill", shared, []int32{c.ID}, maxTries, func() error {
		f := p.m.fenceOf(c)
		if fenced = f == nil; fenced || id < 1 || int(id) > len(p.m.backfills) {
			return nil
		}
		b := p.m.backfills[id-1]
		if b.ended || b.Claim != c.ID {
			return nil
		}
		b.ended = true
		if end.Failure == "" {
			return nil
		}
		now := p.m.now()
		for _, v := range f.waits {
			if !v.held && v.Decision == gate.Buffered && v.Stage == gate.Backfilling && v.line() == b.VersionLine && v.deadline.After(now) {
				v.deadline = now
			}
		}
		return nil
	})
	if err != nil {
		return false, unavailable("end a backfill of "+p.spec.Name, err)
	}
	return fenced, nil
}
