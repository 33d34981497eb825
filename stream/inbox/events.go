package inbox

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Query selects events of the inbox. Empty fields select everything.
type Query struct {
	Team, Subscription string // Subscription without its team
	Source             string // "/<team>/<source>"
	Entity             schemas.EntityKey
	Type               string
	// Status is one of Statuses.
	Status string
	// Decision filters by the gate's word; duplicate selects the events that came again.
	Decision gate.Decision
	// Since is a lower bound of the decision's time.
	Since time.Time
	// Limit is at most 1000; 0 is 100.
	Limit int
	// Cursor is Page.Next of the page before.
	Cursor string
}

// Item is what became of one event, or of one record that is none, in one subscription.
type Item struct {
	Team         string        `json:"team"`
	Subscription string        `json:"subscription"`
	Generation   int32         `json:"generation"`
	Source       string        `json:"source"`
	EventID      string        `json:"event_id"`
	Type         string        `json:"type"`
	Entity       string        `json:"entity"`
	Version      string        `json:"version"`
	VersionKind  string        `json:"version_kind"`
	VersionClock string        `json:"version_clock"`
	Status       string        `json:"status"`
	Decision     gate.Decision `json:"decision"`
	Reason       gate.Reason   `json:"reason"`
	Duplicates   int           `json:"duplicates"`
	Attempts     int           `json:"attempts"`
	NextActionAt *time.Time    `json:"next_action_at"`
	LastError    string        `json:"last_error,omitempty"`
	Topic        string        `json:"topic"`
	Partition    int32         `json:"partition"`
	Offset       int64         `json:"offset"`
	Owner        string        `json:"owner,omitempty"`
	ReceivedAt   *time.Time    `json:"received_at"` // null where a record has no readable time
	DecidedAt    time.Time     `json:"decided_at"`
	Redriven     *Redriven     `json:"redriven,omitempty"` // of a quarantined record that was produced again
	Behind       *Behind       `json:"behind,omitempty"`   // events that stand still behind it, where any may; only from Inbox
	Actions      []Action      `json:"actions,omitempty"`  // only from Item

	Fence   int32          `json:"-"`
	Pointer ledger.Pointer `json:"-"` // where its bytes are, if the ledger has no copy

	window, laneCount int32
	laneSeq           *int64
}

// Action is one action of an event, with the attempts that did not simply succeed.
type Action struct {
	ID          schemas.ActionID `json:"id"`
	Name        string           `json:"name"`
	Destination string           `json:"destination"`
	LaneSeq     int64            `json:"lane_seq"`
	Status      ledger.Status    `json:"status"`
	Attempts    int              `json:"attempts"`
	Class       string           `json:"class,omitempty"`
	Code        int              `json:"code,omitempty"`
	Error       string           `json:"error,omitempty"`
	Response    []byte           `json:"response,omitempty"`
	LatencyMS   float64          `json:"latency_ms"`
	CreatedAt   time.Time        `json:"created_at"`
	NextAt      *time.Time       `json:"next_at,omitempty"`
	FinishedAt  *time.Time       `json:"finished_at,omitempty"`
	History     []Attempt        `json:"history,omitempty"`
}

// Attempt is one try of an action.
type Attempt struct {
	Attempt   int           `json:"attempt"`
	EndedAt   time.Time     `json:"ended_at"`
	Status    ledger.Status `json:"status"`
	Class     string        `json:"class"`
	Code      int           `json:"code,omitempty"`
	LatencyMS float64       `json:"latency_ms"`
	Error     string        `json:"error,omitempty"`
	Response  []byte        `json:"response,omitempty"`
	TraceID   string        `json:"trace_id,omitempty"` // 32 hex digits
}

// Page is a page of the inbox, newest first. Next is empty on the last one.
type Page struct {
	Items []Item `json:"items"`
	Next  string `json:"next"`
}

// Statuses lists the statuses that an event can have in a subscription. Where actions run: received (none tried
// yet), processing (some done, or a destination that has taken one says later what came of it), failed (will be retried),
// parked (behind a dead or unknown action of its entity), dead_letter, unknown, done, superseded (a newer version came
// before any was tried). Where none do: buffered, parked, redriven (a quarantined record that was produced again), or
// the decision.
func Statuses() []string {
	return []string{"received", "buffered", "processing", "done", "superseded", "discarded", "failed", "dead_letter", "parked", "unknown",
		"stale", "filtered", "conflict", "quarantined", "redriven"}
}

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

