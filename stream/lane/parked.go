package lane

import (
	"hash/maphash"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A lane is parked at a head that is dead or unknown until an operator, or a report of the destination, says what becomes of it.
// Lanes may be parked for weeks, and an agent that refuses everything parks one per entity. So memory keeps only where each is
// parked and how far it goes.

// parkedLane is a lane that is parked.
type parkedLane struct {
	head int64 // lane_seq of the head
	last int64 // lane_seq of the last action of the lane, which is the head itself if nothing stands behind it
	// doubtTo is that of the [lane]. A replayed head may stand in front of an action that is in doubt.
	doubtTo int64
}

// parkedLanes are the lanes of a partition that are parked, by a digest of their entity.
type parkedLanes map[[2]uint64]parkedLane

var parkedSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func parkedKey(entity schemas.EntityKey) [2]uint64 {
	return [2]uint64{maphash.String(parkedSeeds[0], string(entity)), maphash.String(parkedSeeds[1], string(entity))}
}

// at returns where an entity's lane is parked; ok is false if it is not.
func (m parkedLanes) at(entity schemas.EntityKey) (at parkedLane, ok bool) {
	if len(m) == 0 {
		return parkedLane{}, false
	}
	at, ok = m[parkedKey(entity)]
	return at, ok
}

// leave leaves an action in the ledger if its lane is parked, and reports whether it is.
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
