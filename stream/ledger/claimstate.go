package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
)

// claimState is what a claim carries besides its fence.
type claimState struct {
	policy gate.Policy // the partition's share of the subscription's

	// Of a topic that was created again: its former id, which the pointers of actions below lanesFrom have, and the offset below which
	// there may be rejected records of the former topic (column places). See inherit.
	former        TopicID
	lanesFrom     int64
	rejectedBelow int64

	copyOf   *[16]byte // in a copy of a topic: the topic's id; see moveWaiting
	copyVoid bool      // nobody may go on in this copy; see checkCopies
	copyEnds []int64   // where the topic ended, by partition

	// Owned by the goroutine that applies.
	laneSeq  int64 // the next lane_seq to give
	buffered int   // events of the partition that wait with a deadline
	bytes    int64 // of their copies
	waiting  int   // events of the partition that wait, parked ones included (see manyParked), held ones not
	// overdueAt is the database's clock, in Postgres microseconds, when NextDeadline last found a deadline; 0 before.
	// Expire ends no wait that became overdue later: the end of the log was not observed after it (P5).
	overdueAt      int64
	cache          *lineCache
	dirty          dirtyLines
	foldedInWindow int32    // the window that was current when no event of an earlier one was left that a version line lacks
	sought         OldLines // without keys: how far ForgetLines last came, and in which window the search for that began

	// Shared with those who record results.
	revision atomic.Int64 // of progress, as the last batch left it
	mu       sync.Mutex
	spans    []laneSpan // ascending: which window an action belongs to
	marks    marks.Marks
	revived  int64                     // see Revived
	asked    map[schemas.ActionID]bool // of which actions an approval may be open: those of which none is used
}

// laneSpan says that actions from lane_seq on belong to a window, until the next span begins.
type laneSpan struct {
	from   int64
	window int32
}

// windowOf returns the window that an action belongs to; 0 if the claim never had such an action. The caller holds mu.
func (c *Claim) windowOf(laneSeq int64) int32 {
	if laneSeq >= c.marks.Given {
		return 0
	}
	for _, span := range slices.Backward(c.spans) {
		if span.from <= laneSeq {
			return span.window
		}
	}
	return 0
}

// closedBelow returns the first lane_seq of the current window; 0 if the claim has no action in an older one. The caller holds mu. That a window
// was closed the claim learns with its first action in the next one. Until then no mark has to get past the open actions of the closed one: they
// keep it by themselves, and when they are done CaughtUp writes the mark (TestIdlePartitionDoesNotKeepItsLastWindow).
func (c *Claim) closedBelow() int64 {
	if n := len(c.spans); n > 1 {
		return c.spans[n-1].from
	}
	return 0
}

// Revived notes that an action that had ended runs again: what it had of its payload went when it ended.
func (c *Claim) Revived(laneSeq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revived == 0 || laneSeq < c.revived {
		c.revived = laneSeq
	}
}

// TakeRevived returns the lowest lane_seq that Revived was called with since the last TakeRevived; 0: none.
func (c *Claim) TakeRevived() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	laneSeq := c.revived
	c.revived = 0
	return laneSeq
}

// low returns the lane_seq below which every action has ended or has a row.
func (c *Claim) low() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks.Low
}

// extend records that the lane_seqs from (included) to to (excluded) were given and belong to window. rows are those of actions that
// have a row.
func (c *Claim) extend(from, to int64, window int32, rows []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spans); n == 0 || c.spans[n-1].window != window {
		c.spans = append(c.spans, laneSpan{from, window})
	}
	c.marks.Given = to
	for _, s := range rows {
		c.marks.GiveRow(s)
		c.marks.MarkRecorded(s)
	}
}

// ended reports whether a completion of the action is recorded, or about to be; of an action below low it does not know.
func (c *Claim) ended(laneSeq int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks.Ended(laneSeq)
}

// finished reports whether an action that has no row is done.
func (c *Claim) finished(laneSeq int64) bool {
	c.mu.Lock()
	below := laneSeq < c.marks.Low
	c.mu.Unlock()
	return below || c.ended(laneSeq)
}

// topicOf returns the id that the topic had when an action was given its lane_seq.
func (c *Claim) topicOf(laneSeq int64) TopicID {
	if laneSeq < c.lanesFrom && c.former != (TopicID{}) {
		return c.former
	}
	return c.Partition.TopicID
}

// held locks the fence against the next claim until tx ends, and reports whether the fence is still this claim's and the ledger has all
// that the claim knows of. If it is not, nothing is locked.
func (c *Claim) held(ctx context.Context, tx pgx.Tx) (held bool, err error) {
	err = tx.QueryRow(ctx, `SELECT true FROM fences WHERE id = $1 AND epoch = $2 AND token = $3
		AND NOT EXISTS (SELECT FROM progress WHERE fence = $1 AND revision < $4) FOR KEY SHARE`, c.ID, c.Epoch, c.Token, c.revision.Load()).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return held, err
}
