package lane

import (
	"hash/maphash"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A lane stands at a head that is dead or unknown until a person, or the destination, says what becomes of it. Lanes may stand for
// weeks, and one per entity where an agent refuses everything: all that is kept of one is where it stands and how far it goes.

// stand is a lane that stands.
type stand struct {
	head int64 // its lane_seq
	last int64 // the last action that was left in the ledger behind it; head: none
	// doubtTo is as in [lane]: a head that was run again may have been put in front of another.
	doubtTo int64
}

// stands are the lanes of a part that stand, by a digest of their entity.
type stands map[[2]uint64]stand

var standSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func standKey(entity schemas.EntityKey) [2]uint64 {
	return [2]uint64{maphash.String(standSeeds[0], string(entity)), maphash.String(standSeeds[1], string(entity))}
}

// at gives where an entity's lane stands, if it does.
func (s stands) at(entity schemas.EntityKey) (stand, bool) {
	if len(s) == 0 {
		return stand{}, false
	}
	at, ok := s[standKey(entity)]
	return at, ok
}

// behind takes an action, in doubt or not, that is left in the ledger behind one at which its lane stands.
func (s stands) behind(a *ledger.Action, doubt bool) bool {
	at, ok := s.at(a.Entity)
	if ok {
		at.last = a.LaneSeq
		if doubt {
			at.doubtTo = a.LaneSeq
		}
		s[standKey(a.Entity)] = at
	}
	return ok
}

// stand stops a lane at its head. Nothing of it stays in memory but that.
func (l *Lanes) stand(la *lane) {
	p, at := la.part, stand{head: la.head.LaneSeq, last: max(la.tail, la.skippedTo), doubtTo: la.doubtTo}
	for la.head != nil {
		l.pop(la)
	}
	la.state = retired
	delete(p.needsRefill, la)
	delete(p.lanes, la.entity)
	p.stands[standKey(la.entity)] = at
	signal(l.toLoad)
}

// lane gives the lane of an entity; where there is none, it begins at laneSeq, or at the head at which it stands.
func (p *part) lane(entity schemas.EntityKey, laneSeq int64) *lane {
	la := p.lanes[entity]
	if la != nil {
		return la
	}
	la = &lane{part: p, entity: entity, tail: laneSeq}
	if at, ok := p.stands.at(entity); ok {
		la.tail, la.skippedTo, la.doubtTo = at.head-1, at.last, at.doubtTo
		delete(p.stands, standKey(entity))
	}
	p.lanes[entity] = la
	return la
}
