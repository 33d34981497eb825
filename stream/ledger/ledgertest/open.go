package ledgertest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// NextDeadline is [ledger.Namespace.NextDeadline].
func (p *Process) NextDeadline(ctx context.Context, claims []*ledger.Claim) (map[int32]time.Duration, error) {
	out := map[int32]time.Duration{}
	err := p.read(ctx, "deadline", func() error {
		now := p.m.now()
		for _, c := range claims {
			first := p.m.firstDeadline(c)
			if first.IsZero() {
				continue
			}
			out[c.ID] = first.Sub(now)
			if mine := p.m.claims[c]; mine != nil {
				mine.overdueAt = now
			}
		}
		return nil
	})
	if err != nil {
		return nil, unavailable("read the deadlines of "+p.spec.Name, err)
	}
	return out, nil
}

// firstDeadline returns the first deadline of a claim's waits, zero if there is none.
func (m *Memory) firstDeadline(c *ledger.Claim) (first time.Time) {
	if c.ID < 1 || int(c.ID) > len(m.fences) {
		return first
	}
	for _, w := range m.fences[c.ID-1].waits {
		if !w.deadline.IsZero() && (first.IsZero() || w.deadline.Before(first)) {
			first = w.deadline
		}
	}
	return first
}

// Open is [ledger.Namespace.Open].
func (p *Process) Open(ctx context.Context, c *ledger.Claim, after int64, limit int) (actions []ledger.Action, more bool, err error) {
	op := "read the open actions of " + p.spec.Name
	if limit < 1 {
		return nil, false, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	err = p.read(ctx, "open", func() error {
		actions, more = p.open(c, after, limit)
		return nil
	})
	if err != nil {
		return nil, false, unavailable(op, err)
	}
	return actions, more, nil
}

// open merges what has a row and what has none, as far as the claim knows.
func (p *Process) open(c *ledger.Claim, after int64, limit int) ([]ledger.Action, bool) {
	mine := p.m.claims[c]
	if mine == nil {
		return nil, false
	}
	f := p.m.fences[c.ID-1]
	var lanes []int64
	withRow := map[int64]bool{}
	for _, lane := range slices.Sorted(maps.Keys(f.actions)) {
		a := f.actions[lane]
		switch {
		case lane <= after:
		case a.withRow && a.open() && a.parks() && !mine.ended[lane]:
			withRow[lane] = true
			lanes = append(lanes, lane)
		case mine.plain(lane):
			lanes = append(lanes, lane)
		}
		if len(lanes) > limit {
			break
		}
	}
	var out []ledger.Action
	copied := 0
	for n, lane := range lanes[:min(len(lanes), limit)] {
		a := p.show(c, mine, f.actions[lane], withRow[lane])
		if withRow[lane] {
			copied += len(f.actions[lane].packed)
			if n > 0 && copied > maxCopies {
				a.Packed = nil
			}
		}
		out = append(out, a)
	}
	return out, len(lanes) > limit
}

// plain says that a claim knows of an action neither a row nor an end.
func (c *claim) plain(lane int64) bool { return lane < c.laneSeq && !c.recorded[lane] }

// show is an action as lanes read it.
func (p *Process) show(c *ledger.Claim, mine *claim, a *action, withRow bool) ledger.Action {
	e := a.event
	out := ledger.Action{
		Claim: c.ID, LaneSeq: a.laneSeq, Name: a.effect.Name, Destination: a.effect.Destination, OnDead: a.effect.OnDead,
		ID:     schemas.NewActionID(p.spec.Name, p.spec.Generation, e.Source, e.ID, a.effect.Name),
		Entity: e.Entity, Version: e.version, Late: e.decision == gate.Late, Payload: e.payload, Reason: e.reason,
		Source: e.Source, EventID: e.ID, EventType: e.Type, Record: -1, Status: ledger.Pending, Since: p.m.ago(a.made),
		Pointer: ledger.Pointer{TopicID: mine.topicOf(c.Partition, a.laneSeq), Topic: c.Partition.Topic, Partition: c.Partition.Number,
			Offset: e.Offset, LeaderEpoch: e.LeaderEpoch, Key: e.Key, Hash: e.Hash},
	}
	if !withRow {
		return out
	}
	m := p.m
	out.Status, out.Attempts, out.AttemptEpoch, out.Spent, out.HasCopy, out.Packed = a.status, a.attempts, a.epoch, a.spent, len(a.packed) > 0, slices.Clone(a.packed)
	if !a.first.IsZero() {
		out.FirstAt = m.ago(a.first)
	}
	if !a.doubtEnd.IsZero() {
		out.DoubtEnd = m.ago(a.doubtEnd)
	}
	out.NextIn, out.Left, out.Silence = m.left(a.next), m.left(a.resultBy), a.silence
	out.CancelURL, out.Newer = a.cancelURL, a.newer
	if a.silence > 0 && !a.beat.IsZero() {
		out.SilenceLeft = m.left(a.beat.Add(a.silence))
	}
	if !a.replayed.IsZero() {
		out.Replay = &ledger.ReplayRequest{At: m.ago(a.replayed), Force: a.forced, Twice: a.twice, Tried: slices.ContainsFunc(a.attemptRows, func(t attemptRow) bool { return t.anew })}
		out.Since = out.Replay.At
	}
	return out
}

// left is how long it is until at; 0 where that is over, or never.
func (m *Memory) left(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, at.Sub(m.now()))
}

// WithoutCopy is [ledger.Namespace.WithoutCopy].
func (p *Process) WithoutCopy(ctx context.Context, c *ledger.Claim, after, before int64, limit int) (page ledger.WithoutCopyPage, err error) {
	op := "read the actions without a payload copy of " + p.spec.Name
	if limit < 1 {
		return page, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	err = p.read(ctx, "withoutcopy", func() error {
		page = p.withoutCopy(c, after, before, limit)
		return nil
	})
	if err != nil {
		return ledger.WithoutCopyPage{}, unavailable(op, err)
	}
	return page, nil
}

func (p *Process) withoutCopy(c *ledger.Claim, after, before int64, limit int) (page ledger.WithoutCopyPage) {
	mine := p.m.claims[c]
	if mine == nil {
		return page
	}
	type look struct {
		lane int64
		bare bool
	}
	f := p.m.fences[c.ID-1]
	var looks []look // a claim that is fenced may meet an action twice: as it knew it, and by the row that another has given it
	for _, lane := range slices.Sorted(maps.Keys(f.actions)) {
		a := f.actions[lane]
		if lane > after && a.withRow && a.open() {
			looks = append(looks, look{lane, a.packed == nil && a.class != "payload_lost"})
		}
		if lane > after && mine.plain(lane) {
			looks = append(looks, look{lane, true})
		}
	}
	if page.More = len(looks) > limit; page.More {
		looks = looks[:limit]
	}
	for _, l := range looks {
		a := f.actions[l.lane]
		page.Upto = l.lane
		switch {
		case !l.bare:
		case a.event.Offset >= before:
			if page.Left == 0 {
				page.Left, page.LeftOffset = l.lane, a.event.Offset
			}
			page.LeftOffset = min(page.LeftOffset, a.event.Offset)
		default:
			page.Actions = append(page.Actions, ledger.WithoutCopy{LaneSeq: l.lane, Pointer: p.show(c, mine, a, false).Pointer})
		}
	}
	return page
}
