package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/forebay-io/forebay/stream/gate"
)

// cutLog has the broker lose the end of a partition's log, of which some was read; an operator accepts that, and somebody claims
// the partition where the log ends now. It grows on with other records in the old places.
func (w *world) cutLog(part int32) {
	m := w.model.parts[part]
	if !m.claimed || m.next == 0 {
		return
	}
	at := m.next - 1 - w.rng.Int64N(min(m.next, 12))
	p := w.someone()
	w.log("the log of partition %d, read to %d, is cut at %d; process %d claims it", part, m.next, at, p.id)
	w.author.Cut(int(part), at)
	maps.DeleteFunc(w.witness.read, func(of place, _ Record) bool { return of.part == part && of.at >= at })
	ctx := w.t.Context()
	stop, err := p.f.n.Report(ctx, Stop{Partition: w.partition(part), Kind: pick(w.rng, "above_log_end", "truncated"), From: at, To: m.next,
		Resume: at, Records: m.next - at, Detail: "cut"}, m.epoch)
	if err == nil {
		_, err = p.f.l.Accept(ctx, StopFilter{Subscription: w.name, Partition: &part}, Acceptance{By: "ann", Reason: "lost for good"}, false)
	}
	if err != nil {
		w.fatalf("report and accept a cut: %v", err)
	}
	seek := &Seek{From: m.next, To: at}
	var stored *Position
	c, err := p.f.n.Claim(ctx, ClaimRequest{Partition: w.partition(part), Partitions: partitions, Confirm: func(_ context.Context, s *Position) (Start, error) {
		stored = s
		return Start{Position: Position{Offset: at, LeaderEpoch: -1}, Seek: seek, Accepted: stop.ID}, nil
	}})
	if err != nil {
		w.fatalf("claim of a log that was cut: %v", err)
	}
	after := w.model.clone()
	after.claim(part, seek)
	w.came("cut under what waits", after.moveOutOfLog(part, at))
	w.claimed(part, p, c, stored, after)
}

// moveOutOfLog gives what waits and what is rejected from an offset on places outside of the log, and says whether anything waited.
func (m *modelLedger) moveOutOfLog(part int32, cut int64) (any bool) {
	p := m.parts[part]
	out := func(offset int64) int64 {
		if offset < cut {
			return offset
		}
		return outOfLogFrom(p.epoch) + offset
	}
	waits, rejected := map[int64]*modelWait{}, map[int64]modelRejected{}
	for offset, w := range p.waits {
		if e := m.events[w.Key]; e != nil && e.part == part && e.Offset == offset {
			e.Offset = out(offset)
		}
		w.Offset = out(offset)
		waits[w.Offset] = w
		any = any || w.Offset != offset
	}
	for offset, a := range p.rejected {
		if a.decision != gate.Filtered {
			offset = out(offset)
		}
		rejected[offset] = a
	}
	for id, c := range p.commands {
		c.offset = out(c.offset)
		p.commands[id] = c
	}
	p.waits, p.rejected = waits, rejected
	for _, waiting := range p.state.Waiting {
		for i := range waiting {
			waiting[i].Offset = out(waiting[i].Offset)
		}
		slices.SortFunc(waiting, func(a, b gate.Waiting) int {
			return cmp.Or(a.Version.Compare(b.Version), cmp.Compare(a.Offset, b.Offset))
		})
	}
	return any
}
