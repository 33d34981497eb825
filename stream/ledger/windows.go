package ledger

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// windowSet is a subscription's windows as they were last read, and the statements on their tables. A batch checks it in its first round
// trip; if the windows have rotated, it is read again.
type windowSet struct {
	current int32
	live    []int32     // ascending; current is the last
	closed  []time.Time // when those before it were closed
	q       windowQueries
}

func newWindowSet(current int32, live []int32, closed []time.Time) *windowSet {
	return &windowSet{current: current, live: live, closed: closed, q: newWindowQueries(current, live)}
}

// seenSkew is how far the clocks of the database, by which windows are closed, and of the brokers may differ.
const seenSkew = time.Hour

// seenBefore returns the closed windows that may have an event of which a repetition was appended at some time, or later: dedupe remembers for so
// long, and no longer. A window that stays for its dead letters is not asked for ever. What is read again, after a rewind or by a replay, was
// decided after it was appended: all windows that may have it are asked, be they as old as they may.
func (w *windowSet) seenBefore(appended time.Time, remembers time.Duration) []int32 {
	for i, at := range w.closed {
		if remembers == 0 || appended.Before(at.Add(remembers+seenSkew)) {
			return w.live[i : len(w.live)-1]
		}
	}
	return nil
}

func (w *windowSet) same(current int32, live []int32) bool {
	return w.current == current && slices.Equal(w.live, live)
}

// own returns a statement on the subscription's windows; see OfWindows.
func (w *windowSet) own(sql string) string { return OfWindows(w.live, sql) }

// querier is a pool, a transaction or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// liveWindows are the windows of a subscription as they were last read. Safe for concurrent use.
type liveWindows struct {
	subscription int32
	set          atomic.Pointer[windowSet]
}

// Load returns the windows as they were last read.
func (w *liveWindows) Load() *windowSet { return w.set.Load() }

// read reads which windows are live now, and keeps them for Load.
func (w *liveWindows) read(ctx context.Context, from querier) (*windowSet, error) {
	rows, err := from.Query(ctx, windowsRead.SQL, w.subscription)
	if err != nil {
		return nil, err
	}
	var (
		current  int32
		live     []int32
		closed   []time.Time
		id       int32
		closedAt *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &closedAt}, func() error {
		live = append(live, id)
		if closedAt == nil {
			current = id
		} else {
			closed = append(closed, *closedAt)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	set := w.set.Load()
	if set == nil || !set.same(current, live) {
		set = newWindowSet(current, live, closed)
		w.set.Store(set)
	}
	return set, nil
}

// windowOf returns the live window in which an action of a claim has its row, if it has one; 0 if the claim never had the action, or the
// window was dropped.
func (w *windowSet) windowOf(c *Claim, laneSeq int64) int32 {
	c.mu.Lock()
	id := c.windowOf(laneSeq)
	c.mu.Unlock()
	if !slices.Contains(w.live, id) {
		return 0
	}
	return id
}

// windowsOf reads the live windows of a fence's subscription; pgx.ErrNoRows if there is no such fence.
func windowsOf(ctx context.Context, from querier, fence int32) (windows []int32, err error) {
	err = from.QueryRow(ctx, `SELECT array_agg(w.id ORDER BY w.id) FROM fences f JOIN windows w ON w.subscription = f.subscription AND w.state <> 'ahead'
		WHERE f.id = $1 GROUP BY f.id`, fence).Scan(&windows)
	return windows, err
}

// InWindowsOf runs f with the live windows of a fence's subscription, which it reads from a pool, for callers that do not own the fence. If f's error is that the windows
// have rotated, it runs f again. The error is pgx.ErrNoRows if there is no such fence.
func (l *Ledger) InWindowsOf(ctx context.Context, from querier, fence int32, f func(windows []int32) error) error {
	for refreshed := 0; ; refreshed++ {
		windows, err := windowsOf(ctx, from, fence)
		if err != nil {
			return err
		}
		if err = f(windows); err == nil || troubleOf(err) != oldWindows || refreshed >= maxRefresh {
			return err
		}
	}
}
