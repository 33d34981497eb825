package inbox

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Query selects events of the inbox. Empty fields select everything.
type Query struct {
	Team, Subscription string // Subscription without its team
	Source             string // "/<team>/<source>"
	Entity             schemas.EntityKey
	Type               string // or a glob, as in the file: * stands for any text
	// Delivery is a provider's id of a delivery. The ledger does not know it: whoever asks finds the events in the log and names them
	// by Keys, any of which is selected.
	Delivery string
	Keys     []schemas.EventKey
	// Status is one of Statuses.
	Status string
	// Decision selects events with that decision; gate.Duplicate those that came again, whatever their decision, and those of which another has said the same.
	Decision gate.Decision
	// Since selects events that were decided at this time or later.
	Since time.Time
	// Limit is at most 1000; 0 is 100.
	Limit int
	// Cursor is Page.Next of the page before.
	Cursor string
}

// Page is a page of the inbox, newest first. Next is empty on the last one. More says of that one that more events may have the status, behind
// very many that were looked at.
type Page struct {
	Items []Item
	Next  string
	More  bool
}

// Statuses lists the statuses that an event can have in a subscription. If it has actions: received (none tried yet), processing (some
// done, or a destination has accepted one and reports the result later), failed (one will be retried), parked (behind a dead or unknown
// action of its entity), dead_letter, unknown, done, superseded (a newer version came before any was tried, or while its destination was at
// work, which was told to cancel), discarded (an operator gave one up), stale (one would have run out of order, after a newer version), denied, dropped, skipped (all of them: guards ended them
// without an effect), waiting_approval, waiting_budget. If it has none: buffered, parked (behind a gap that was
// not filled, or held), redriven (a quarantined record that was produced again), discarded (a conflict or a quarantined record that an
// operator leaves at that), done (applied, and nothing was to run), or the decision.
func Statuses() []string {
	return []string{"received", "buffered", "processing", "done", "superseded", "discarded", "failed", "dead_letter", "parked", "unknown",
		"stale", "skipped", "dropped", "denied", "waiting_approval", "waiting_budget", "duplicate", "filtered", "conflict", "quarantined", "redriven"}
}

// StatusesOf lists those of [Statuses] that an event with a decision can have; none if there is no such decision.
func StatusesOf(d gate.Decision) []string {
	switch d {
	case gate.Applied, gate.Late:
		return []string{"received", "processing", "done", "superseded", "discarded", "failed", "dead_letter", "parked", "unknown", "stale",
			"skipped", "dropped", "denied", "waiting_approval", "waiting_budget"}
	case gate.Conflict, gate.Quarantined:
		return []string{string(d), "redriven", "discarded"}
	case gate.Stale, gate.Buffered, gate.Parked, gate.Filtered, gate.Duplicate:
		return []string{string(d)}
	}
	return nil
}

// validate refuses a query with a limit, status or decision that does not exist, or with a text that Postgres does not take.
func (q Query) validate() error {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return fmt.Errorf("limit %d is not in 1..1000", q.Limit)
	case q.Status != "" && !slices.Contains(Statuses(), q.Status):
		return fmt.Errorf("status %q is not one of %s", q.Status, strings.Join(Statuses(), ", "))
	case q.Decision != "" && !slices.Contains(gate.Decisions(), q.Decision):
		return fmt.Errorf("decision %q is not one of %v", q.Decision, gate.Decisions())
	case strings.ContainsRune(q.Team+q.Subscription+q.Source+string(q.Entity)+q.Type, 0):
		return errors.New("a filter contains a NUL character")
	}
	return nil
}

