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
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// DeadLetterQuery selects dead letters and actions whose outcome is unknown. Empty fields select everything.
type DeadLetterQuery struct {
	Team, Subscription string // Subscription without its team
	Source             string // "/<team>/<source>"
	Entity             schemas.EntityKey
	Type               string    // or a glob: * stands for any text
	Destination        string    // its full name
	Class              string    // reason class: a failure class of sinks, "gap", or "unknown"
	Group              string    // fingerprint of class, code, destination and type
	Since              time.Time // given up at this time or later
	Limit              int       // at most 1000; 0 is 100
	Cursor             string    // DeadLetterPage.Next of the page before
	Uncounted          bool      // what waits behind each is not counted, which takes longer than the list
}

// DeadLetter is an action that was given up, or whose outcome nobody knows.
type DeadLetter struct {
	ledger.DeadLetter
	// Behind is how many events wait behind it, if it parks its entity; nil: not counted.
	Behind *Behind
}

// DeadLetterPage is a page of dead letters in lane order: of one entity's, the one that runs first comes first.
type DeadLetterPage struct {
	Items []DeadLetter
	Next  string // empty on the last page
}

// DeadLetterGroup is the dead letters that have fingerprint, class, code, destination and event type in common.
type DeadLetterGroup struct {
	Group       string    `json:"group"`
	Class       string    `json:"class"`
	Code        int       `json:"code"` // the status of the last attempt's answer; 0: there was none
	Destination string    `json:"destination"`
	Type        string    `json:"type"`
	Count       int64     `json:"count"`
	Entities    int64     `json:"entities"`
	Flagged     int64     `json:"flagged"` // those that were given up [ledger.FlaggedDeaths] times or more
	First       time.Time `json:"first"`   // when the first of them was given up, and the last
	Last        time.Time `json:"last"`
}

// deadOnly follows ledger.DeadSelect, whose first parenthesis it closes: all dead letters and unknown outcomes.
const deadOnly = ` WHERE a.status IN ('dead_letter', 'unknown')) d`

// validate refuses a query with a limit out of range, or with a text that Postgres does not take.
func (q DeadLetterQuery) validate() error {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return fmt.Errorf("limit %d is not in 1..1000", q.Limit)
	case strings.ContainsRune(q.Team+q.Subscription+q.Source+string(q.Entity)+q.Type+q.Destination+q.Class+q.Group, 0):
		return errors.New("a filter contains a NUL character")
	}
	return nil
}

// filter returns the query's conditions in SQL, but for those that are in from.
func (q DeadLetterQuery) filter() (f filter) {
	f.text("source = ?", q.Source)
	f.text("entity = ?", string(q.Entity))
	f.glob("type", q.Type)
	f.text("destination = ?", q.Destination)
	f.text("class = ?", q.Class)
	f.text("fingerprint = ?", q.Group)
	if !q.Since.IsZero() {
		f.add("died_at >= ?", q.Since)
	}
	return f
}

// from is ledger.DeadSelect of the dead letters that stand behind the cursor, in lane order, with the parameters of f. The only error is that
// of a malformed cursor.
func (q DeadLetterQuery) from(f *filter) (string, error) {
	own := filter{args: f.args}
	own.add("status IN ('dead_letter', 'unknown')")
	if q.Cursor != "" {
		var fence int32
		var laneSeq int64
		text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%d.%d", &fence, &laneSeq)
		}
		if err != nil {
			return "", fmt.Errorf("cursor %q is not one of ours", q.Cursor)
		}
		own.add("(fence, lane_seq) > (?, ?)", fence, laneSeq)
	}
	f.args = own.args
	rows := `(SELECT * FROM {actions} r WHERE ` + own.where() + ` ORDER BY fence, lane_seq`
	return strings.Replace(ledger.DeadSelect, "{actions} a JOIN", rows+") a JOIN", 1) + deadOnly, nil
}

// DeadLetters lists dead letters and unknown outcomes, and counts the events behind those that park their entity, unless q says not to.
func (b *Inbox) DeadLetters(ctx context.Context, q DeadLetterQuery) (page DeadLetterPage, err error) {
	const op = "list the dead letters"
	_, cursorErr := q.from(&filter{})
	if err := errors.Join(q.validate(), cursorErr); err != nil {
		return page, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	err = b.inScope(ctx, q.Team, q.Subscription, func(of scope) error {
		more, err := b.deadLetters(ctx, q, of)
		page.Items = append(page.Items, more...)
		slices.SortFunc(page.Items, func(x, y DeadLetter) int {
			return cmp.Or(cmp.Compare(x.Fence, y.Fence), cmp.Compare(x.LaneSeq, y.LaneSeq))
		})
		page.Items = page.Items[:min(len(page.Items), q.Limit+1)]
		return err
	})
	if len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		last := &page.Items[q.Limit-1]
		page.Next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", last.Fence, last.LaneSeq))
	}
	if err == nil && !q.Uncounted {
		err = b.countBehindDead(ctx, page.Items)
	}
	return page, ledger.Unavailable(op, err)
}

