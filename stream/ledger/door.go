package ledger

import (
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// What package inbox needs of the ledger beside its types: three pools, the windows that are live, SQL that both use, and errors without
// secrets.

// ReadPools returns the pools for what operators read and ask: read for what takes its time, look for probes by key that somebody
// waits for. See the package comment for their sizes.
func (l *Ledger) ReadPools() (read, look *Pool) { return l.read, l.look }

// ReportPool returns the pool for what destinations report of long work: nothing that operators look at holds it up.
func (l *Ledger) ReportPool() *Pool { return l.quick }

// Unavailable wraps an error of the database for the caller, without the secrets that may be in it; nil for nil.
func Unavailable(op string, err error) error {
	return pg.Unavailable(op, err)
}

// Redact turns an error of connecting into one without user, host and password.
func Redact(err error) error { return pg.Redact(err) }

// Clean makes text fit for a text column: valid UTF-8, no NUL, at most limit bytes.
func Clean(s string, limit int) string { return pg.Clean(s, limit) }

// OfAll returns a statement on the windows of all subscriptions. In sql, a table that rotates is in braces: {actions}.
func OfAll(sql string) string { return window.OfAll(sql) }

// OfWindows returns a statement on some windows, at least one; see window.OfMany.
func OfWindows(windows []int32, sql string) string { return window.OfMany(windows, sql) }

// OfSome returns a statement on some windows, at least one, for lists; see window.OfSome.
func OfSome(windows []int32, sql string) string { return window.OfSome(windows, sql) }

// OfWindow returns a statement on one window. In sql, its id is {w}.
func OfWindow(id int32, sql string) string { return window.Of(id, sql) }

// The class of actions that died behind a gap, and which actions park their lane; see there.
const (
	DeadClass = window.DeadClass
	ParksLane = window.ParksLane
)

// ActionStates is a FROM item that gives the actions of the event e: their number n.i, in x the row in actions if there is one, else in c
// the completion if the action has ended; an action with neither is open and untried. If the event says that there is a row and there is
// none, the row was dropped with its window, which happens only when all in the window has ended.
const ActionStates = `generate_series(0, e.actions - 1) AS n(i)
        LEFT JOIN LATERAL (SELECT * FROM {actions} r
            WHERE r.window_id = coalesce(e.lane_window, e.window_id) AND r.fence = e.fence AND r.lane_seq = e.lane_seq + n.i OFFSET 0) x ON true
        LEFT JOIN LATERAL (
            SELECT c.finished_at, c.code, array_position(c.lanes, ((e.lane_seq + n.i) & 1023)::smallint) AS at, c.latency_us, c.response, c.superseded
            FROM {completions} c WHERE x.fence IS NULL AND e.lane_window IS NULL AND c.window_id = e.window_id AND c.fence = e.fence
              AND c.bucket = (e.lane_seq + n.i) >> 10 AND ((e.lane_seq + n.i) & 1023)::smallint = ANY (c.lanes)
            UNION ALL SELECT NULL, NULL, 0, NULL, NULL, false WHERE x.fence IS NULL AND e.lane_window IS NOT NULL LIMIT 1
        ) c ON true`

// Counts of what a fence f with its progress p has: open actions that were not tried yet, the other open ones, and events that wait or are
// held.
const (
	OpenCount = `p.next_lane_seq - p.lane_low
           - (SELECT count(DISTINCT c.bucket << 10 | n.lane) FROM {completions} c CROSS JOIN unnest(c.lanes) AS n(lane)
               WHERE c.fence = f.id AND c.bucket >= p.lane_low >> 10 AND c.bucket << 10 | n.lane >= p.lane_low)
           - (SELECT count(*) FROM {actions} a WHERE a.fence = f.id AND a.lane_seq >= p.lane_low)
           + (SELECT count(*) FROM {actions} a WHERE a.fence = f.id AND a.open AND a.status = 'pending')`
	TriedCount = `(SELECT count(*) FROM {actions} a WHERE a.fence = f.id AND a.open AND a.status <> 'pending')`
	WaitCount  = `(SELECT count(*) FROM buffer b WHERE b.fence = f.id)`
)
