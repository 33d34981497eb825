package ledger

// What goes along with a subscription that is moved, and how its rows become rows of another ledger: the columns are copied as they are, but for those
// that name a row of this ledger, which movedColumns lists. A column of a later migration goes along by itself; TestMoveKnowsEveryTable fails for
// a table that is not listed, and for a reference that is not.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// movedTable is a table with rows of subscriptions. of says which: ids in braces stand for those of the old ledger.
type movedTable struct{ name, of string }

const (
	ofSubscription = "t.subscription = ANY ({subscriptions})"
	ofFence        = "t.fence = ANY ({fences})"
)

var (
	// numberedTables are those whose rows others name by their ids, in an order in which they can be written.
	numberedTables = []movedTable{{"subscriptions", "t.id = ANY ({subscriptions})"}, {"effects", ofSubscription}, {"plans", ofSubscription}, {"fences", ofSubscription},
		{"windows", ofSubscription}, {"replays", ofSubscription}, {"approvals", ofSubscription}}
	// plainTables, and the tables of the windows, are copied in any order.
	plainTables = []movedTable{{"begins", ofSubscription}, {"topics", ofSubscription}, {"progress", ofFence}, {"seeks", ofFence}, {"seek_requests", ofFence},
		{"second_keys", ofSubscription}, {"sayings", ofSubscription}, {"version_lines", ofFence}, {"buffer", ofFence}, {"backfills", ofFence}, {"commands", ofFence},
		{"results", ofFence}, {"stops", ofSubscription}, {"replay_parts", ofFence}, {"replay_shadows", ofFence}, {"replay_differences", ofFence}}
	// lastTables are known by names, which both ledgers may have: they are copied with the end of the move.
	lastTables = []movedTable{{"subscription_pauses", "t.subscription = {name}"}, {"counters", "starts_with(t.name, {budgets})"}}
	// keptTables stay: they are of processes, people, destinations or the ledger itself.
	keptTables = []string{"identity", "migrations", "migration_files", "moves", "members", "destinations", "outages", "pauses", "deciders", "tokens", "sessions", "audit",
		"alerts_told", "alert_silences"}
)

// movedColumns say of which table a column has ids. What was dropped there with its window is 0 in the new ledger, which no window has; version
// lines that moved last in such a window count as of the oldest.
var movedColumns = map[string]struct{ of, as string }{
	"subscription": {"subscriptions", "%s.new"}, "fence": {"fences", "%s.new"}, "effect": {"effects", "%s.new"}, "plan": {"plans", "%s.new"}, "was_plan": {"plans", "%s.new"}, "replay": {"replays", "%s.new"},
	"window_id": {"windows", "%s.new"}, "event_window": {"windows", "coalesce(%s.new, 0)"},
	"lane_window": {"windows", "CASE WHEN t.lane_window IS NOT NULL THEN coalesce(%s.new, 0) END"},
	"seen_in":     {"windows", "CASE WHEN t.seen_in = 0 THEN 0 ELSE coalesce(%s.new, {oldest}) END"},
}

// reference returns of which table a column of a table has ids; empty if it has none. The replay of an event is the generation of its key and of its
// actions' ids: it stays as it is, and is in the replay's column was.
func reference(table, column, kind string) string {
	if kind != "integer" && kind != "bigint" || table == "events" && column == "replay" {
		return ""
	}
	return movedColumns[column].of
}

// movedIDs are the ids of the old ledger and those that the new one has for them, by table.
type movedIDs map[string]*idPairs

type idPairs struct{ Old, New []int64 }

func literal(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return "'{" + strings.Join(texts, ",") + "}'::bigint[]"
}

