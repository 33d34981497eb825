package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// hotStatements lists every statement of the hot path by name.
func hotStatements(win *windowSet) map[string]pg.Statement {
	q := &win.q
	all := map[string]pg.Statement{
		"fenceCheck": fenceCheck, "progressRead": progressRead, "windowsRead": windowsRead, "linesRead": linesRead, "bufferRead": bufferRead,
		"bufferedRowsRead": bufferedRowsRead, "overdueRead": overdueRead, "linesAdvance": linesAdvance, "linesUpdate": linesUpdate, "linesInsert": linesInsert, "bufferInsert": bufferInsert, "bufferUpdate": bufferUpdate,
		"bufferDelete": bufferDelete, "progressWrite": progressWrite, "seen": q.seen, "eventsInsert": q.eventsInsert,
		"rejectedInsert": q.rejectedInsert, "laneLowWrite": laneLowWrite, "laneFirst": q.laneFirst,
	}
	if len(win.live) > 1 {
		all["seenBefore"] = q.seenBefore
	}
	for name, sql := range map[string]string{"marksRead": marksRead, "openRowsRead": openRowsRead, "quietRead": silenceLeftRead, "placesTaken": usedPlaces,
		"newestOfLine": newestOfLine, "linesFold": linesFold, "withoutCopyRowsRead": withoutCopyRowsRead(win.live), "reportsRead": reportsRead,
		"openPlainRead": openPlainRead, "withoutCopyPlainRead": withoutCopyPlainRead, "staleWrite": staleWrite} {
		all[name] = pg.NewStatement(OfWindow(win.current, win.own(sql)))
	}
	for name, by := range map[string]map[int32]pg.Statement{"duplicates": q.duplicates, "decided": q.decided, "forget": q.forget, "complete": q.complete, "update": q.update, "insert": q.insert, "attempt": q.attempt} {
		for w, s := range by {
			all[fmt.Sprintf("%s/%d", name, w)] = s
		}
	}
	return all
}

// The generic plans are made whenever a connection first meets a statement: on empty tables, and later on statistics of
// whatever there was then. Neither may read a table from end to end, hash or merge, or find rows by a part of their key
// and throw most away (a Join Filter on a key: 4 s for a thousand results when the fences were joined in).
func TestHotPlansUseWholeKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.neverVacuumed()
	f.checkPlans("empty")
	for p := range int32(3) {
		c := f.claim(p)
		var records []Record
		for i := range int64(800) {
			records = append(records, seq(i, fmt.Sprintf("e%d", i%200), i/200+1))
		}
		f.apply(c, append(records, seq(800, "gap", 1), seq(801, "gap", 3))...)
	}
	f.turnWindow()
	f.apply(f.claim(3), seq(0, "e", 1), seq(1, "e", 2), seq(2, "e", 3), seq(3, "e", 4))
	f.checkPlans("of two windows")
	admin(t, f.cfg.URL.Reveal(), fmt.Sprintf(`ANALYZE %[1]s.fences, %[1]s.progress, %[1]s.version_lines, %[1]s.buffer, %[1]s.windows, %[1]s.actions, %[1]s.events, %[1]s.rejected_records`, f.cfg.Schema))
	f.checkPlans("of two windows, analyzed")
}

// neverVacuumed has the empty tables as a migration leaves them: those of a test before may have been vacuumed while they were empty, and no plan
// for a table that is known to be empty says anything. Autovacuum is off from then on.
func (f *fixture) neverVacuumed() {
	f.t.Helper()
	admin(f.t, f.cfg.URL.Reveal(), fmt.Sprintf(`DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid::regclass FROM pg_class WHERE relnamespace = '%s'::regnamespace AND relkind = 'r'
			AND (relname IN ('version_lines', 'buffer', 'rejected_records') OR relname ~ '^(events|actions)_w[0-9]+$') LOOP
			EXECUTE format('TRUNCATE %%s', t);
			EXECUTE format('ALTER TABLE %%s SET (autovacuum_enabled = off)', t);
		END LOOP; END $$`, f.cfg.Schema))
}

// checkPlans explains every hot statement on a connection that has not planned any of them yet.
func (f *fixture) checkPlans(when string) {
	t := f.t
	t.Helper()
	f.l.hot.Reset()
	conn, err := f.l.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, s := range hotStatements(f.n.windows.Load()) {
		if s.Fresh {
			continue // planned for the size of the moment
		}
		sd, err := conn.Conn().Prepare(t.Context(), s.Name, s.SQL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		explain := "EXPLAIN (COSTS OFF) EXECUTE " + s.Name
		if n := len(sd.ParamOIDs); n > 0 {
			explain += "(NULL" + strings.Repeat(",NULL", n-1) + ")"
		}
		rows, err := conn.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := strings.Join(plan, "\n")
		for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Bitmap Heap", "Join Filter"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s, %s: %s in\n%s", when, name, bad, text)
			}
		}
	}
}
