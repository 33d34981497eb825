package inbox

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A status that few events have, and what waits, is looked for where it leaves rows: to look up the status of every event until a page is full is
// a dozen blocks for each event of the ledger.

// openReads is among how many events, the last ones, a statement looks for those that have a status of which no row says, in all partitions
// together: two million open actions took longer than a statement may.
const openReads = 1_000_000

// lanes returns how a statement begins that looks at open actions of which no row says the status: the partitions, and from which lane_seq on,
// which is the head of their first parked lane where only what is behind one is asked for. Empty if rows say it. $windows is the parameter
// with the windows of the scope.
func (q Query) lanes() string {
	switch q.Status {
	case "parked":
		return `WITH heads AS MATERIALIZED (` + ledger.ParkedHeads + `), own AS MATERIALIZED (SELECT fence, min(lane_seq) AS low FROM heads GROUP BY 1),` + eachReads
	case "received", "processing":
		return `WITH own AS MATERIALIZED (SELECT p.fence, p.lane_low AS low FROM progress p JOIN fences f ON f.id = p.fence
        WHERE f.subscription IN (SELECT subscription FROM windows WHERE id = ANY ($windows))),` + eachReads
	}
	return ""
}

// eachReads is how many events a statement looks at in a partition: its share, where idle ones have none.
const eachReads = ` most AS MATERIALIZED (SELECT greatest(1, $reads / greatest(1, count(*))) AS reads FROM own JOIN progress p ON p.fence = own.fence
    WHERE p.next_lane_seq > own.low OR EXISTS (SELECT FROM {actions} a WHERE a.fence = own.fence AND a.open AND a.status = 'pending' OFFSET 0))`

// What is looked at in a partition p of own, the last first: events whose actions may have no row, and those of pending actions that have one and are in
// a later window, or run again. $where is the query's filter: what it leaves out is not among what is looked at.
const (
	untriedEvents = `SELECT fence, window_id, event_key, entity, lane_seq, actions FROM {events} v
        WHERE v.fence = p.fence AND v.lane_seq > p.low - $most AND v.lane_seq IS NOT NULL AND v.lane_window IS NULL AND $where
        ORDER BY v.fence DESC, v.lane_seq DESC`
	movedEvents = `SELECT v.* FROM {actions} a CROSS JOIN LATERAL (SELECT fence, window_id, event_key, entity, lane_seq FROM {events} v
            WHERE v.window_id = a.event_window AND v.event_key = a.event_key AND (v.lane_window IS NOT NULL OR v.lane_seq < p.low) AND $where OFFSET 0) v
        WHERE a.fence = p.fence AND a.open AND a.status = 'pending' ORDER BY a.fence DESC, a.lane_seq DESC`
)

// candidates returns a query for the window and key of all events that can have the decision or status that is asked for; empty where nothing but a
// look at each event tells. Plan: the rows of actions, which most events have not, through actions_w*_open where they are open. What was not tried may have no
// row: it is what the last events of q.lanes want and no completion has, which need not be all that is open: see passedOver.
func (q Query) candidates() string {
	const (
		rows = `SELECT DISTINCT a.event_window, a.event_key FROM {actions} a WHERE a.status = '$status'`
		seen = `, seen AS (SELECT p.low, v.* FROM own p CROSS JOIN LATERAL (` + untriedEvents + ` LIMIT (SELECT reads FROM most)) v),
    moved AS (SELECT v.* FROM own p CROSS JOIN LATERAL (` + movedEvents + ` LIMIT (SELECT reads FROM most)) v)`
		untried = seen + `,
    low AS MATERIALIZED (SELECT fence, min(lane_seq) AS lane_seq FROM seen GROUP BY 1),
    ended AS MATERIALIZED (SELECT c.fence, c.bucket << 10 | n.lane AS lane_seq FROM low
            JOIN {completions} c ON c.fence = low.fence AND c.bucket >= low.lane_seq >> 10 CROSS JOIN unnest(c.lanes) AS n(lane)
        UNION ALL SELECT a.fence, a.lane_seq FROM low JOIN {actions} a ON a.fence = low.fence AND a.lane_seq >= low.lane_seq AND NOT a.open)
    SELECT a.event_window, a.event_key FROM {actions} a WHERE a.open AND a.status IN ('processing', 'parked')
    UNION SELECT window_id, event_key FROM moved
    UNION SELECT v.window_id, v.event_key FROM seen v CROSS JOIN generate_series(v.lane_seq, v.lane_seq + v.actions - 1) AS n(lane_seq)
        LEFT JOIN ended d ON d.fence = v.fence AND d.lane_seq = n.lane_seq
        GROUP BY 1, 2 HAVING bool_or(d.lane_seq IS NULL AND n.lane_seq >= v.low)`
		tried  = ` AND bool_or(d.lane_seq IS NOT NULL OR n.lane_seq < v.low)` // some have ended, else it is received
		behind = seen + `
    SELECT a.event_window, a.event_key FROM {actions} a WHERE a.open AND a.status = 'parked'
    UNION SELECT v.window_id, v.event_key FROM (SELECT fence, window_id, event_key, entity, lane_seq FROM seen UNION ALL TABLE moved) v
        JOIN heads h ON h.fence = v.fence AND h.entity = v.entity AND h.lane_seq < v.lane_seq UNION `
		waiting = `SELECT DISTINCT b.window_id, b.event_key FROM buffer b`
	)
	if q.waits() {
		return waiting
	}
	of := map[string]string{"failed": rows + ` AND a.open`, "waiting_approval": rows + ` AND a.open`, "waiting_budget": rows + ` AND a.open`,
		"dead_letter": rows, "unknown": rows, "denied": rows, "dropped": rows, "skipped": rows,
		"received": untried, "processing": untried + tried, "parked": behind + waiting, "buffered": waiting}[q.Status]
	if of == "" {
		return ""
	}
	return q.lanes() + strings.ReplaceAll(of, "$status", q.Status)
}

