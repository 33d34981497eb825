package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// looks are what live views have found in the inbox: those that look for the same share it and its rows, so that ten cost what one does. Safe
// for concurrent use.
type looks struct {
	ask    func(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error)
	render func(api.InboxItem) ([]byte, error) // a row
	every  time.Duration                       // so long what was found counts at least

	mu    sync.Mutex
	found map[string]*found // by who may see it, and the filter
}

// found is what a look has found.
type found struct {
	turn  chan struct{} // holds one while somebody looks, who may use the fields below; never closed
	look  look
	since time.Time // how far back it goes
	ended time.Time
	took  time.Duration
}

// look is what was found at one time, the newest first.
type look struct {
	rows  []liveRow
	more  bool      // there is more than was asked for
	began time.Time // what was decided later may be missing
}

// liveRow is a row of the live inbox, which is rendered when the first view sends it. Not changed once it is made.
type liveRow struct {
	key       string
	state     string // what can change in a row
	decidedAt time.Time
	data      func() (string, error) // the lines of a server-sent event
}

// lookOf returns what a page of the API shows, with rows that are not rendered yet.
func (l *looks) lookOf(page api.Page[api.InboxItem]) look {
	out := look{rows: make([]liveRow, len(page.Items)), more: page.Next != ""}
	for n, i := range page.Items {
		out.rows[n] = liveRow{key: rowKey(i), decidedAt: i.DecidedAt,
			state: fmt.Sprintf("%s %s %s %d %d %s", i.Decision, i.Reason, i.Status, i.Attempts, i.Duplicates, i.LastError),
			data: sync.OnceValues(func() (string, error) {
				html, err := l.render(i)
				return dataLines(html), err
			})}
	}
	return out
}

// rowKey names a row: an event in a subscription, and in a replay.
func rowKey(i api.InboxItem) string {
	return fmt.Sprintf("%s.%s/%s/%d@%d/%d", i.Team, i.Subscription, i.Topic, i.Partition, i.Offset, i.Generation)
}

// looksKept is how many looks are remembered: more than views that may be open, most of which have ended.
const looksKept = 4 * liveAtOnce

// at looks for what f selects, or returns what was found for the same filter a moment ago: for the longer, the longer that look took. Errors are not
// kept.
func (l *looks) at(ctx context.Context, f api.InboxFilter) (look, error) {
	k := l.of(ctx, f)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return look{}, context.Cause(ctx)
	}
	if !k.since.IsZero() && !f.Since.Before(k.since) && time.Since(k.ended) < max(l.every, liveIdle*k.took) {
		return k.look, nil
	}
	began := time.Now()
	page, err := l.ask(ctx, f)
	if err != nil {
		return look{began: began}, err
	}
	k.look, k.since, k.ended, k.took = l.lookOf(page), f.Since, time.Now(), time.Since(began)
	k.look.began = began
	return k.look, nil
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
