package lane

import (
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
	charge    charge         // the account of the budget on which they count
	loads     int            // loads of the payload that failed, since the last that did not
	copied    bool           // the ledger holds a payload copy
	trace     [16]byte       // the event's trace id, once its payload is at hand
	limited   bool           // the destination's rate is used up: no attempt
	called    bool           // the destination was called, or is about to be, since the entry has its slot
	class     sink.Class     // of the last attempt that was seen to end
	inARow    int            // how many attempts ended with it
	notBefore time.Time      // no attempt earlier; zero: at once
	long      long
}

// state says where the head of a lane is.
type state uint8

const (
	idle       state = iota // nowhere: a step that is under way sets where it goes, or the lane has none in memory
	ready                   // it waits for a worker
	running                 // an attempt is under way
	recording               // its result waits for the ledger
	waiting                 // it waits for its next attempt
	processing              // the destination has accepted it and reports its result later
	spilled                 // it is in the ledger, as all of the lane, until it may run
	retired                 // this is no longer the entity's lane: it is read again under another, or parked
)

// lane is the queue of one entity's actions. Only its head runs.
type lane struct {
	partition  *partition
	entity     schemas.EntityKey
	head, last *entry
	n          int   // loaded
	nextReady  *lane // behind it among a destination's ready lanes
	state      state
	tail       int64 // everything of the entity up to here was loaded
	skippedTo  int64 // above tail: the lane left actions in the ledger, up to this one
	first      int64 // its head, which is reloaded before the rest; 0: not known, or in memory
	rereadFrom int64 // read the lane again from this action on as soon as its head is neither running nor recording; 0: no
	accepted   *entry
	doubtTo    int64 // up to this action, what has no attempt is in doubt; 0: nothing is
}

// overflow reports whether the lane left actions in the ledger.
func (la *lane) overflow() bool { return la.skippedTo > la.tail }

// loadsNothing reports whether the lane leaves all that comes in the ledger, since its head cannot run for a while.
func (la *lane) loadsNothing() bool { return la.state == processing || la.state == spilled }

// busy reports whether an attempt of the lane's head is under way or not recorded yet.
func (la *lane) busy() bool {
	return la.state == running || la.state == recording || la.state == processing
}

// inFlight reports whether e is the head of its lane and an attempt of it is under way or being recorded.
func (e *entry) inFlight() bool {
	la := e.lane
	return la.head == e && (la.state == running || la.state == recording)
}

// countedAttempts are the attempts of an action, the n-th just made, as the retry policy counts them, and since when: an
// operator who runs it again grants all of them again.
func (e *entry) countedAttempts(n int) (attempts int, since time.Time) {
	if e.Replay == nil {
		return n, e.FirstAt
	}
	return n - e.Replay.Spent, e.Replay.At
}

// countClass counts the attempts in a row that ended with class, as far as this process has seen them.
func (e *entry) countClass(class sink.Class) int {
	if e.class != class {
		e.class, e.inARow = class, 0
	}
	e.inARow++
	return e.inARow
}