// oldIDs reads the ids that the old ledger has.
func (v *mover) oldIDs(ctx context.Context) (movedIDs, error) {
	ids := movedIDs{}
	for _, t := range numberedTables {
		of := `subscription IN (SELECT id FROM subscriptions WHERE name = $1)`
		if t.name == "subscriptions" {
			of = `name = $1`
		}
		rows, err := v.from.Query(ctx, `SELECT id::bigint FROM `+t.name+` WHERE `+of+` ORDER BY id`, v.Subscription)
		if err != nil {
			return nil, err
		}
		ids[t.name] = &idPairs{}
		if ids[t.name].Old, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// keptIDs are of the tables whose ids people know, and, of replays, events: they stay where the new ledger has no such id, and it gives higher ones
// from then on.
var keptIDs = []string{"replays", "approvals"}

// newIDs has the new ledger give ids, ascending as the old ones.
func (v *mover) newIDs(ctx context.Context, tx pgx.Tx, ids movedIDs) error {
	for _, t := range numberedTables {
		p := ids[t.name]
		if len(p.Old) == 0 {
			continue
		}
		free := false
		if slices.Contains(keptIDs, t.name) {
			err := tx.QueryRow(ctx, `SELECT setval(pg_get_serial_sequence($1, 'id'), greatest(nextval(pg_get_serial_sequence($1, 'id')), $2)) IS NOT NULL
				AND NOT EXISTS (SELECT FROM `+t.name+` WHERE id = ANY ($3))`, t.name, slices.Max(p.Old), p.Old).Scan(&free)
			if err != nil {
				return err
			}
		}
		if p.New = p.Old; free {
			continue
		}
		rows, err := tx.Query(ctx, `SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, $2)`, t.name, len(p.Old))
		if err != nil {
			return err
		}
		if p.New, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
	}
	return nil
}

// number copies what others name by its id, makes the windows' tables, and keeps which id is for which.
func (v *mover) number(ctx context.Context) error {
	if err := v.forget(ctx, v.To, v.to); err != nil { // of a process that was started too early, and has decided nothing
		return err
	}
	stands, err := v.stands(ctx, v.from)
	if err != nil {
		return err
	}
	ids, err := v.oldIDs(ctx)
	if err != nil {
		return err
	}
	return v.in(ctx, v.To, v.to, func(tx *pg.Tx) error {
		if err := v.newIDs(ctx, tx, ids); err != nil {
			return err
		}
		v.ids = &ids
		for _, t := range numberedTables {
			if err := v.copyTable(ctx, tx, t, t.name, t.name); err != nil {
				return err
			}
		}
		for _, id := range ids["windows"].New {
			if err := window.Make(ctx, tx, int32(id)); err != nil {
				return err
			}
		}
		return exactly(tx.Exec(ctx, `UPDATE moves SET ids = $2, stood = $3 WHERE subscription = $1`, v.Subscription, ids, stands))
	})
}

// stands is a text that changes with what the old ledger has of the subscription.
func (v *mover) stands(ctx context.Context, from querier) (text string, err error) {
	err = from.QueryRow(ctx, `SELECT concat_ws(' ', count(*), sum(f.epoch), sum(p.revision), sum(p.next_lane_seq), max(c.id), max(r.id), max(q.id),
			(SELECT md5(string_agg(concat_ws(' ', a.id, a.state, a.first_by, a.told_at, a.made, a.closed_at), ' ' ORDER BY a.id)) FROM approvals a JOIN subscriptions s ON s.id = a.subscription WHERE s.name = $1),
			(SELECT md5(string_agg(concat_ws(' ', y.id, y.bounds, y.started_at, y.cancelled_at), ' ' ORDER BY y.id)) FROM replays y JOIN subscriptions s ON s.id = y.subscription WHERE s.name = $1),
			(SELECT count(k.accepted_at) FROM stops k JOIN subscriptions s ON s.id = k.subscription WHERE s.name = $1))
		FROM subscriptions s JOIN fences f ON f.subscription = s.id LEFT JOIN progress p ON p.fence = f.id
		LEFT JOIN LATERAL (SELECT max(id) AS id FROM commands WHERE fence = f.id) c ON true LEFT JOIN LATERAL (SELECT max(id) AS id FROM results WHERE fence = f.id) r ON true
		LEFT JOIN LATERAL (SELECT max(id) AS id FROM seek_requests WHERE fence = f.id) q ON true WHERE s.name = $1`, v.Subscription).Scan(&text)
	return text, err
}

// copyAll copies what is not copied yet.
func (v *mover) copyAll(ctx context.Context) (err error) {
	if v.new, err = readMark(ctx, v.to, v.Subscription); err == nil && v.new.IDs == nil {
		if err = v.number(ctx); err == nil {
			v.new, err = readMark(ctx, v.to, v.Subscription)
		}
	}
	if err != nil {
		return err
	}
	v.ids = v.new.IDs
	one := func(t movedTable, from, to string) error {
		if slices.Contains(v.new.Copied, from) {
			return nil
		}
		return v.in(ctx, v.To, v.to, func(tx *pg.Tx) error {
			if err := v.copyTable(ctx, tx, t, from, to); err != nil {
				return err
			}
			return exactly(tx.Exec(ctx, `UPDATE moves SET copied = copied || $2 WHERE subscription = $1`, v.Subscription, []string{from}))
		})
	}
	for _, t := range plainTables {
		if err := one(t, t.name, t.name); err != nil {
			return err
		}
	}
	windows := (*v.ids)["windows"]
	for i := range windows.Old {
		for _, name := range window.Tables {
			if err := one(movedTable{name, "true"}, fmt.Sprintf("%s_w%d", name, windows.Old[i]), fmt.Sprintf("%s_w%d", name, windows.New[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// where is the condition that selects the subscription's rows.
func (v *mover) where(t movedTable) string {
	of := t.of
	for table, p := range *v.ids {
		of = strings.ReplaceAll(of, "{"+table+"}", literal(p.Old))
	}
	team, name, _ := strings.Cut(v.Subscription, ".")
	of = strings.ReplaceAll(of, "{name}", quoted(v.Subscription))
	of = strings.ReplaceAll(of, "{budgets}", quoted("budget teams."+team+".subscriptions."+name+"."))
	return of
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// movedColumn is a column as the old ledger has it.
type movedColumn struct {
	Name, Kind          string
	Identity, Generated bool
}

// selectOf returns the names of the columns that are copied of a table, and what reads them as the new ledger has them.
func (v *mover) selectOf(ctx context.Context, t movedTable, from string) (names, sql string, err error) {
	rows, err := v.from.Query(ctx, `SELECT attname::text AS name, format_type(atttypid, NULL) AS kind, attidentity <> '' AS identity, attgenerated <> '' AS generated
		FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, from)
	if err != nil {
		return "", "", err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByName[movedColumn])
	if err != nil {
		return "", "", err
	}
	var list, values []string
	joins, order := "", ""
	for _, c := range columns {
		of, as := reference(t.name, c.Name, c.Kind), movedColumns[c.Name].as
		if c.Identity && (*v.ids)[t.name] != nil {
			of, as = t.name, "%s.new"
		}
		column := pgx.Identifier{c.Name}.Sanitize()
		value := "t." + column
		switch {
		case c.Generated:
			continue
		case of != "":
			alias := "of_" + c.Name
			p := (*v.ids)[of]
			joins += fmt.Sprintf(" LEFT JOIN unnest(%s, %s) AS %s (old, new) ON %[3]s.old = t.%s", literal(p.Old), literal(p.New), alias, column)
			value = fmt.Sprintf("(%s)::%s", fmt.Sprintf(as, alias), c.Kind)
		case c.Identity: // nobody names the row by it
			order = " ORDER BY t." + column
			continue
		case t.name == "replays" && c.Name == "was":
			value = "coalesce(t.was, t.id)"
		case t.name == "plans" && c.Name == "effects":
			p := (*v.ids)["effects"]
			value = fmt.Sprintf("ARRAY(SELECT x.new::int FROM unnest(t.effects) WITH ORDINALITY e (old, n) JOIN unnest(%s, %s) AS x (old, new) ON x.old = e.old ORDER BY e.n)", literal(p.Old), literal(p.New))
		}
		list, values = append(list, column), append(values, value)
	}
	sql = "SELECT " + strings.Join(values, ", ") + " FROM " + from + " t" + joins + " WHERE " + v.where(t) + order
	if windows := (*v.ids)["windows"].New; len(windows) > 0 {
		sql = strings.ReplaceAll(sql, "{oldest}", strconv.FormatInt(windows[0], 10))
	}
	return strings.Join(list, ", "), sql, nil
}

// copyTable copies a table's rows from the old ledger into a transaction on the new one.
func (v *mover) copyTable(ctx context.Context, tx *pg.Tx, t movedTable, from, to string) error {
	names, sql, err := v.selectOf(ctx, t, from)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	type written struct {
		rows int64
		err  error
	}
	sent := make(chan written, 1)
	go func() {
		n, err := v.copyOut(ctx, w, sql)
		w.CloseWithError(err)
		sent <- written{n, err}
	}()
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, r, "COPY "+to+" ("+names+") FROM STDIN (FORMAT binary)")
	r.CloseWithError(err) // ends the other half
	out := <-sent
	switch {
	case out.err != nil && !errors.Is(out.err, err):
		return fmt.Errorf("read %s: %w", from, out.err)
	case err != nil:
		return fmt.Errorf("write %s: %w", to, err)
	case out.rows != tag.RowsAffected():
		return schemas.Errorf(schemas.Internal, "", "of %d rows of %s %d came", out.rows, from, tag.RowsAffected())
	}
	if v.done += out.rows; v.Progress != nil {
		v.Progress(from, v.done, max(v.done, v.rows))
	}
	return nil
}

// copyOut writes what a query reads in the old ledger.
func (v *mover) copyOut(ctx context.Context, to io.Writer, sql string) (rows int64, err error) {
	copyTo := func(conn *pgx.Conn) error {
		tag, err := conn.PgConn().CopyTo(ctx, to, "COPY ("+sql+") TO STDOUT (FORMAT binary)")
		rows = tag.RowsAffected()
		return err
	}
	if v.from.Conn().PgConn().TxStatus() != 'I' { // with the last tables it is in a transaction, which has no limits
		return rows, copyTo(v.from.Conn())
	}
	err = v.in(ctx, v.From, v.from, func(tx *pg.Tx) error { return copyTo(tx.Conn()) })
	return rows, err
}

// count counts the rows that go along.
func (v *mover) count(ctx context.Context) (list []MovedRows, err error) {
	ids, err := v.oldIDs(ctx)
	if err != nil {
		return nil, err
	}
	v.ids = &ids
	err = v.in(ctx, v.From, v.from, func(tx *pg.Tx) error {
		for _, t := range slices.Concat(numberedTables, plainTables, lastTables) {
			r := MovedRows{Table: t.name}
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+t.name+` t WHERE `+v.where(t)).Scan(&r.Rows); err != nil {
				return err
			}
			list = append(list, r)
		}
		for _, name := range window.Tables {
			r := MovedRows{Table: name}
			for _, id := range ids["windows"].Old {
				var n int64
				if err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s_w%d`, name, id)).Scan(&n); err != nil {
					return err
				}
				r.Rows += n
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

// forgotten is how many rows one statement deletes.
const forgotten = 50_000

// forget deletes what a ledger has of the subscription, but for its mark and pauses.
func (v *mover) forget(ctx context.Context, l *Ledger, conn *pgxpool.Conn) error {
	subscriptions, err := ints(ctx, conn, `SELECT id FROM subscriptions WHERE name = $1 ORDER BY id`, v.Subscription)
	if err != nil || len(subscriptions) == 0 {
		return err
	}
	windows, err := ints(ctx, conn, `SELECT id FROM windows WHERE subscription = ANY ($1) ORDER BY id`, subscriptions)
	if err != nil {
		return err
	}
	for _, id := range windows {
		for try, gone := 0, false; !gone; try++ { // somebody may read it
			if err := pg.Backoff(ctx, try); err != nil {
				return err
			}
			if _, err := l.sweeper.Drop(ctx, id); err != nil {
				return err
			}
			var left bool
			if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM windows WHERE id = $1)`, id).Scan(&left); err != nil {
				return err
			}
			gone = !left
		}
	}
	for table, of := range map[string]string{"version_lines": "fence", "buffer": "fence", "second_keys": "subscription", "sayings": "subscription"} {
		ids := `$1`
		if of == "fence" {
			ids = `ARRAY(SELECT id FROM fences WHERE subscription = ANY ($1))`
		}
		for left := true; left; {
			err := v.in(ctx, l, conn, func(tx *pg.Tx) error {
				tag, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE ctid = ANY (ARRAY(SELECT ctid FROM `+table+` WHERE `+of+` = ANY (`+ids+`) LIMIT $2))`, subscriptions, forgotten)
				left = tag.RowsAffected() > 0
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return v.in(ctx, l, conn, func(tx *pg.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM subscriptions WHERE id = ANY ($1)`, subscriptions)
		return err
	})
}
