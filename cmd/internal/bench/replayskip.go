package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/replay"
)

// fillStretch is after how many records without anything to run fill moves its position, as in stream/batch.
const fillStretch = 20_000

// skipRun reads all events of a gateRun with loops of one partition again, with a newly opened ledger, as another process does.
// It fails if one of them is not skipped.
type skipRun struct {
	gateRun
	ledger *ledger.Ledger
	ns     *ledger.Namespace
	loops  []*skipLoop
}

// skipLoop reads a partition again.
type skipLoop struct {
	run     *skipRun
	claim   *ledger.Claim
	events  *generator // makes the same events as the first time
	end     int64      // up to where they were decided
	records []ledger.Record
}

// rewound measures the skipping after the subscription's group was reset to the start: the gate decides all again, a batch a transaction.
func (g gateRun) rewound(ctx context.Context) (measured, error) {
	return g.skip(ctx, func(stored *ledger.Position) ledger.Start {
		return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}, Seek: &ledger.Seek{From: stored.Offset}}
	}, func(*skipRun) error { return nil }, (*skipLoop).decideAgain)
}

// filled measures the skipping by a replay of mode fill: it asks which events were decided before it has the gate decide the rest.
func (g gateRun) filled(ctx context.Context) (measured, error) {
	var plan *inbox.Replay
	return g.skip(ctx, goOn, func(s *skipRun) (err error) { plan, err = s.startFill(ctx); return err },
		func(l *skipLoop, ctx context.Context) error { return l.leaveOut(ctx, plan.ID) })
}

// skip claims the partitions from where start says, prepares, and measures do.
func (g gateRun) skip(ctx context.Context, start func(*ledger.Position) ledger.Start, prepare func(*skipRun) error, do func(*skipLoop, context.Context) error) (m measured, err error) {
	s := &skipRun{gateRun: g}
	if s.ledger, err = ledger.Open(ctx, ledger.Config{URL: schemas.NewSecret(g.url)}); err != nil {
		return m, err
	}
	defer s.ledger.Close()
	if err := errors.Join(s.claim(ctx, start), prepare(s)); err != nil {
		return m, err
	}
	m, err = g.meter.around(ctx, func() (events int64, err error) {
		for _, l := range s.loops {
			events += l.end
		}
		return events, sideBySide(s.loops, func(l *skipLoop) error { return do(l, ctx) })
	})
	if err != nil {
		return m, err
	}
	return m, sideBySide(s.loops, func(l *skipLoop) error { return s.ns.Release(ctx, l.claim) })
}

func (s *skipRun) claim(ctx context.Context, start func(*ledger.Position) ledger.Start) (err error) {
	if s.ns, err = s.ledger.Namespace(ctx, s.spec()); err != nil {
		return err
	}
	names := entityNames(s.entities)
	for i := range int32(s.gateRun.loops) {
		l := &skipLoop{run: s, events: newGenerator(i, names, s.seed)}
		l.events.continueAt(0, 1<<32) // as of a partition's first claim
		l.claim, err = s.ns.Claim(ctx, s.claimFrom(i, func(stored *ledger.Position) ledger.Start {
			l.end = stored.Offset
			return start(stored)
		}))
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
	}
	return nil
}

// startFill starts a replay of all partitions up to where the subscription stands.
func (s *skipRun) startFill(ctx context.Context) (p *inbox.Replay, err error) {
	p = &inbox.Replay{Subscription: s.name, Mode: ledger.ReplayFill, PlannedBy: "forebay-bench"}
	for _, l := range s.loops {
		p.Bounds = append(p.Bounds, inbox.ReplayBounds{Fence: l.claim.ID, Topic: l.claim.Partition.Topic, TopicID: inbox.TopicIDText(l.claim.Partition.TopicID),
			Partition: l.claim.Partition.Number, Partitions: int32(len(s.loops)), To: l.end, Counted: l.end})
	}
	box := inbox.New(s.ledger)
	if p.ID, err = box.SaveReplay(ctx, p); err == nil {
		err = box.CountReplay(ctx, p, p.Bounds, true)
	}
	if err == nil {
		err = box.StartReplay(ctx, p, "forebay-bench", "to measure it", replay.Skew)
	}
	return p, err
}

// take makes the records from an offset on, a batch of them at most.
func (l *skipLoop) take(from int64) []ledger.Record {
	now := time.Now()
	l.records = l.records[:0]
	for at := from; at < min(from+gateBatch, l.end); at++ {
		e := l.events.takenBefore(l.run.entities)
		r, _ := recordOf(e, now)
		l.records = append(l.records, r)
	}
	return l.records
}

// decideAgain has the gate decide the partition's records, all of which it must take for duplicates.
func (l *skipLoop) decideAgain(ctx context.Context) error {
	for l.claim.Next.Offset < l.end {
		from := l.claim.Next.Offset
		records := l.take(from)
		next := ledger.Position{Offset: from + int64(len(records)), LeaderEpoch: -1}
		applied, err := l.run.ns.Apply(ctx, []ledger.Slice{{Claim: l.claim, From: from, Records: records, Next: next}})
		if err != nil {
			return err
		}
		if a := applied[0]; a.Fenced || a.Refused != nil || len(a.Outcomes) != len(records) || len(a.Actions) > 0 {
			return fmt.Errorf("a batch that is read again was fenced or refused, or runs %d actions: %w", len(a.Actions), a.Refused)
		}
		for i, o := range applied[0].Outcomes {
			if o.Decision != gate.Duplicate {
				return fmt.Errorf("offset %d, which is read again, was decided %s", records[i].Offset, o.Decision)
			}
		}
	}
	return nil
}

// leaveOut does with the partition what a replay does in its owner: it asks for what was decided, which is all of it, and moves on.
func (l *skipLoop) leaveOut(ctx context.Context, id int64) error {
	for from, at := int64(0), int64(0); at < l.end; {
		records := l.take(at)
		known, err := l.run.ns.Known(ctx, l.claim.ID, records, false)
		if err != nil {
			return err
		}
		for i := range known {
			if !known[i].Done {
				return fmt.Errorf("offset %d was decided, and a replay would run it", records[i].Offset)
			}
		}
		at += int64(len(records))
		if at-from < fillStretch && at < l.end {
			continue
		}
		a, err := l.run.ns.ApplyReplay(ctx, l.claim, ledger.ReplaySlice{Replay: id, From: from, Next: at, Done: int(at - from)})
		if err != nil || a.Fenced || a.Refused != nil || a.ReplayEnded {
			return errors.Join(err, a.Refused, fmt.Errorf("the replay does not go on at offset %d", from))
		}
		from = at
	}
	return nil
}
