package ledger

import (
	"context"
	"errors"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Namespace is one subscription's part of the ledger. Safe for concurrent use, except that a Claim belongs to one
// goroutine at a time.
type Namespace struct {
	ledger *Ledger
	spec   Spec
	registration
	windows liveWindows
	maxLag  int64 // MaxLag, a field for tests
	recent  *recentKeys
	batches refusals
	results refusals

	forgetPage int // the constant, a field for tests
}

// waits returns, as parameters, how long a filler is waited for, a backfill, and both together; null is no bound.
func (n *Namespace) waits() [][]byte {
	var age []byte
	if n.spec.MaxAge > 0 {
		age = pg.Int64Param(n.spec.MaxAge.Microseconds())
	}
	return [][]byte{pg.Int64Param(n.spec.Policy.GapWait.Microseconds()), pg.Int64Param(n.spec.Policy.BackfillWait.Microseconds()), age}
}

// loadWindows reads which windows of the subscription are in use.
func (n *Namespace) loadWindows(ctx context.Context) error {
	_, err := n.windows.read(ctx, n.ledger.hot)
	return err
}

// inWindows runs f with the windows in use. If f's error is that they have rotated, it reads them again and runs f again.
func (n *Namespace) inWindows(ctx context.Context, f func(win *windowSet) error) error {
	for refreshed := 0; ; refreshed++ {
		err := f(n.windows.Load())
		if err == nil || troubleOf(err) != oldWindows || refreshed >= maxRefresh {
			return err
		}
		if unread := n.loadWindows(ctx); unread != nil {
			return errors.Join(err, unread)
		}
	}
}
