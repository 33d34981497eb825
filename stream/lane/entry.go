package lane

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// entry is one loaded action. It is in exactly one lane.
type entry struct {
	ledger.Action
	lane *lane
	next *entry // the next one in the lane

	event       *schemas.Event     // nil: not in memory
	size        int                // payload bytes; 0 as long as they are not known
	answer      int                // bytes set aside for the answer to the attempt under way
	charge      charge             // the account of the budget on which they count
	failedLoads int                // loads of the payload that failed, since the last that did not
	copied      bool               // the ledger has a copy of its payload: it need not be read from the log
	trace       [16]byte           // the event's trace id, once its payload is at hand
	span        string             // the context of its attempt's span; empty: it has none
	to          *target            // of its attempt under way: what its destination was when that began
	permit      destination.Permit // of its attempt under way, from its destination
	rateUsedUp  bool               // the destination's rate is used up: no attempt
	unmade      int                // how many recorded attempts are none of this run: of one before, or ended before the destination was called
	unfetched   bool               // its body could not be fetched: what ends it is not the destination's doing
	called      bool               // the destination was called, or is about to be, since the entry has its slot
	lastClass   sink.Class         // of the last attempt that was seen to end
	inARow      int                // how many attempts ended with it
	notBefore   time.Time          // no attempt earlier; zero: at once
	touched     time.Time          // when the last attempt that may have acted had ended, at the latest; see settling
	due         time.Time          // when its retry was to begin; zero: its next attempt is no retry
	held        []ledger.Span      // when a retry was due, and guards, the rate or others at the destination did not let it begin
	waitsFor    string             // class and text with which it is recorded to wait for a guard
	asked       uint64             // queues.asked when its attempt under way began
	hurried     uint64             // sinkQueue.hurried then
	own         time.Time          // when its next attempt is due; one before that is beside those of the retry policy
	beside      int                // how many of these failed and may have acted
	class       sink.Class         // of the last recorded attempt; empty: not known
	failedAsks  int                // times in a row that its guards could not answer
	cannotAsk   string             // why, as it was logged last
	long        longState
}

// state says where the head of a lane is.
type state uint8

const (
	idle       state = iota // in no list: the step under way decides where it goes, or the lane has no head in memory
	ready                   // waits for a worker
	running                 // an attempt is under way
	recording               // its result waits for the ledger
	waiting                 // waits for the time of its next attempt
	processing              // the destination has accepted it and reports the result later
	retired                 // this value is no longer the entity's lane: another has replaced it, or the lane is parked or spilled
)

// lane is the queue of one entity's actions. Only its head runs.
type lane struct {
	partition    *partition
	key          laneKey
	head, last   *entry
	n            int   // loaded
	nextReady    *lane // the next one among a destination's ready lanes
	state        state
	tail         int64 // everything of the entity up to here was loaded
	skippedTo    int64 // above tail: the lane left actions in the ledger, up to this one
	headToReload int64 // its head, which is reloaded before the rest; 0: not known, or in memory
	rereadFrom   int64 // read the lane again from this action on as soon as its head is neither running nor recording; 0: no
	accepted     *entry
	was          spilledLane // what it was, until its head is read again
	doubtTo      int64       // up to this action, what has no attempt is in doubt; 0: nothing is
}

// overflow reports whether the lane left actions in the ledger.
func (la *lane) overflow() bool { return la.skippedTo > la.tail }

// busy reports whether an attempt of the lane's head is under way or not recorded yet.
func (la *lane) busy() bool {
	return la.state == running || la.state == recording || la.state == processing
}

// inFlight reports whether e is the head of its lane and an attempt of it is under way or being recorded.
func (e *entry) inFlight() bool {
	la := e.lane
	return la.head == e && (la.state == running || la.state == recording)
}

// countedAttempts returns how many attempts the retry policy counts, of which attempt n is the last, and when the first of them
// began. After an operator's replay the count begins again; attempts at a destination that was away are left out.
func (e *entry) countedAttempts(n int) (attempts int, since time.Time) {
	if e.Replay == nil {
		return n - e.Spent, e.FirstAt
	}
	return n - e.Spent, e.Replay.At
}

// begins notes that an attempt has begun: what has held it up since it was due is no time in which it was tried.
func (e *entry) begins(now time.Time) {
	if !e.due.IsZero() && now.After(e.due) {
		e.held = append(e.held, ledger.Span{From: e.due, To: now})
	}
	e.due = time.Time{}
}

// mayBeEarly reports whether the next attempt at d may be made before its time: at most as many that may have acted as the retry policy allows.
func (e *entry) mayBeEarly(d *sinkQueue, which destination.Again) bool {
	return which == destination.AgainAll || (e.class == "" || destination.Troubling(e.class)) && e.beside < d.Retry.Attempts
}

// early has the next attempt made before its time. One that waits only to settle has its time in own already.
func (e *entry) early() {
	if e.notBefore.After(e.own) {
		e.own = e.notBefore
	}
	e.due, e.notBefore = time.Now(), time.Time{}
}

// mayLook reports whether an attempt before the next one may have acted (see [sink.Action.Earlier]).
func (e *entry) mayLook() bool { return e.Attempts > 0 || !e.DoubtEnd.IsZero() }

// settling returns for how long the next attempt still has to wait, however early it is tried, because one before it, or of an owner that was
// killed, may have acted just now.
func (e *entry) settling(settle time.Duration) time.Duration {
	last := e.touched
	if e.DoubtEnd.After(last) {
		last = e.DoubtEnd
	}
	return min(settle, time.Until(last.Add(settle))) // a DoubtEnd is by the ledger's clock
}

// countClass returns how many attempts in a row have ended with class, this one included. It knows of attempts in this process
// only.
func (e *entry) countClass(class sink.Class) int {
	if e.lastClass != class {
		e.lastClass, e.inARow = class, 0
	}
	e.inARow++
	return e.inARow
}
