package access

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Change is a row of the audit: who wanted to change what and why, and what became of it. The API answers with its JSON.
type Change struct {
	ID      int64      `json:"id"`
	At      time.Time  `json:"at"`
	Actor   string     `json:"actor"` // the name of a token; loopback or ledger, if nobody had to have one; nobody, who could not log in; forebay, by itself
	Role    string     `json:"role"`  // of the token
	By      string     `json:"by"`    // who says so, as the client tells it
	Action  string     `json:"action"`
	Team    string     `json:"team"` // empty: it concerns all of them, or what it is about was not found
	Object  string     `json:"object"`
	Reason  string     `json:"reason"`
	Outcome string     `json:"outcome"` // done, refused or failed; empty: it was begun, and nobody said what became of it
	Detail  string     `json:"detail"`  // why not
	EndedAt *time.Time `json:"ended_at"`
	// Before and After are what it is about, as far as it is known; null where it is not.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// ChangeQuery narrows a list of changes. Empty fields select everything.
type ChangeQuery struct {
	Team, Actor, Action, Object string
	Since                       time.Time
	Limit                       int
	Cursor                      string // of the page before
}

// BeginChange keeps a change before it is tried, and returns its id. What it says stays as it is from then on.
func (s *Store) BeginChange(ctx context.Context, c Change) (id int64, err error) {
	err = s.db.QueryRow(ctx, `INSERT INTO audit (actor, role, said_by, action, team, object, reason) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		pg.Clean(c.Actor, 200), c.Role, pg.Clean(c.By, 200), pg.Clean(c.Action, 100), pg.Clean(c.Team, 200), pg.Clean(c.Object, 1000), pg.Clean(c.Reason, 1000)).Scan(&id)
	if err != nil {
		return 0, pg.Unavailable("keep the change in the audit", err)
	}
	return id, nil
}

// EndChange says what became of a change. It is said once: another outcome is refused.
func (s *Store) EndChange(ctx context.Context, id int64, c Change) error {
	tag, err := s.db.Exec(ctx, `UPDATE audit SET ended_at = now(), outcome = $2, detail = $3, team = CASE team WHEN '' THEN $4 ELSE team END, before = $5, after = $6
		WHERE id = $1 AND ended_at IS NULL`, id, c.Outcome, pg.Clean(c.Detail, 1000), pg.Clean(c.Team, 200), orNull(c.Before), orNull(c.After))
	if err != nil {
		return pg.Unavailable("say in the audit what became of a change", err)
	}
	if tag.RowsAffected() == 0 {
		return schemas.Errorf(schemas.Conflict, "say in the audit what became of a change", "there is none with id %d that has not ended", id)
	}
	return nil
}

// orNull returns nil for nothing, which is not the JSON null.
func orNull(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return string(text)
}

// mostChanges is the most rows of a page.
const mostChanges = 1000

const listing = "list the audit"

// ChangesSQL returns the statement that reads a page, and one row more, backwards over audit_pkey or over the index of a filter. It has the
// filters that are given alone: a plan for all of them would read the whole table for the few rows of one. Since is a place in the order of
// ids, too, which is that of times but for a moment.
func ChangesSQL(q ChangeQuery) (sql string, args []any, err error) {
	below := int64(1) << 62
	if q.Cursor != "" {
		if below, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return "", nil, schemas.Errorf(schemas.Invalid, listing, "the cursor is none of the audit's: take next of the page before")
		}
	}
	if q.Limit < 1 || q.Limit > mostChanges {
		return "", nil, schemas.Errorf(schemas.Invalid, listing, "limit %d is not in 1..%d", q.Limit, mostChanges)
	}
	where, args := "id < $1", []any{below}
	add := func(condition string, value any) {
		args = append(args, value)
		where += " AND " + strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args)))
	}
	for _, f := range [][2]string{{"team", q.Team}, {"actor", q.Actor}, {"action", q.Action}, {"object", q.Object}} {
		if f[1] != "" {
			add(f[0]+" = ?", f[1])
		}
	}
	if !q.Since.IsZero() {
		add("at >= ? AND id > coalesce((SELECT id FROM audit WHERE at < ?::timestamptz - interval '1 minute' ORDER BY at DESC LIMIT 1), 0)", q.Since)
	}
	return `SELECT id, at, actor, role, said_by, action, team, object, reason, coalesce(outcome, ''), detail, ended_at, before, after FROM audit
WHERE ` + where + ` ORDER BY id DESC LIMIT ` + strconv.Itoa(q.Limit+1), args, nil
}

// Changes lists changes, the newest first, and the cursor of the next page, which is empty on the last one. Kinds: Invalid for a bad limit
// or cursor, Unavailable.
func (s *Store) Changes(ctx context.Context, q ChangeQuery) (list []Change, next string, err error) {
	sql, args, err := ChangesSQL(q)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Query(ctx, sql, args...)
	if err == nil {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change, err error) {
			return c, row.Scan(&c.ID, &c.At, &c.Actor, &c.Role, &c.By, &c.Action, &c.Team, &c.Object, &c.Reason, &c.Outcome, &c.Detail, &c.EndedAt, &c.Before, &c.After)
		})
	}
	if err != nil {
		return nil, "", pg.Unavailable(listing, err)
	}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = strconv.FormatInt(list[q.Limit-1].ID, 10)
	}
	return list, next, nil
}