// passedOver reports whether more may be open than the candidates of the filter are: of what has no row above lane_low, or of the pending rows, over
// which that moves. It looks only where there is so much.
func (b *Inbox) passedOver(ctx context.Context, q Query, of scope, f filter) (more bool, err error) {
	lanes := q.lanes()
	if lanes == "" || q.waits() {
		return false, nil
	}
	const beyond = ` OFFSET (SELECT reads FROM most) LIMIT 1)`
	err = b.slow.QueryRow(ctx, of.sql(b.numbered(`-- passedOver
`+lanes+` SELECT EXISTS (SELECT FROM own p JOIN progress g ON g.fence = p.fence
        WHERE g.next_lane_seq - p.low > (SELECT reads FROM most) AND EXISTS (`+untriedEvents+beyond+`)
  OR EXISTS (SELECT FROM own p CROSS JOIN LATERAL (SELECT FROM {actions} a WHERE a.fence = p.fence AND a.open AND a.status = 'pending'
    ORDER BY a.fence DESC, a.lane_seq DESC`+beyond+` many CROSS JOIN LATERAL (`+movedEvents+beyond+` a)
WHERE $windows::int[] IS NOT NULL`, f, len(f.args)+1)), append(slices.Clone(f.args), []int32(of))...).Scan(&more)
	return more, err
}

// numbered is a statement with a filter, and the parameter that $windows is.
func (b *Inbox) numbered(sql string, f filter, windows int) string {
	return strings.NewReplacer("$windows", fmt.Sprintf("$%d", windows), "$reads", strconv.Itoa(b.openReads), "$most", strconv.Itoa(ledger.MaxActions),
		"$where", f.where()).Replace(sql)
}

// keyedEvents are events by their windows and keys, in place of {events}.
const keyedEvents = `(SELECT v.* FROM %s k (of, key)
        CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = k.of AND v.event_key = k.key OFFSET 0) v)`

// lookedUp is how many candidates have their status looked up first: enough for a page, as a rule. All others follow in one statement, since each
// statement reads the heads of all lanes once.
const lookedUp = 1000

// before is the cursor in front of all that was decided before at.
func before(at time.Time) string {
	return cursorOf(&Item{DecidedAt: at, Fence: math.MinInt32, Offset: math.MinInt64})
}

// byRows adds to items those behind q.Cursor, from the candidates: the newest first, until the page has one item more than q.Limit. more says that it
// has not, and not all that is open was looked at.
func (b *Inbox) byRows(ctx context.Context, q Query, of scope, items []Item) (_ []Item, more bool, err error) {
	const newestFirst = " ORDER BY decided_at DESC, fence DESC, log_offset DESC LIMIT "
	keyed := fmt.Sprintf(keyedEvents, "unnest($1::int[], $2::uuid[])") + " e JOIN"
	lookUp := selectHead + strings.Replace(selectEvents, "{events} e JOIN", keyed, 1) + onceEach + selectTail +
		" WHERE $3 IN ('', status)" + newestFirst + "$4"
	var last Item
	windows, keys := make([]int32, 0, b.crowded), make([][16]byte, 0, b.crowded)
	look, err := q.filter()
	if err != nil {
		return nil, false, err
	}
	f := filter{slices.Clone(look.conditions), slices.Clone(look.args)}
	for all := false; !all; all = len(keys) < b.crowded {
		windows, keys = windows[:0], keys[:0]
		args := append(slices.Clone(f.args), b.crowded, []int32(of))
		sql := `-- candidates
SELECT window_id, event_key, decided_at, fence, log_offset FROM ` + fmt.Sprintf(keyedEvents, "("+q.candidates()+")") + ` e
WHERE $windows::int[] IS NOT NULL AND ` + f.where() + newestFirst + fmt.Sprintf("$%d", len(args)-1)
		rows, err := b.slow.Query(ctx, of.sql(b.numbered(sql, look, len(args))), args...)
		if err != nil {
			return nil, false, err
		}
		var window int32
		var key [16]byte
		_, err = pgx.ForEachRow(rows, []any{&window, &key, &last.DecidedAt, &last.Fence, &last.Offset}, func() error {
			windows, keys = append(windows, window), append(keys, key)
			return nil
		})
		for n, end := 0, min(lookedUp, len(keys)); err == nil && n < end && len(items) <= q.Limit; n, end = end, len(keys) {
			var found []Item
			found, err = b.items(ctx, of, lookUp, []any{windows[n:end], keys[n:end], q.Status, q.Limit + 1 - len(items)})
			items = append(items, found...)
		}
		if err != nil || len(items) > q.Limit {
			return items, false, err
		}
		f = filter{slices.Clone(look.conditions), slices.Clone(look.args)} // those behind, among what is looked at for the first
		f.add("(decided_at, fence, log_offset) < (?, ?, ?)", last.DecidedAt, last.Fence, last.Offset)
	}
	more, err = b.passedOver(ctx, q, of, look)
	return items, more, err
}
