package lane

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// entry is one loaded action. It is in exactly one lane.
type entry struct {
	ledger.Action
	lane *lane
	next *entry // behind it in the lane

	event     *schemas.Event // nil: to be loaded
	size      int            // payload bytes; 0 as long as they are not known
	copied    bool           // the ledger holds a payload copy
	limited   bool           // the destination's rate is used up: no attempt
	called    bool           // the destination was, or is about to be, since it has its slot
	class     sink.Class     // of the last attempt that was seen to end
	inARow    int            // how many ended with it
	notBefore time.Time      // no attempt earlier; zero: at once
	loads     int            // loads of the payload that did not work, since the last that did
	charge    charge         // payload bytes held on its account
	long      long
	trace     [16]byte // the event's trace id, once its payload is at hand
}

// state is where a lane is on its way around.
type state uint8

const (
	idle       state = iota // no head in memory
	ready                   // the head waits for a worker
	running                 // an attempt of the head is under way
	recording               // its result waits for the ledger
	waiting                 // the head waits for its time
	processing              // the destination has accepted the head and reports its result later
	spilled                 // all of it is in the ledger until the head's time comes
	retired                 // no longer the entity's lane: it is read anew under another, or stands
)

// lane is the queue of one entity's actions.
type lane struct {
	part       *part
	entity     schemas.EntityKey
	head, last *entry
	nextReady  *lane // behind it among a destination's ready lanes
	n          int   // loaded
	state      state
	tail       int64 // see the package comment
	skippedTo  int64
	first      int64  // its head, which is read back before the rest; 0: not known, or at hand
	out        *entry // the head, while away: it takes no place in the window
	again      int64  // read it anew from this action on, as soon as its head is neither running nor recording; 0: no
	doubtTo    int64  // up to this action, what has no attempt is in doubt; 0: nothing is
}

// overflow reports whether the lane left actions in the ledger.
func (la *lane) overflow() bool { return la.skippedTo > la.tail }

// part is the lanes of one claim.
type part struct {
	claim  *ledger.Claim
	lanes  map[schemas.EntityKey]*lane
	stands stands
	open   int // loaded entries
	// reports are what destinations said later and what is not applied yet, by lane_seq, as last read: of an attempt one.
	reports     map[int64][]ledger.OpenReport
	loadedTo    int64
	more        bool   // the ledger has, or may have, open actions beyond loadedTo
	adds        uint64 // grows with each Add that was left to the ledger
	needsRefill map[*lane]struct{}
	awaited     map[int64]schemas.EntityKey // run again beyond loadedTo: the page that is being read may not show it
	writing     int                         // transactions of commands under way
	latest      *latest                     // nil: backlog: all
	doubts      doubts

	safeFrom time.Time // when the claim was opened, where it is unclean; else zero
	ctx      context.Context
	cancel   context.CancelCauseFunc
	busy     int           // heads running or recording
	closing  bool          // nothing new starts
	gone     bool          // forgotten: nothing is written
	quiet    chan struct{} // made by Close, closed when busy is 0
}

// push appends an action that belongs into the window, or leaves it to the ledger.
func (l *Lanes) push(p *part, a *ledger.Action, event *schemas.Event, fresh bool) {
	doubt := !fresh && p.doubts.meet(a)
	la := p.lanes[a.Entity]
	if la == nil {
		if p.stands.behind(a, doubt) {
			return
		}
		la = &lane{part: p, entity: a.Entity}
		p.lanes[a.Entity] = la
	}
	if doubt {
		la.doubtTo = a.LaneSeq
	}
	if la.still() || la.overflow() || la.n >= l.cfg.LaneWindow {
		la.skippedTo = a.LaneSeq
		return
	}
	l.append(la, a, event, fresh)
}

// append puts an action at the end of its lane and arms the lane when it is the head.
func (l *Lanes) append(la *lane, a *ledger.Action, event *schemas.Event, fresh bool) {
	e := &entry{Action: *a, lane: la, event: event, copied: a.HasCopy}
	e.Packed = nil
	if !fresh {
		e.DoubtEnd = l.doubtEnd(la, a)
		l.restore(e)
	}
	l.budget.keep(e, a.Packed)
	if la.last == nil {
		la.head = e
	} else {
		la.last.next = e
	}
	la.last = e
	la.first = 0
	la.n++
	la.tail = a.LaneSeq
	la.part.open++
	l.open++
	if la.head == e && la.state == idle {
		l.arm(la)
	}
}

// restore sets when an action read back from the ledger may run: when its retry is due and, after an unclean claim,
// not before what the owner before may have in flight has timed out.
func (l *Lanes) restore(e *entry) {
	if e.Status == ledger.Processing {
		l.waitFor(e, max(e.Left, reportGrace), max(e.Quiet, e.Silence), e.Silence)
		return
	}
	if e.NextIn > 0 {
		e.notBefore = time.Now().Add(e.NextIn)
	}
	if p := e.lane.part; !p.safeFrom.IsZero() {
		if safe := p.safeFrom.Add(l.dispatch.find(e.Destination).Timeout); safe.After(e.notBefore) {
			e.notBefore = safe
		}
	}
}

// pop takes the head off its lane and gives back what it held.
func (l *Lanes) pop(la *lane) {
	e := la.head
	l.budget.free(e)
	l.untrack(e)
	la.head, e.next = e.next, nil
	if la.head == nil {
		la.last = nil
	}
	la.n--
	la.part.open--
	l.open--
	la.state = idle
	if la.overflow() && la.n <= l.cfg.LaneWindow/2 {
		la.part.needsRefill[la] = struct{}{}
	}
}

// arm sets the lane's head going, or forgets a lane that has none.
func (l *Lanes) arm(la *lane) {
	e := la.head
	switch {
	case la.part.closing || la.part.gone:
	case la.again > 0:
		l.reload(la)
	case e == nil && !la.overflow():
		delete(la.part.lanes, la.entity)
	case e == nil:
		la.part.needsRefill[la] = struct{}{}
	case l.concluded(e):
	case e.Status == ledger.Processing:
		l.leave(la)
	case e.Status == ledger.Dead || e.Status == ledger.Unknown:
		l.stand(la)
	case la.part.latest.unread(): // armed when it is
	case !e.notBefore.IsZero() && e.notBefore.After(time.Now()):
		l.delay(e)
	default:
		l.dispatch.enqueue(l.dispatch.find(e.Destination), la)
	}
}
