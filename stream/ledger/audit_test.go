package ledger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/access"
)

// TestAudit: a change is kept before it is tried, its outcome is said once, and a row stays as it is from then on, whoever writes SQL.
func TestAudit(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	begin := func(c Change) int64 {
		t.Helper()
		id, err := l.BeginChange(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := begin(Change{Actor: "ann", Role: "responder", By: "ann@ops", Action: "destination.pause", Team: "acme", Object: "acme/agent", Reason: "they\x00move"})
	second := begin(Change{Actor: "bob", Action: "dlq.replay", Object: "act_1", Reason: "mended"})
	end := Change{Outcome: "done", Team: "pay", Before: json.RawMessage(`{"state": "running"}`), After: json.RawMessage(`{"state": "paused"}`)}
	if err := l.EndChange(t.Context(), first, end); err != nil {
		t.Fatal(err)
	}
	if err := l.EndChange(t.Context(), first, Change{Outcome: "failed"}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("another outcome: %v", err)
	}
	if err := l.EndChange(t.Context(), second, Change{Outcome: "perhaps"}); err == nil {
		t.Error("an outcome that is none")
	}
	list, next, err := l.Changes(t.Context(), ChangeQuery{Limit: 10})
	if err != nil || next != "" || len(list) != 2 || list[0].ID != second || list[0].Outcome != "" || list[0].EndedAt != nil || list[0].Before != nil {
		t.Fatalf("%+v %q %v", list, next, err)
	}
	if c := list[1]; c.Actor != "ann" || c.Team != "acme" || c.Reason != "they\ufffdmove" || c.Outcome != "done" || c.EndedAt == nil || string(c.After) != `{"state": "paused"}` || time.Since(c.At).Abs() > time.Minute {
		t.Errorf("%+v", c)
	}
	if err := l.EndChange(t.Context(), second, Change{Outcome: "refused", Detail: "it is done", Team: "acme"}); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[ChangeQuery]int{
		{Team: "acme"}: 2, {Team: "pay"}: 0, {Actor: "bob"}: 1, {Action: "dlq.replay"}: 1, {Object: "acme/agent"}: 1, {Actor: "bob", Object: "acme/agent"}: 0,
		{Since: time.Now().Add(-time.Hour)}: 2, {Since: time.Now().Add(time.Hour)}: 0, {Cursor: fmt.Sprint(second)}: 1, {Cursor: fmt.Sprint(first)}: 0,
	} {
		filter.Limit = 10
		if list, _, err := l.Changes(t.Context(), filter); err != nil || len(list) != want {
			t.Errorf("%+v: %d %v", filter, len(list), err)
		}
	}
	if list, next, err := l.Changes(t.Context(), ChangeQuery{Limit: 1}); err != nil || len(list) != 1 || next != fmt.Sprint(second) {
		t.Errorf("a page: %+v %q %v", list, next, err)
	}
	for _, q := range []ChangeQuery{{}, {Limit: 1001}, {Limit: 1, Cursor: "x"}} {
		if _, _, err := l.Changes(t.Context(), q); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	staysAsItIs(t, cfg, begin(Change{Actor: "ann", Action: "dlq.discard", Object: "act_2"}))
}

// staysAsItIs has the owner of the tables try to change the audit; open is a row that has not ended.
func staysAsItIs(t *testing.T, cfg Config, open int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`UPDATE TABLE SET reason = 'another' WHERE ended_at IS NOT NULL`, `UPDATE TABLE SET outcome = 'refused' WHERE outcome = 'done'`,
		`UPDATE TABLE SET after = NULL`, `UPDATE TABLE SET ended_at = NULL, outcome = NULL`, `DELETE FROM TABLE`, `TRUNCATE TABLE`,
		fmt.Sprintf(`UPDATE TABLE SET actor = 'bob', ended_at = now(), outcome = 'done' WHERE id = %d`, open),
		fmt.Sprintf(`UPDATE TABLE SET at = now() - interval '1 day', ended_at = now(), outcome = 'done' WHERE id = %d`, open),
		fmt.Sprintf(`UPDATE TABLE SET team = 'pay' WHERE id = %d`, open),
	} {
		if _, err := conn.Exec(t.Context(), strings.Replace(sql, "TABLE", cfg.Schema+".audit", 1)); err == nil || !strings.Contains(err.Error(), "neither changed nor deleted") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	var rows int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+cfg.Schema+`.audit`).Scan(&rows); err != nil || rows != 3 {
		t.Errorf("%d rows are left: %v", rows, err)
	}
}

// A page of the audit costs what is on it, and not what the audit has in years, by whichever filter: rows are never deleted.
func TestAPageOfTheAuditReadsNoMore(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	admin(t, cfg.URL.Reveal(), `INSERT INTO `+cfg.Schema+`.audit (at, actor, role, said_by, action, team, object, reason)
		SELECT now() - make_interval(secs => 5000 - n), 'ann', '', '', 'dlq.replay', 'acme', 'act_' || n % 1000, 'x' FROM generate_series(1, 5000) n`)
	admin(t, cfg.URL.Reveal(), `ANALYZE `+cfg.Schema+`.audit`) // as autovacuum does
	conn, err := l.quick.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, q := range []ChangeQuery{{}, {Team: "acme"}, {Team: "pay"}, {Actor: "bob"}, {Action: "dlq.discard"}, {Object: "act_none"}, {Team: "acme", Object: "act_7"},
		{Since: time.Now().Add(-time.Minute)}, {Since: time.Now().Add(time.Hour)}, {Cursor: "4000", Since: time.Now().Add(-time.Hour)}} {
		q.Limit = 50
		sql, args, err := access.ChangesSQL(q)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		counts := regexp.MustCompile(`(?:rows=|Removed by Filter: )([0-9]+)`).FindAllStringSubmatch(text, -1)
		if len(counts) == 0 {
			t.Errorf("%+v: the plan counts no rows:\n%s", q, text)
		}
		for _, m := range counts {
			if n, _ := strconv.Atoi(m[1]); n > 200 {
				t.Errorf("%+v reads %d rows:\n%s", q, n, text)
			}
		}
	}
}
