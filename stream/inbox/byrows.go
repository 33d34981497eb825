package inbox

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// A status that few events have, and what waits, is looked for where it leaves rows: to look up the status of every event until a page is full is
// a dozen blocks for each event of the ledger.

// candidates returns a query for the window and key of all events that can have the decision or status that is asked for; empty where nothing but a
// look at each event tells. Plan: the rows of actions, which most events have not, through actions_w*_open where they are open. What was not tried may have no
// row: it is what the events from lane_low on want and no completion has. $windows is the parameter with the windows of the scope.
func (q Query) candidates() string {
	const (
		rows    = `SELECT DISTINCT a.event_window, a.event_key FROM {actions} a WHERE a.status = '$status'`
		untried = `WITH own AS MATERIALIZED (SELECT p.* FROM progress p JOIN fences f ON f.id = p.fence
        WHERE f.subscription IN (SELECT subscription FROM windows WHERE id = ANY ($windows))),
    done AS MATERIALIZED (SELECT c.fence, c.bucket << 10 | n.lane AS lane_seq FROM own p
        JOIN {completions} c ON c.fence = p.fence AND c.bucket >= p.lane_low >> 10 CROSS JOIN unnest(c.lanes) AS n(lane))
    SELECT a.event_window, a.event_key FROM {actions} a WHERE a.open AND a.status IN ('pending', 'processing', 'parked')
    UNION SELECT v.window_id, v.event_key FROM own p CROSS JOIN LATERAL (SELECT window_id, event_key, lane_seq, actions FROM {events} v
            WHERE v.fence = p.fence AND v.lane_seq > p.lane_low - $most AND v.lane_seq IS NOT NULL AND v.lane_window IS NULL OFFSET 0) v
        CROSS JOIN generate_series(v.lane_seq, v.lane_seq + v.actions - 1) AS n(lane_seq)
        WHERE n.lane_seq >= p.lane_low AND NOT EXISTS (SELECT FROM done d WHERE d.fence = p.fence AND d.lane_seq = n.lane_seq)`
		waiting = `SELECT DISTINCT b.window_id, b.event_key FROM buffer b`
	)
	if q.waits() {
		return waiting
	}
	of := map[string]string{"failed": rows + ` AND a.open`, "waiting_approval": rows + ` AND a.open`, "waiting_budget": rows + ` AND a.open`,
		"dead_letter": rows, "unknown": rows, "denied": rows, "dropped": rows, "skipped": rows,
		"received": untried, "processing": untried, "parked": untried + ` UNION ` + waiting, "buffered": waiting}[q.Status]
	if of == "" {
		return ""
	}
	return strings.NewReplacer("$status", q.Status, "$most", strconv.Itoa(ledger.MaxActions)).Replace(of)
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

// byRows adds to items those behind q.Cursor, from the candidates: the newest first, until the page has one item more than q.Limit.
func (b *Inbox) byRows(ctx context.Context, q Query, of scope, items []Item) ([]Item, error) {
	const newestFirst = " ORDER BY decided_at DESC, fence DESC, log_offset DESC LIMIT "
	keyed := fmt.Sprintf(keyedEvents, "unnest($1::int[], $2::uuid[])") + " e JOIN"
	lookUp := selectHead + strings.Replace(selectEvents, "{events} e JOIN", keyed, 1) + onceEach + selectTail +
		" WHERE $3 IN ('', status)" + newestFirst + "$4"
	var last Item
	windows, keys := make([]int32, 0, b.crowded), make([][16]byte, 0, b.crowded)
	for more := true; more; more, q.Cursor = len(keys) == b.crowded, cursorOf(&last) {
		windows, keys = windows[:0], keys[:0]
		f, err := q.filter()
		if err != nil {
			return nil, err
		}
		f.args = append(f.args, b.crowded, []int32(of))
		sql := `-- candidates
SELECT window_id, event_key, decided_at, fence, log_offset FROM ` + fmt.Sprintf(keyedEvents, "("+q.candidates()+")") + ` e
WHERE $windows::int[] IS NOT NULL AND ` + f.where() + newestFirst + fmt.Sprintf("$%d", len(f.args)-1)
		rows, err := b.slow.Query(ctx, of.sql(strings.ReplaceAll(sql, "$windows", fmt.Sprintf("$%d", len(f.args)))), f.args...)
		if err != nil {
			return nil, err
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
			return items, err
		}
	}
	return items, nil
}
