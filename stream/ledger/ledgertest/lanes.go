package ledgertest

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// open says that an action has not ended: it can still run or be run again.
func (a *action) open() bool {
	switch a.status {
	case ledger.Done, ledger.Superseded, ledger.Stale, ledger.Discarded:
		return false
	}
	return true
}

// parks says that an action, while it is open, keeps its lane from going on.
func (a *action) parks() bool {
	return a.status != ledger.Dead || a.effect.OnDead == ledger.Park && a.class != deadClass
}

// Overtaken is [ledger.Namespace.Overtaken].
func (p *Process) Overtaken(ctx context.Context, c *ledger.Claim, a ledger.Action) (overtaken bool, err error) {
	if a.Version.Kind == schemas.None {
		return false, nil
	}
	err = p.read(ctx, "overtaken", func() error {
		overtaken = false
		if c.ID >= 1 && int(c.ID) <= len(p.m.fences) {
			overtaken = p.m.fences[c.ID-1].overtaken(p.m.claims[c], c.DoubtTo, &a)
		}
		return nil
	})
	return overtaken, unavailable("look for newer actions of "+p.spec.Name, err)
}

// overtaken reports whether a newer version of the action may have been started.
func (f *fence) overtaken(c *claim, doubtTo int64, a *ledger.Action) bool {
	// The line of a topic that was there before is gone with it, or has begun again.
	line := f.lines[gate.VersionLineKey{Entity: a.Entity, Clock: a.Version.Clock}]
	newer := line != nil && line.At.Comparable(a.Version) && line.At.Compare(a.Version) > 0
	if !newer && (c == nil || a.LaneSeq >= c.lanesFrom) {
		return false
	}
	for lane, o := range f.actions {
		v := o.event.version
		if lane <= a.LaneSeq || o.event.Entity != a.Entity || v.Clock != a.Version.Clock || o.effect.Name != a.Name ||
			!v.Comparable(a.Version) || v.Compare(a.Version) <= 0 {
			continue
		}
		started := o.attempts > 0 || o.status == ledger.Done || o.status == ledger.Unknown
		// What was superseded without a row of its own looks as if it had not been tried.
		if started || lane < doubtTo && (o.status == ledger.Pending || o.completed) {
			return true
		}
	}
	return false
}

// EndStale is [ledger.Namespace.EndStale].
func (p *Process) EndStale(ctx context.Context, c *ledger.Claim, laneSeq int64) (fenced bool, err error) {
	err = p.untilDone(ctx, "endstale", shared, []int32{c.ID}, 0, func() error {
		f := p.m.fenceOf(c)
		if fenced = f == nil; fenced {
			return nil
		}
		if a := f.actions[laneSeq]; a != nil && a.withRow && a.status == ledger.Failed {
			a.status, a.finished, a.next, a.identified = ledger.Stale, p.m.now(), zero, true
			a.err = "a newer one of its entity had been started before it was to run again; a replay with --force runs it all the same"
			if a.exported >= a.deaths {
				a.packed = nil
			}
		}
		return nil
	})
	if err != nil {
		return false, &schemas.Error{Kind: kindOf(err), Op: "end a stale action of " + p.spec.Name, Err: err}
	}
	return fenced, nil
}