// List lists events with what became of them, newest decision first. A filter on source, entity or type has no index: it reads the
// events since q.Since until the page is full.
func (b *Inbox) List(ctx context.Context, q Query) (Page, error) {
	const op = "list the inbox"
	if err := q.validate(); err != nil {
		return Page{}, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	if _, err := q.filter(); err != nil {
		return Page{}, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	var items []Item
	since, passedOver := q, false
	err := b.inScope(ctx, q.Team, q.Subscription, func(of scope) error {
		found, more, err := b.newest(ctx, since, of)
		items, passedOver = append(items, found...), passedOver || more
		slices.SortFunc(items, compareItems)
		if len(items) > q.Limit {
			items = items[:q.Limit+1]
			since.Since = items[q.Limit].DecidedAt // what is older is not on this page
		}
		return err
	})
	page := Page{Items: items, More: passedOver && len(items) <= q.Limit}
	if len(items) > q.Limit {
		page.Items = items[:q.Limit]
		page.Next = cursorOf(&page.Items[q.Limit-1])
	}
	if err == nil {
		err = b.countBehindItems(ctx, page.Items)
	}
	if err != nil {
		return Page{}, ledger.Unavailable(op, err)
	}
	return page, nil
}

// compareItems sorts as a page does: the newest decision first.
func compareItems(x, y Item) int {
	return cmp.Or(y.DecidedAt.Compare(x.DecidedAt), cmp.Compare(y.Fence, x.Fence), cmp.Compare(y.Offset, x.Offset))
}

// Slices of time. What is decided in the first one is little enough to be sorted, at whatever rate; a longer one is read only where it has
// fewer events than crowded: at once all there is, if that is so few.
const (
	firstSlice = 100 * time.Millisecond
	wholeTime  = 400 * 24 * time.Hour // as long, or longer, is since ever
	crowded    = 10_000
)

// newest reads the inbox backwards from now, or from the cursor, in slices of time that grow, until the page is full and one more event
// is found: there is a next page. more is that of byRows. The index on time (BRIN) finds a slice but gives no order, so each slice is sorted.
func (b *Inbox) newest(ctx context.Context, q Query, of scope) (items []Item, more bool, err error) {
	f, err := q.filter()
	if err != nil {
		return nil, false, err
	}
	b.summarize(ctx, of)
	sql := q.slice(&f)
	n := len(f.args)
	var from, to time.Time
	if q.Cursor != "" {
		from, _, _, err = parseCursor(q.Cursor)
		to = from.Add(time.Microsecond)
	} else {
		err = b.slow.QueryRow(ctx, `SELECT now()`).Scan(&from)
		to = from.Add(time.Minute) // the database's clock may have been set back since
	}
	if err != nil || !q.Since.Before(to) {
		return nil, false, err
	}
	if q.waits() {
		q.Cursor = cmp.Or(q.Cursor, before(to))
		return b.byRows(ctx, q, of, nil)
	}
	width := firstSlice
	few, err := b.fewEvents(ctx, of, q.Since, to)
	if err != nil {
		return nil, false, err
	}
	if few {
		width = wholeTime
	}
	for len(items) <= q.Limit {
		begin, last := from.Add(-width), false
		if width >= wholeTime {
			begin, last = time.Time{}, true
		}
		if !begin.After(q.Since) {
			begin, last = q.Since, true
		}
		if byRows := q.candidates() != ""; width > firstSlice && !few && (byRows || !q.narrow()) {
			if fits, err := b.fewEvents(ctx, of, begin, to); err != nil {
				return nil, false, err
			} else if !fits && byRows {
				q.Cursor = before(to)
				return b.byRows(ctx, q, of, items)
			} else if !fits {
				width /= 8
				continue
			}
		}
		slice, err := b.items(ctx, of, sql, append(f.args[:n:n], begin, to, q.Limit+1-len(items)))
		if err != nil {
			return nil, false, err
		}
		if items = append(items, slice...); last {
			break
		}
		from, to = begin, begin
		width *= 8
	}
	return items, false, nil
}

// fewEvents reports whether a slice of time has fewer events and rejected records than crowded.
func (b *Inbox) fewEvents(ctx context.Context, of scope, begin, to time.Time) (few bool, err error) {
	var count int
	err = b.slow.QueryRow(ctx, of.sql(crowdCount), begin, to, b.crowded).Scan(&count)
	return count < b.crowded, err
}

const crowdCount = `-- crowdCount
SELECT count(*) FROM ((SELECT FROM {events} e WHERE decided_at >= $1 AND decided_at < $2 LIMIT $3)
    UNION ALL (SELECT FROM {rejected_records} d WHERE decided_at >= $1 AND decided_at < $2 LIMIT $3) LIMIT $3) x`

// waits reports whether the query selects nothing but what waits behind gaps, or is held.
func (q Query) waits() bool { return q.Decision == gate.Buffered || q.Decision == gate.Parked }

// narrow reports whether the query selects by more than subscription and time: then slices are read to their end, however many events they
// have, for few of them are on the page.
func (q Query) narrow() bool {
	return q.Source != "" || q.Entity != "" || q.Type != "" || q.Keys != nil || q.Status != "" || q.Decision != ""
}

// slice is the statement that reads a page of a slice of time; begin, end and limit follow the parameters of f, to which it adds the status.
func (q Query) slice(f *filter) string {
	const newestFirst = "\nORDER BY decided_at DESC, fence DESC, log_offset DESC LIMIT "
	conditions := f.where()
	status := filter{args: f.args}
	status.text("status = ?", q.Status)
	f.args = status.args
	switch q.Status { // which say enough of the rows
	case "duplicate", "filtered", "conflict", "quarantined":
		conditions += "\n  AND decision = '" + q.Status + "'"
	}
	n := len(f.args)
	conditions += fmt.Sprintf("\n  AND decided_at >= $%d AND decided_at < $%d", n+1, n+2)
	limit := fmt.Sprintf("%s$%d", newestFirst, n+3)
	inner := limit
	if q.Status != "" { // not all of the slice are on the list
		inner = ""
	}
	sql := q.page(conditions, inner)
	if q.Status != "" {
		sql = strings.TrimSuffix(sql, selectTail) + onceEach + selectTail
	}
	return sql + " WHERE " + status.where() + limit
}

// filter returns the query's conditions on rows of events and rejected records in SQL: all but the status, and the subscription, which the windows say. The only error is that of a malformed
// cursor.
func (q Query) filter() (f filter, err error) {
	f.text("source = ?", q.Source)
	f.text("entity = ?", string(q.Entity))
	f.glob("type", q.Type)
	if q.Keys != nil {
		keys := make([][16]byte, len(q.Keys))
		for i, k := range q.Keys {
			keys[i] = k
		}
		f.add("event_key = ANY(?)", keys)
	}
	if q.Decision == gate.Duplicate {
		f.add("(duplicates > 0 OR decision = 'duplicate')")
	} else {
		f.text("decision = ?", string(q.Decision))
	}
	if !q.Since.IsZero() {
		f.add("decided_at >= ?", q.Since)
	}
	if q.Cursor != "" {
		at, fence, offset, err := parseCursor(q.Cursor)
		if err != nil {
			return f, err
		}
		f.add("(decided_at, fence, log_offset) < (?, ?, ?)", at, fence, offset)
	}
	return f, nil
}

// cursorOf returns the cursor of the page that begins behind an item.
func cursorOf(i *Item) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%d", i.DecidedAt.UnixMicro(), i.Fence, i.Offset))
}

// parseCursor returns what cursorOf has written: decision's time, fence and offset of the last item of the page before.
func parseCursor(s string) (at time.Time, fence int32, offset int64, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	var us int64
	if err == nil {
		_, err = fmt.Sscanf(string(raw), "%d.%d.%d", &us, &fence, &offset)
	}
	if err != nil || us < -1<<53 || us > 1<<53 {
		return at, 0, 0, errors.New("cursor is not one of this list's")
	}
	return time.UnixMicro(us).UTC(), fence, offset, nil
}