// deadLetters reads a page, and one more: is there a next page? Plan: actions_w*_dead of each window, in order from the cursor on, with probes
// of the others, until the page is full.
func (b *Inbox) deadLetters(ctx context.Context, q DeadLetterQuery, of scope) (items []DeadLetter, err error) {
	f := q.filter()
	conditions := f.where()
	from, err := q.from(&f)
	if err != nil {
		return nil, err
	}
	sql := of.sql(from) + fmt.Sprintf(" WHERE %s ORDER BY fence, lane_seq LIMIT $%d", conditions, len(f.args)+1)
	err = inOrder(ctx, b.slow, func(tx pgx.Tx) error {
		items, err = readDeadLetters(ctx, tx, sql, append(f.args, q.Limit+1))
		return err
	})
	return items, err
}

// inOrder calls query with a transaction whose plans go along indexes, in their order, and end with the page: beside many dead letters a plan
// that sorts would read them all.
func inOrder(ctx context.Context, from pool, query func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, from, byIndex(ctx, query))
}

// groupReads is how many dead letters are grouped for one answer at most, in lane order.
const groupReads = 100_000

// maxGroups is how many groups one answer has at most.
const maxGroups = 1000

// DeadLetterGroups groups dead letters by fingerprint, class, code, destination and event type, and counts each group. It returns at most
// maxGroups groups of the first groupReads dead letters that fit, some subscriptions after others, the largest first; more says that there are others. In the SQL, deaths is how often
// an action was given up, and (fence, entity) is a lane: an entity with dead letters in two lanes counts twice.
func (b *Inbox) DeadLetterGroups(ctx context.Context, q DeadLetterQuery) (list []DeadLetterGroup, more bool, err error) {
	const op = "group the dead letters"
	q.Cursor, q.Limit = "", 0
	if err := q.validate(); err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	read := 0
	err = b.inScope(ctx, q.Team, q.Subscription, func(of scope) error {
		found, letters, err := b.deadLetterGroups(ctx, q, of, b.groupReads-read+1)
		read, list = read+letters, mergeGroups(list, found)
		return err
	})
	more = read > b.groupReads
	if err != nil {
		return nil, false, ledger.Unavailable(op, err)
	}
	for i := range list {
		list[i].First, list[i].Last = list[i].First.UTC(), list[i].Last.UTC()
	}
	return list[:min(len(list), maxGroups)], more || len(list) > maxGroups, nil
}

// mergeGroups adds up the groups of two parts of the ledger, which have no entity in common, and sorts them as a list does.
func mergeGroups(list, found []DeadLetterGroup) []DeadLetterGroup {
	for _, g := range found {
		i := slices.IndexFunc(list, func(have DeadLetterGroup) bool {
			return have.Group == g.Group && have.Class == g.Class && have.Code == g.Code && have.Destination == g.Destination && have.Type == g.Type
		})
		if i < 0 {
			list = append(list, g)
			continue
		}
		have := &list[i]
		have.Count, have.Entities, have.Flagged = have.Count+g.Count, have.Entities+g.Entities, have.Flagged+g.Flagged
		if g.First.Before(have.First) {
			have.First = g.First
		}
		if g.Last.After(have.Last) {
			have.Last = g.Last
		}
	}
	slices.SortStableFunc(list, func(x, y DeadLetterGroup) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Group, y.Group))
	})
	return list
}

// deadLetterGroups reads groups, one more than are told, of at most so many dead letters, and returns of how many.
func (b *Inbox) deadLetterGroups(ctx context.Context, q DeadLetterQuery, of scope, limit int) (list []DeadLetterGroup, letters int, err error) {
	if limit <= 0 {
		return nil, 0, nil
	}
	f := q.filter()
	conditions := f.where()
	from, err := q.from(&f)
	if err != nil {
		return nil, 0, err
	}
	sql := fmt.Sprintf(`SELECT fingerprint, class, code, destination, type, count(*), count(DISTINCT (fence, entity)),
		count(*) FILTER (WHERE deaths >= %d), min(died_at), max(died_at), sum(count(*)) OVER () FROM (%s WHERE %s ORDER BY fence, lane_seq LIMIT %d) g
		GROUP BY fingerprint, class, code, destination, type ORDER BY count(*) DESC, fingerprint LIMIT %d`, ledger.FlaggedDeaths, of.sql(from), conditions, limit, maxGroups+1)
	err = inOrder(ctx, b.slow, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, f.args...)
		if err == nil {
			list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g DeadLetterGroup, err error) {
				return g, row.Scan(&g.Group, &g.Class, &g.Code, &g.Destination, &g.Type, &g.Count, &g.Entities, &g.Flagged, &g.First, &g.Last, &letters)
			})
		}
		return err
	})
	return list, letters, err
}