// List lists what became of events, newest decision first. Filters on source, entity and type read the events of the
// time asked for until the page is full.
func (b *Inbox) List(ctx context.Context, q Query) (Page, error) {
	const op = "list the inbox"
	if err := q.validate(); err != nil {
		return Page{}, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	where, args, err := q.conditions()
	if err != nil {
		return Page{}, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	items, err := b.inboxSlices(ctx, where, args, q)
	if err != nil {
		return Page{}, ledger.Unavailable(op, err)
	}
	page := Page{Items: items}
	if err := b.inboxBehind(ctx, items); err != nil {
		return Page{}, ledger.Unavailable(op, err)
	}
	if len(items) > q.Limit {
		page.Items = items[:q.Limit]
		page.Next = cursorOf(&page.Items[q.Limit-1])
	}
	return page, nil
}

// inboxSlices reads the inbox from now into the past, in slices of time that grow until the page is full: the index on
// time knows ranges of pages, no order. The order is made in each slice.
func (b *Inbox) inboxSlices(ctx context.Context, where string, args []any, q Query) (items []Item, err error) {
	n := len(args)
	sql := fmt.Sprintf("%s WHERE %s\n  AND decided_at >= $%d AND decided_at < $%d\nORDER BY decided_at DESC, fence DESC, log_offset DESC LIMIT $%d",
		q.from(), where, n+1, n+2, n+3)
	var now time.Time
	if q.Cursor != "" {
		now, _, _, err = parseCursor(q.Cursor)
	} else {
		err = b.read.QueryRow(ctx, `SELECT now()`).Scan(&now)
	}
	if err != nil {
		return nil, err
	}
	to := now.Add(time.Minute) // the database's clock may have been set back since
	for width := 100 * time.Millisecond; len(items) <= q.Limit; width *= 8 {
		from, last := now.Add(-width), false
		if width > 400*24*time.Hour {
			from, last = time.Time{}, true
		}
		if !from.After(q.Since) {
			from, last = q.Since, true
		}
		some, err := b.inboxItems(ctx, sql, append(args[:n:n], from, to, q.Limit+1-len(items)))
		if err != nil {
			return nil, err
		}
		if items = append(items, some...); last {
			break
		}
		to = from
	}
	return items, nil
}

// conditions builds the WHERE clause; values are only ever parameters.
func (q Query) conditions() (string, []any, error) {
	var (
		where = []string{"true"}
		args  []any
	)
	add := func(cond string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			cond = strings.Replace(cond, "?", "$"+strconv.Itoa(len(args)), 1)
		}
		where = append(where, cond)
	}
	if q.Team != "" {
		add("split_part(subscription, '.', 1) = ?", q.Team)
	}
	if q.Subscription != "" {
		add("substr(subscription, strpos(subscription, '.') + 1) = ?", q.Subscription)
	}
	if q.Source != "" {
		add("source = ?", q.Source)
	}
	if q.Entity != "" {
		add("entity = ?", string(q.Entity))
	}
	if q.Type != "" {
		add("type = ?", q.Type)
	}
	if q.Status != "" {
		add("status = ?", q.Status)
	}
	switch {
	case q.Decision == gate.Duplicate:
		add("duplicates > 0")
	case q.Decision != "":
		add("decision = ?", string(q.Decision))
	}
	if !q.Since.IsZero() {
		add("decided_at >= ?", q.Since)
	}
	if q.Cursor != "" {
		at, fence, offset, err := parseCursor(q.Cursor)
		if err != nil {
			return "", nil, err
		}
		add("(decided_at, fence, log_offset) < (?, ?, ?)", at, fence, offset)
	}
	return strings.Join(where, "\n  AND "), args, nil
}

func cursorOf(i *Item) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%d", i.DecidedAt.UnixMicro(), i.Fence, i.Offset))
}

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

func (b *Inbox) inboxItems(ctx context.Context, sql string, args []any) ([]Item, error) {
	rows, err := b.read.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanItem)
}

func scanItem(r pgx.CollectableRow) (Item, error) {
	var (
		i         Item
		name      string
		v         schemas.Version
		key, hash *[16]byte
		topicID   [16]byte
		at        *time.Time
		by, why   *string
	)
	p := &i.Pointer
	err := r.Scan(&name, &i.Generation, &i.Source, &i.EventID, &i.Type, &i.Entity, &v.Kind, &v.Clock, &v.Epoch, &v.Value, &v.Word, &v.Sub,
		&i.Status, &i.Decision, &i.Reason, &i.Duplicates, &i.Attempts, &i.NextActionAt, &i.LastError, &i.Topic, &topicID, &i.Partition,
		&i.Offset, &p.LeaderEpoch, &key, &hash, &i.Owner, &i.ReceivedAt, &i.DecidedAt, &at, &by, &why, &i.Fence, &i.window, &i.laneSeq, &i.laneCount)
	if err != nil {
		return i, err
	}
	i.Team, i.Subscription, _ = strings.Cut(name, ".")
	i.VersionKind, i.VersionClock = string(v.Kind), v.Clock
	if i.Decision != gate.Quarantined || i.Reason == gate.ReasonMisplaced {
		i.Version = v.Text()
	}
	i.DecidedAt = i.DecidedAt.UTC()
	if at != nil && by != nil && why != nil {
		i.Redriven = &Redriven{At: at.UTC(), By: *by, Reason: *why}
	}
	p.Topic, p.TopicID, p.Partition, p.Offset = i.Topic, topicID, i.Partition, i.Offset
	if key != nil && hash != nil {
		p.Key, p.Hash = *key, *hash
	}
	return i, nil
}
