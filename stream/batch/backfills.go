package batch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// BackfillLedger is what requests for backfills need of a [ledger.Namespace].
type BackfillLedger interface {
	Backfills(ctx context.Context, claims []*ledger.Claim, after int64, limit int) ([]ledger.Backfill, error)
	EndBackfill(ctx context.Context, c *ledger.Claim, id int64, end ledger.BackfillEnd) (fenced bool, err error)
}

var _ BackfillLedger = (*ledger.Namespace)(nil)

// BackfillRequests hands out the requests for backfills that the gate has made, of the partitions that this process owns. A request is
// handed out once, and again only to the next claim if this one ends before it. Safe for concurrent use.
type BackfillRequests struct {
	ledger BackfillLedger

	mu        sync.Mutex
	claims    map[*ledger.Claim]bool
	handedOut map[int64]*ledger.Claim // by request that has not ended: the claim under which it was handed out
	ended     map[int64]bool          // requests that have ended since the ledger was last asked: its answer may still have them
	paused    bool                    // none is handed out
	wake      wakes
}

// NewBackfillRequests returns one without claims. The owner adds them with [BackfillRequests.Start].
func NewBackfillRequests(l BackfillLedger) *BackfillRequests {
	return &BackfillRequests{ledger: l, claims: map[*ledger.Claim]bool{}, handedOut: map[int64]*ledger.Claim{}, ended: map[int64]bool{}, wake: make(wakes, 1)}
}

// backfillSweep is how often the ledger is asked for requests without a notification.
const backfillSweep = 5 * time.Second

// Next waits for a request that was not handed out yet. Only one goroutine may call it at a time.
func (q *BackfillRequests) Next(ctx context.Context) (ledger.Backfill, error) {
	for {
		b, found, err := q.handOut(ctx)
		if found || err != nil {
			return b, err
		}
		timer := time.NewTimer(backfillSweep)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return b, context.Cause(ctx)
		}
	}
}

// handOut asks the ledger for an open request that was not handed out yet, and remembers that it is handed out now.
func (q *BackfillRequests) handOut(ctx context.Context) (b ledger.Backfill, found bool, err error) {
	q.mu.Lock()
	claims, known, paused := slices.Collect(maps.Keys(q.claims)), len(q.handedOut), q.paused
	clear(q.ended)
	q.mu.Unlock()
	if len(claims) == 0 || paused {
		return b, false, nil
	}
	const after = 0                                              // from the first one on
	open, err := q.ledger.Backfills(ctx, claims, after, known+1) // one more than are known: if there is a new one, it is among them
	if err != nil {
		return b, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused {
		return ledger.Backfill{}, false, nil
	}
	for _, b = range open {
		if q.handedOut[b.ID] != nil || q.ended[b.ID] {
			continue
		}
		for c := range q.claims {
			if c.ID == b.Claim {
				q.handedOut[b.ID] = c
				return b, true, nil
			}
		}
	}
	return ledger.Backfill{}, false, nil
}

// End stores the outcome of a request. If its claim has ended, it stores nothing: the next owner hands the request out again.
func (q *BackfillRequests) End(ctx context.Context, id int64, end ledger.BackfillEnd) error {
	q.mu.Lock()
	c := q.handedOut[id]
	q.mu.Unlock()
	if c == nil {
		return nil
	}
	fenced, err := q.ledger.EndBackfill(ctx, c, id, end)
	if err != nil || fenced { // a lost fence is found by the next batch, which ends the claim
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.handedOut[id] == c { // and not to the next claim meanwhile
		delete(q.handedOut, id)
	}
	q.ended[id] = true
	return nil
}

// Start adds a claim until the returned function is called. A nil q does nothing: the subscription has no backfills.
func (q *BackfillRequests) Start(c *ledger.Claim) (stop func()) {
	if q == nil {
		return func() {}
	}
	q.mu.Lock()
	q.claims[c] = true
	q.mu.Unlock()
	q.notify()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.claims, c)
		maps.DeleteFunc(q.handedOut, func(_ int64, claim *ledger.Claim) bool { return claim == c })
	}
}

// Pause has no more requests handed out, or has them again. A nil q does nothing.
func (q *BackfillRequests) Pause(paused bool) {
	if q == nil {
		return
	}
	q.mu.Lock()
	q.paused = paused
	q.mu.Unlock()
	q.notify()
}

// notify wakes Next: there may be a new request.
func (q *BackfillRequests) notify() {
	if q == nil {
		return
	}
	q.wake.notify()
}
