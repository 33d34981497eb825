package lane

import (
	"hash/maphash"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A lane is parked at a head that is dead or unknown until an operator, or the destination, says what becomes of it. Lanes may
// be parked for weeks, and one per entity where an agent refuses everything: all that is kept of one is where it is parked and
// how far it goes.

// parkedLane is a lane that is parked.
type parkedLane struct {
	head int64 // its lane_seq
	last int64 // the last action that was left in the ledger behind it; head: none
	// doubtTo is as in [lane]: a head that was run again may have been put in front of another.
	doubtTo int64
}

// parkedLanes are the lanes of a partition that are parked, by a digest of their entity.
type parkedLanes map[[2]uint64]parkedLane

var parkedSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func parkedKey(entity schemas.EntityKey) [2]uint64 {
	return [2]uint64{maphash.String(parkedSeeds[0], string(entity)), maphash.String(parkedSeeds[1], string(entity))}
}

// at gives where an entity's lane is parked, if it is.
func (m parkedLanes) at(entity schemas.EntityKey) (parkedLane, bool) {
	if len(m) == 0 {
		return parkedLane{}, false
	}
	at, ok := m[parkedKey(entity)]
	return at, ok
}

// leave notes that an action, in doubt or not, is left in the ledger where its lane is parked.
func (m parkedLanes) leave(a *ledger.Action, doubt bool) (parked bool) {
	at, ok := m.at(a.Entity)
	if ok {
		at.last = a.LaneSeq
		if doubt {
			at.doubtTo = a.LaneSeq
		}
		m[parkedKey(a.Entity)] = at
	}
	return ok
}
