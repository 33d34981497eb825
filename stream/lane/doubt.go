package lane

import (
	"hash/maphash"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// An owner that did not release its fence may have made attempts that it did not record. Each was of the head of its lane: of
// each entity, the first open action below the claim's DoubtTo, if the ledger has no attempt of it. An attempt that is recorded
// ends that: its row says from then on that there may have been an earlier one (ledger.Action.DoubtEnd). A claim of which
// nothing is in doubt any more is given back without the doubt; else the next one has it, too.

var doubtSeed = maphash.MakeSeed()

// doubts is what a partition knows of them beyond its lanes.
type doubts struct {
	to int64     // of the claim
	at time.Time // of the claim
	// seen are the entities, as digests, whose first open action has been loaded; nil once all below to is.
	seen map[uint64]struct{}
}

func doubtsOf(c *ledger.Claim) doubts {
	d := doubts{to: c.DoubtTo, at: c.DoubtAt}
	if d.to > 0 {
		d.seen = map[uint64]struct{}{}
	}
	return d
}

// first takes an action that is loaded for the first time and reports whether it is in doubt: the first open one of its
// entity, and those before it that were made to run again, which came back in front of a head that may have been busy.
func (d *doubts) first(a *ledger.Action) bool {
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
	return a.Attempts == 0 && (a.Status == ledger.Pending || a.Status == ledger.Failed)
}

// loaded notes that all open actions up to loadedTo were loaded once, or all there are.
func (d *doubts) loaded(loadedTo int64, all bool) {
	if all || loadedTo >= d.to-1 {
		d.seen = nil
	}
}

// endDoubt ends the doubt about a lane's head of which the ledger has something now.
func (la *lane) endDoubt(e *entry) {
	if e.LaneSeq >= la.doubtTo {
		la.doubtTo = 0
	}
}

// withoutDoubt reports whether the ledger has something of all that was in doubt.
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
	return true
}