// DeadLetterDetail is all that is known of an action that has a row.
type DeadLetterDetail struct {
	DeadLetter
	// History are its attempts. What its destination has reported too late is there, too, with class too_late: an action may be dead that is done.
	History  []Attempt
	Commands []CommandStatus // what was asked about it, the oldest first
}

// FindDeadLetter reads one action by its id, in any status, without counting the events behind it. Kinds: NotFound if it has no row,
// Invalid if that is no action's id, Unavailable.
func (b *Inbox) FindDeadLetter(ctx context.Context, id schemas.ActionID) (d DeadLetter, err error) {
	ref, err := b.FindAction(ctx, id)
	if err != nil {
		return d, err
	}
	op := "read action " + string(id)
	var items []DeadLetter
	err = b.ledger.InWindowsOf(ctx, b.look, ref.Fence, func(windows []int32) (err error) {
		items, err = readDeadLetters(ctx, b.look, ledger.OfWindows(windows, ledger.DeadSelect)+` WHERE a.fence = $1 AND a.lane_seq = $2) d`, []any{ref.Fence, ref.LaneSeq})
		return err
	})
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return d, ledger.Unavailable(op, err)
	case len(items) == 0:
		return d, schemas.Errorf(schemas.NotFound, op, "it is gone")
	}
	return items[0], nil
}

// DeadLetter returns what FindDeadLetter does, the events behind it if it parks its entity, its attempts and its commands. Kinds as
// there.
func (b *Inbox) DeadLetter(ctx context.Context, id schemas.ActionID) (d DeadLetterDetail, err error) {
	found, err := b.FindDeadLetter(ctx, id)
	if err != nil {
		return d, err
	}
	items := []DeadLetter{found}
	err = b.countBehindDead(ctx, items)
	if err == nil {
		d.DeadLetter = items[0]
		d.History, d.Commands, err = b.deadHistory(ctx, &found)
	}
	return d, ledger.Unavailable("read action "+string(id), err)
}

// deadHistory reads the attempts and commands of a dead letter's action, the oldest first. If its partition is forgotten, there are only
// the commands.
func (b *Inbox) deadHistory(ctx context.Context, d *DeadLetter) (attempts []Attempt, commands []CommandStatus, err error) {
	err = b.ledger.InWindowsOf(ctx, b.look, d.Fence, func(windows []int32) error {
		rows, err := b.slow.Query(ctx, ledger.OfWindows(windows, `SELECT attempt, ended_at, status, class, code, latency_us / 1000.0::float8, error, response, `+traceText+` FROM {attempts} t
			WHERE fence = $1 AND lane_seq = $2
			UNION ALL SELECT attempt, received_at, status, 'too_late', code, 0, 'its destination reported ' || status || ', too late to change anything' || CASE status WHEN 'done' THEN '; a replay takes it, and calls nothing' ELSE '' END || coalesce(': ' || nullif(error, ''), ''),
			    response, '' FROM results WHERE fence = $1 AND lane_seq = $2 AND outcome = 'late' ORDER BY 1, 2`), d.Fence, d.LaneSeq)
		if err == nil {
			attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Attempt])
		}
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // no rows: the ledger has no such fence
		return nil, nil, err
	}
	rows, err := b.slow.Query(ctx, `SELECT c.id, c.kind, c.asked_by, c.reason, c.asked_at, c.ended_at, coalesce(c.outcome, ''), '' FROM commands c
		WHERE c.fence = $1 AND c.lane_seq = $2 ORDER BY c.id`, d.Fence, d.LaneSeq)
	if err == nil {
		commands, err = pgx.CollectRows(rows, pgx.RowToStructByPos[CommandStatus])
	}
	return attempts, commands, err
}

// readDeadLetters reads the dead letters of a query with the columns of ledger.DeadSelect. It leaves Behind nil.
func readDeadLetters(ctx context.Context, from interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, sql string, args []any) ([]DeadLetter, error) {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (DeadLetter, error) {
		d, err := ledger.ScanDeadLetter(r)
		return DeadLetter{DeadLetter: d}, err
	})
}

// DeadPayload returns the bytes of a dead letter, or where they are in the log; see [ledger.Ledger.DeadPayload].
func (b *Inbox) DeadPayload(ctx context.Context, d ledger.DeadLetter) (packed []byte, p ledger.Pointer, err error) {
	return b.ledger.DeadPayload(ctx, d)
}
