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
	lanes map[laneKey]*lane // that have something in memory, or are being read

	parked  parkedLanes
	spilled spilledLanes
	latest  *latest // nil: backlog: all
	doubts  doubts
	reports reports
	audit   audit

	open        int                         // loaded actions
	loadedTo    int64                       // every action up to this one was loaded, or its lane left it in the ledger
	more        bool                        // the ledger has, or may have, open actions beyond loadedTo
	left        uint64                      // how often actions beyond loadedTo were left to a page that is read later
	needsRefill map[*lane]struct{}          // lanes that left actions in the ledger and have room again
	due         []laneKey                   // spilled lanes that are to be refilled once needsRefill has room for them
	rerun       map[int64]schemas.EntityKey // actions beyond loadedTo that a command has changed: the page that is being read may show them as they were

	opened       time.Time
	uncleanSince time.Time // since when no owner before begins a call, where the claim is unclean (see Lanes.waits); else zero
	ctx          context.Context
	cancel       context.CancelCauseFunc
	busy         int           // heads running or recording, and commands
	givenUp      int           // results that the ledger refused while Close waited
	writing      int           // transactions under way that do not come from the recorder
	closing      bool          // nothing starts any more
	dropped      bool          // nothing is written any more
	drained      chan struct{} // made by Close, closed when busy is 0
}

// newPartition makes the state of a claim's lanes, with nothing loaded yet.
func newPartition(cfg *Config, c *ledger.Claim) *partition {
	p := &partition{
		cfg: cfg, claim: c, lanes: map[laneKey]*lane{}, parked: parkedLanes{}, spilled: spilledLanes{}, doubts: doubtsOf(c),
		needsRefill: map[*lane]struct{}{}, more: true, opened: time.Now(),
	}
	if c.Unclean {
		p.uncleanSince = p.opened
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// ending reports whether the claim is being given up or was dropped.
func (p *partition) ending() bool { return p.closing || p.dropped }

// beginBusy counts a head or a command that Close waits for. endBusy counts its end.
func (p *partition) beginBusy() { p.busy++ }

func (p *partition) endBusy() {
	p.busy--
	if p.busy == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
}

// lane returns the lane of an entity. If there is none in memory, it makes one and takes its actions up to laneSeq for loaded; if the lane is
// parked or spilled, those before its head.
func (p *partition) lane(entity schemas.EntityKey, laneSeq int64) *lane {
	key := laneKeyOf(entity)
	if la := p.lanes[key]; la != nil {
		return la
	}
	la := &lane{partition: p, key: key, tail: laneSeq}
	if at, ok := p.outside(key); ok {
		la.tail, la.skippedTo, la.doubtTo = at.head-1, at.last, at.doubtTo
		delete(p.parked, key)
		delete(p.spilled, key)
	}
	p.lanes[key] = la
	return la
}

// unspill takes a spilled lane back, which is then to be read.
func (p *partition) unspill(key laneKey) *lane {
	at := p.spilled[key]
	delete(p.spilled, key)
	if len(p.spilled) == 0 {
		p.spilled = spilledLanes{} // a map keeps the room that it once had
	}
	la := &lane{partition: p, key: key, tail: at.head - 1, skippedTo: at.last, doubtTo: at.doubtTo, was: at}
	p.lanes[key] = la
	return la
}

// outside returns where a lane stands that is parked or spilled; ok is false if it is neither.
func (p *partition) outside(key laneKey) (at parkedLane, ok bool) {
	if at, ok = p.parked[key]; ok {
		return at, ok
	}
	x, ok := p.spilled[key]
	return x.parkedLane, ok
}

// leaveOutside leaves an action in the ledger if its lane is parked or spilled, and reports whether it is.
func (p *partition) leaveOutside(key laneKey, a *ledger.Action, doubt bool) bool {
	if at, ok := p.parked[key]; ok {
		at.leave(a, doubt)
		p.parked[key] = at
		return true
	}
	at, ok := p.spilled[key]
	if ok {
		at.leave(a, doubt)
		p.spilled[key] = at
	}
	return ok
}

// leave leaves open actions beyond loadedTo to the next page. A page that is being read may not have them.
func (p *partition) leave() {
	p.more = true
	p.left++
}

// mayHave reports whether an entity's lane has an action in memory, is parked or spilled at or before it, or has still to load it, or whether a page
// that is being read may have it.
func (p *partition) mayHave(entity schemas.EntityKey, laneSeq int64) bool {
	if laneSeq > p.loadedTo {
		return p.more
	}
	key := laneKeyOf(entity)
	la := p.lanes[key]
	if la == nil {
		at, ok := p.outside(key)
		return ok && laneSeq >= at.head
	}
	for e := la.head; e != nil; e = e.next {
		if e.LaneSeq == laneSeq {
			return true
		}
	}
	return laneSeq >= la.tail
}

// roomForPage returns how many actions the next page may bring. It is 0 while less than a quarter of the window is free, so that
// no read brings only a few.
func (p *partition) roomForPage() int {
	room := p.cfg.MaxOpen - p.open
	if !p.more || p.ending() || room < max(1, p.cfg.MaxOpen/4) {
		return 0
	}
	return min(room, pageSize)
}

// roomToRefill reports whether lanes may be refilled. A refill may exceed the window by a quarter: otherwise pages, which bring
// later actions, would fill the window first.
func (p *partition) roomToRefill() bool { return p.open < p.cfg.MaxOpen+max(1, p.cfg.MaxOpen/4) }

// wantsRefill reports whether a refill has lanes to read.
func (p *partition) wantsRefill() bool { return len(p.needsRefill) > 0 || len(p.due) > 0 }

// underPressure reports whether actions stay in the ledger because the window is full.
func (p *partition) underPressure() bool {
	return !p.ending() && (p.more && p.roomForPage() == 0 || p.wantsRefill() && !p.roomToRefill())
}

// worthReading reports whether a read would bring something.
func (p *partition) worthReading() bool {
	return !p.ending() && (p.roomForPage() > 0 || p.wantsRefill() && p.roomToRefill() || p.latest.unread())
}

// stillInFlight returns how much longer a call of the previous owner may be in flight, or act, at a destination with this timeout and time to settle.
func (p *partition) stillInFlight(timeout time.Duration) time.Duration {
	if p.uncleanSince.IsZero() {
		return 0
	}
	return max(0, time.Until(p.uncleanSince.Add(timeout)))
}
