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
type parkedLanes map[laneKey]parkedLane

// laneKey is a digest of a lane's entity.
type laneKey [2]uint64

var laneSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func laneKeyOf(entity schemas.EntityKey) laneKey {
	return laneKey{maphash.String(laneSeeds[0], string(entity)), maphash.String(laneSeeds[1], string(entity))}
}

// leave leaves an action in the ledger that comes behind the lane.
func (at *parkedLane) leave(a *ledger.Action, doubt bool) {
	at.last = a.LaneSeq
	if doubt {
		at.doubtTo = a.LaneSeq
	}
}
