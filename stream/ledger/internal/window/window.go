// Package window is the tables that rotate: their names, how they are made and dropped, and SQL that names them.
//
// Every subscription has windows of its own, and a window has a child of each table that rotates. A statement that names the
// parent table is planned over the children of all subscriptions, and locks them: with 3 to 57 children a claim spent a
// quarter of a second on that on average. So statements for one subscription name the children of its windows; operators'
// lists name those of some subscriptions at a time. All are written with {actions}, which OfMany, OfSome and, for the parents, OfAll replace.
package window

import (
	"context"
	_ "embed"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Tables are those that rotate.
var Tables = []string{"events", "rejected_records", "actions", "completions", "attempts"}

// OfAll returns a statement on the windows of all subscriptions: {actions} becomes the parent table.
func OfAll(sql string) string {
	for _, table := range Tables {
		sql = strings.ReplaceAll(sql, "{"+table+"}", table)
	}
	return sql
}

// OfMany returns a statement on some windows, at least one. {actions} becomes the child table or, of several windows, a subquery over the
// children, which the planner takes apart into scans of them. So a table in braces must have an alias behind it.
func OfMany(windows []int32, sql string) string {
	for _, table := range Tables {
		if !strings.Contains(sql, "{"+table+"}") {
			continue
		}
		children := make([]string, len(windows))
		for i, w := range windows {
			children[i] = table + "_w" + strconv.Itoa(int(w))
		}
		from := children[0]
		if len(children) > 1 {
			from = "(SELECT * FROM " + strings.Join(children, " UNION ALL SELECT * FROM ") + ")"
		}
		sql = strings.ReplaceAll(sql, "{"+table+"}", from)
	}
	return sql
}

// OfSome is OfMany by the parent tables: {actions} becomes a subquery that the planner cuts down to the children of these windows, and a probe
// by window_id to one of them, where OfMany's looks into each. It locks the parents, so a DROP of a window waits for it. A window that is
// gone is no error.
func OfSome(windows []int32, sql string) string {
	ids := make([]string, len(windows))
	for i, w := range windows {
		ids[i] = strconv.Itoa(int(w))
	}
	for _, table := range Tables {
		sql = strings.ReplaceAll(sql, "{"+table+"}", "(SELECT * FROM "+table+" WHERE window_id IN ("+strings.Join(ids, ", ")+"))")
	}
	return sql
}

// Of returns a statement on one window: {w} becomes its id.
func Of(window int32, sql string) string {
	return strings.ReplaceAll(sql, "{w}", strconv.Itoa(int(window)))
}

//go:embed window.sql
var tables string

// Add makes a window with its tables, as the current one or as the one ahead. The caller has locked the subscription's row. It
// touches nothing that batches use.
func Add(ctx context.Context, tx pgx.Tx, subscription int32, current bool) error {
	state := "ahead"
	if current {
		state = "current"
	}
	var id int32
	err := tx.QueryRow(ctx, `INSERT INTO windows (subscription, state, opened_at)
		VALUES ($1, $2, CASE WHEN $2 = 'current' THEN now() END) RETURNING id`, subscription, state).Scan(&id)
	if err != nil {
		return err
	}
	return Make(ctx, tx, id)
}

// Make makes the tables of a window whose row is there.
func Make(ctx context.Context, tx pgx.Tx, id int32) error {
	_, err := tx.Exec(ctx, Of(id, tables))
	return err
}

// Drop drops a window with its tables and its row. Batches that still know the window find its tables gone, and read the windows again.
func Drop(ctx context.Context, tx pgx.Tx, id int32) error {
	for _, table := range Tables {
		if _, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+table+`_w`+strconv.Itoa(int(id))); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM windows WHERE id = $1`, id)
	return err
}

// DeadClass is the class of an action that was given up because its event was behind a gap (then: dead_letter). It parks no lane, whatever
// on_dead says: that policy has what follows go on.
const DeadClass = "gap"

// ParksLane is a condition that holds unless action a, with effect x, is dead and its lane goes on without it.
const ParksLane = `(a.status <> 'dead_letter' OR a.guarded OR x.on_dead = 'park' AND a.class IS DISTINCT FROM '` + DeadClass + `')`
