package lane

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// partition has the lanes of one claim and the window of their actions that are loaded. Callers hold mu.
type partition struct {
	cfg   *Config
	claim *ledger.Claim
	lanes map[schemas.EntityKey]*lane

	parked  parkedLanes
	latest  *latest // nil: backlog: all
	doubts  doubts
	reports reports

	open        int                         // loaded actions
	loadedTo    int64                       // everything up to here was loaded, or skipped for its lane
	more        bool                        // the ledger has, or may have, open actions beyond loadedTo
	adds        uint64                      // grows with each Add that was left to the ledger
	needsRefill map[*lane]struct{}          // lanes that left actions in the ledger and have room again
	rerun       map[int64]schemas.EntityKey // actions to run again beyond loadedTo: a page that is being read may not show them

	uncleanSince time.Time // when the claim was opened, where it is unclean; else zero
	ctx          context.Context
	cancel       context.CancelCauseFunc
	busy         int           // heads running or recording, and commands
	writing      int           // transactions under way that do not come from the recorder
	closing      bool          // nothing starts any more
	forgotten    bool          // nothing is written any more
	drained      chan struct{} // made by Close, closed when busy is 0
}

func newPartition(cfg *Config, c *ledger.Claim) *partition {
	p := &partition{
		cfg: cfg, claim: c, lanes: map[schemas.EntityKey]*lane{}, parked: parkedLanes{}, doubts: doubtsOf(c),
		needsRefill: map[*lane]struct{}{}, more: true,
	}
	if c.Unclean {
		p.uncleanSince = time.Now()
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// ended reports whether the claim is being given up, or is.
func (p *partition) ended() bool { return p.closing || p.forgotten }

// begin counts something that Close waits for, end counts its end.
func (p *partition) begin() { p.busy++ }

func (p *partition) end() {
	p.busy--
	if p.busy == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
}

// lane gives the lane of an entity. Where there is none, it begins at laneSeq, or at the head at which it is parked.
func (p *partition) lane(entity schemas.EntityKey, laneSeq int64) *lane {
	la := p.lanes[entity]
	if la != nil {
		return la
	}
	la = &lane{partition: p, entity: entity, tail: laneSeq}
	if at, ok := p.parked.at(entity); ok {
		la.tail, la.skippedTo, la.doubtTo = at.head-1, at.last, at.doubtTo
		delete(p.parked, parkedKey(entity))
	}
	p.lanes[entity] = la
	return la
}

// has reports whether an entity's lane has an action in memory, is parked at it, or has still to load it.
func (p *partition) has(entity schemas.EntityKey, laneSeq int64) bool {
	la := p.lanes[entity]
	if la == nil {
		at, ok := p.parked.at(entity)
		return ok && laneSeq >= at.head
	}
	for e := la.head; e != nil; e = e.next {
		if e.LaneSeq == laneSeq {
			return true
		}
	}
	return laneSeq >= la.tail
}

// roomForPage is how many actions the next page may bring; 0 as long as the window is nearly full, so that pages are worth
// their read.
func (p *partition) roomForPage() int {
	room := p.cfg.MaxOpen - p.open
	if !p.more || p.ended() || room < max(1, p.cfg.MaxOpen/4) {
		return 0
	}
	return min(room, pageSize)
}

// roomToRefill reports whether lanes are reloaded that left all they had. That may exceed the window: else what was left in the
// ledger later would come before them.
func (p *partition) roomToRefill() bool { return p.open < p.cfg.MaxOpen+max(1, p.cfg.MaxOpen/4) }

// underPressure reports whether the window keeps something out of memory.
func (p *partition) underPressure() bool {
	return !p.ended() && (p.more && p.roomForPage() == 0 || len(p.needsRefill) > 0 && !p.roomToRefill())
}

// worthReading reports whether a read would bring something.
func (p *partition) worthReading() bool {
	return !p.ended() && (p.roomForPage() > 0 || len(p.needsRefill) > 0 && p.roomToRefill() || p.latest.unread())
}

// stillInFlight is how long a call of the owner before may still be in flight at a destination with such a timeout.
func (p *partition) stillInFlight(timeout time.Duration) time.Duration {
	if p.uncleanSince.IsZero() {
		return 0
	}
	return max(0, time.Until(p.uncleanSince.Add(timeout)))
}
