package lane

import (
	"hash/maphash"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// An owner that did not release its fence may have made attempts that it did not record. Only heads run, so at most one action
// of each entity is in doubt: its first open one below the claim's DoubtTo, if the ledger has no attempt of it. The next recorded
// attempt ends the doubt, and the action's row keeps that there may have been an earlier one (ledger.Action.DoubtEnd). A claim
// that is released hands its DoubtTo to the next claim, unless nothing is in doubt any more.

var doubtSeed = maphash.MakeSeed()

// doubts is a partition's state of doubt, apart from its lanes' doubtTo.
type doubts struct {
	to int64     // DoubtTo of the claim
	at time.Time // DoubtAt of the claim
	// seen are digests of the entities whose first open action was loaded; nil once all actions below to were.
	seen map[uint64]struct{}
}

func doubtsOf(c *ledger.Claim) doubts {
	d := doubts{to: c.DoubtTo, at: c.DoubtAt}
	if d.to > 0 {
		d.seen = map[uint64]struct{}{}
	}
	return d
}

// noteLoaded notes an action that is loaded for the first time, and reports whether it is in doubt. That is the first open action
// of its entity. Replayed actions do not count as the first: they came back in front of a head that may have been running.
func (d *doubts) noteLoaded(a *ledger.Action) bool {
	if d.seen == nil || a.LaneSeq >= d.to {
		return false
	}
	entity := maphash.String(doubtSeed, string(a.Entity))
	if _, known := d.seen[entity]; known {
		return false
	}
	if a.Replay == nil {
		d.seen[entity] = struct{}{}
	}
	return a.Attempts == 0 && (a.Status == ledger.Pending || a.Status == ledger.Failed || a.Status.Waits())
}

// noteLoadedTo notes that all open actions up to loadedTo were loaded once; all says that there are no others.
func (d *doubts) noteLoadedTo(loadedTo int64, all bool) {
	if all || loadedTo >= d.to-1 {
		d.seen = nil
	}
}

// endDoubt ends the doubt about a lane's head e: the ledger has a result of it now.
func (la *lane) endDoubt(e *entry) {
	if e.LaneSeq >= la.doubtTo {
		la.doubtTo = 0
	}
}

// withoutDoubt reports whether no action of the claim is in doubt any more.
func (p *partition) withoutDoubt() bool {
	if p.doubts.seen != nil {
		return false
	}
	for _, la := range p.lanes {
		if la.doubtTo > 0 {
			return false
		}
	}
	for _, at := range p.parked {
		if at.doubtTo > 0 {
			return false
		}
	}
	for _, at := range p.spilled {
		if at.doubtTo > 0 {
			return false
		}
	}
	return true
}
