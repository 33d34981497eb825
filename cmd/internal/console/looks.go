package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// looks are what live views have found in the inbox: those that look for the same share it, so that ten cost what one does. Safe for
// concurrent use.
type looks struct {
	ask   func(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error)
	every time.Duration // so long what was found counts at least

	mu    sync.Mutex
	found map[string]*found // by who may see it, and the filter
}

// found is what a look has found.
type found struct {
	turn  chan struct{} // holds one while somebody looks, who may use the fields below; never closed
	page  api.Page[api.InboxItem]
	since time.Time // how far back it goes
	ended time.Time
	took  time.Duration
}

// looksKept is how many looks are remembered: more than views that may be open, most of which have ended.
const looksKept = 4 * liveAtOnce

// items lists what f selects, or what was found for the same filter a moment ago: for the longer, the longer that look took. Errors are not
// kept.
func (l *looks) items(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error) {
	k := l.of(ctx, f)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return api.Page[api.InboxItem]{}, context.Cause(ctx)
	}
	if !k.since.IsZero() && !f.Since.Before(k.since) && time.Since(k.ended) < max(l.every, liveIdle*k.took) {
		return k.page, nil
	}
	began := time.Now()
	page, err := l.ask(ctx, f)
	if err == nil {
		k.page, k.since, k.ended, k.took = page, f.Since, time.Now(), time.Since(began)
	}
	return page, err
}

// of returns what was found for a filter by those who may see what who asks may see.
func (l *looks) of(ctx context.Context, f api.InboxFilter) *found {
	f.Since = time.Time{}
	w := api.Asks(ctx)
	key := fmt.Sprintf("%q %q %q %t %+v", w.Role, w.Teams, w.Team, w.Sees, f)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.found[key]
	if k == nil {
		if len(l.found) >= looksKept {
			clear(l.found) // who looks at one of these goes on with its own
		}
		k = &found{turn: make(chan struct{}, 1)}
		l.found[key] = k
	}
	return k
}
