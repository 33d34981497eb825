package batch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// asker is a ledger with open questions by id, of one fence each.
type asker struct {
	mu   sync.Mutex
	open map[int64]int32
	fail error
	ends []int64
	gone bool   // every claim has lost its fence
	read func() // called after open was read, before the answer is given; nil: nothing
}

func (a *asker) Backfills(_ context.Context, claims []*ledger.Claim, after int64, limit int) (list []ledger.Backfill, err error) {
	defer func() {
		if a.read != nil {
			a.read()
		}
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := after + 1; id < 100 && len(list) < limit; id++ {
		for _, c := range claims {
			if fence, ok := a.open[id]; ok && fence == c.ID {
				list = append(list, ledger.Backfill{ID: id, Claim: fence})
			}
		}
	}
	return list, a.fail
}

func (a *asker) EndBackfill(_ context.Context, _ *ledger.Claim, id int64, _ ledger.BackfillEnd) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return false, a.fail
	}
	if a.gone {
		return true, nil
	}
	a.ends = append(a.ends, id)
	delete(a.open, id)
	return false, nil
}

func (a *asker) ask(id int64, fence int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id] = fence
}

// Every question of a claim that runs goes to one taker, those of no others, and those of a claim that ends go again.
func TestBackfillRequestsGoOnceEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asker{open: map[int64]int32{1: 7, 2: 8, 3: 7}}
		q := NewBackfillRequests(a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		time.AfterFunc(7*time.Second, func() { q.Start(&ledger.Claim{ID: 7}) })
		next := func() int64 {
			t.Helper()
			b, err := q.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return b.ID
		}
		if id := next(); id != 1 || time.Since(began) != 7*time.Second {
			t.Errorf("got %d after %s", id, time.Since(began))
		}
		if id := next(); id != 3 {
			t.Errorf("got %d", id)
		}
		time.AfterFunc(time.Second, func() { a.ask(4, 7); q.notify() })
		began = time.Now()
		if id := next(); id != 4 || time.Since(began) != time.Second {
			t.Errorf("got %d after %s", id, time.Since(began))
		}
		a.fail = errors.New("away")
		if err := q.End(ctx, 1, ledger.BackfillEnd{}); err == nil {
			t.Error("ended without a ledger")
		}
		if _, err := q.Next(ctx); err == nil {
			t.Error("no error")
		}
		a.fail = nil
		for range 2 {
			if err := q.End(ctx, 1, ledger.BackfillEnd{}); err != nil {
				t.Error(err)
			}
		}
		if len(a.ends) != 1 {
			t.Errorf("ended %v", a.ends)
		}
		stop := q.Start(&ledger.Claim{ID: 8})
		if id := next(); id != 2 {
			t.Errorf("got %d", id)
		}
		stop()
		if err := q.End(ctx, 2, ledger.BackfillEnd{}); err != nil || len(a.ends) != 1 {
			t.Errorf("a claim that is gone ended its question: %v %v", a.ends, err)
		}
		q.Start(&ledger.Claim{ID: 8})
		if id := next(); id != 2 {
			t.Errorf("got %d", id)
		}
		if _, err := q.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A request that ends, or a pause that begins, while the ledger answers is not handed out by that answer.
func TestBackfillRequestThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	a := &asker{open: map[int64]int32{1: 7}}
	q := NewBackfillRequests(a)
	q.Start(&ledger.Claim{ID: 7})
	if b, found, err := q.handOut(t.Context()); b.ID != 1 || !found || err != nil {
		t.Fatal(b, found, err)
	}
	a.read = func() {
		if err := q.End(t.Context(), 1, ledger.BackfillEnd{}); err != nil {
			t.Error(err)
		}
	}
	if b, found, err := q.handOut(t.Context()); found || err != nil {
		t.Errorf("request %d was handed out again: %v", b.ID, err)
	}
	a.ask(2, 7)
	a.read = func() { q.Pause(true) }
	if b, found, err := q.handOut(t.Context()); found || err != nil {
		t.Errorf("request %d was handed out in a pause: %v", b.ID, err)
	}
	a.read = nil
	q.Pause(false)
	if b, found, err := q.handOut(t.Context()); b.ID != 2 || !found || err != nil {
		t.Error(b, found, err)
	}
	a.gone = true // and nobody has noticed yet: it is the next owner's
	if err := q.End(t.Context(), 2, ledger.BackfillEnd{}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if b, found, err := q.handOut(t.Context()); found || err != nil {
			t.Errorf("request %d was handed out again under a claim that is gone: %v", b.ID, err)
		}
	}
}
