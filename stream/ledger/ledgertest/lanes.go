package ledgertest

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// open says that an action has not ended: it can still run or be run again.
func (a *action) open() bool {
	return !a.status.Closed()
}

// parks says that an action, while it is open, keeps its lane from going on.
func (a *action) parks() bool {
	return a.status != ledger.Dead || a.guarded || a.effect.OnDead == ledger.Park && a.class != ledger.DeadClass
}

// Overtaken is [ledger.Namespace.Overtaken].
func (p *Process) Overtaken(ctx context.Context, c *ledger.Claim, a ledger.Action) (overtaken bool, err error) {
	if p.spec.InArrivalOrder(a) {
		return false, nil
	}
	err = p.read(ctx, "overtaken", func() error {
		overtaken = false
		if c.ID >= 1 && int(c.ID) <= len(p.m.fences) {
			overtaken = p.m.fences[c.ID-1].overtaken(p.m.claims[c], &a)
		}
		return nil
	})
	return overtaken, unavailable("look for newer versions of "+p.spec.Name, err)
}

// overtaken reports whether the line of the action, or without one what came later, has a newer version.
func (f *fence) overtaken(c *claim, a *ledger.Action) bool {
	newer := func(v schemas.Version) bool { return v.Comparable(a.Version) && v.Compare(a.Version) > 0 }
	line := f.lines[gate.VersionLineKey{Entity: a.Entity, Clock: a.Version.Clock}]
	if line != nil && (newer(line.At) || c != nil && a.LaneSeq >= c.lanesFrom) {
		return newer(line.At)
	}
	for lane, o := range f.actions {
		if v := o.event.version; lane > a.LaneSeq && o.event.Entity == a.Entity && v.Clock == a.Version.Clock && newer(v) {
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
		if a := f.actions[laneSeq]; a != nil && a.withRow && (a.status == ledger.Failed || a.status.Waits()) {
			a.status, a.finished, a.next, a.identified = ledger.Stale, p.m.now(), zero, true
			a.err = "its entity had a newer version before it was to run again; a replay with --force runs it all the same"
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
