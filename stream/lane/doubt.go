package lane

import (
	"hash/maphash"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// What an owner that did not release its fence has attempted and not recorded was the head of its lane: of each entity, the
// first open action below the claim's DoubtTo, if the ledger has no attempt of it. Any attempt that is recorded ends that: its
// row says from then on that there may have been an earlier one (ledger.Action.DoubtEnd). A claim that knows of all of them is
// given back without the doubt; else the next one has it, too.

var doubtSeed = maphash.MakeSeed()

// doubts is what a part knows of them beyond its lanes.
type doubts struct {
	to int64     // of the claim
	at time.Time // of the claim
	// met are the entities, as digests, whose first open action the cursor has passed; nil once it has passed all below to.
	met map[uint64]struct{}
}

func doubtsOf(c *ledger.Claim) doubts {
	d := doubts{to: c.DoubtTo, at: c.DoubtAt}
	if d.to > 0 {
		d.met = map[uint64]struct{}{}
	}
	return d
}

// meet takes an action as the cursor comes by and reports whether it is in doubt: the first open one of its entity and those
// before it that were made to run again, which came back in front of a head that may have been busy.
func (d *doubts) meet(a *ledger.Action) bool {
	if d.met == nil || a.LaneSeq >= d.to {
		return false
	}
	entity := maphash.String(doubtSeed, string(a.Entity))
	if _, known := d.met[entity]; known {
		return false
	}
	if a.Redrive == nil {
		d.met[entity] = struct{}{}
	}
	return a.Attempts == 0 && (a.Status == ledger.Pending || a.Status == ledger.Failed)
}

// passed notes that the cursor has seen all open actions up to loadedTo, or all there are.
func (d *doubts) passed(loadedTo int64, all bool) {
	if all || loadedTo >= d.to-1 {
		d.met = nil
	}
}

// doubtEnd is when the last attempt was over that may have been made of an action read from the ledger before those that are
// recorded; zero: there was none.
func (l *Lanes) doubtEnd(la *lane, a *ledger.Action) time.Time {
	if a.Attempts == 0 && a.LaneSeq <= la.doubtTo {
		return la.part.doubts.at.Add(l.dispatch.find(a.Destination).Timeout)
	}
	return a.DoubtEnd
}

// told ends the doubt about a lane's head of which the ledger has something now.
func (la *lane) told(e *entry) {
	if e.LaneSeq >= la.doubtTo {
		la.doubtTo = 0
	}
}

// undoubted reports whether the ledger has something of all that was in doubt.
func (p *part) undoubted() bool {
	if p.doubts.met != nil {
		return false
	}
	for _, la := range p.lanes {
		if la.doubtTo > 0 {
			return false
		}
	}
	for _, at := range p.stands {
		if at.doubtTo > 0 {
			return false
		}
	}
	return true
}
