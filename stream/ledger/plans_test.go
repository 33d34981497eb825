package ledger

import (
	"encoding/json"
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
		"bufferDelete": bufferDelete, "progressWrite": progressWrite, "eventsInsert": q.eventsInsert,
		"rejectedInsert": q.rejectedInsert, "laneLowWrite": laneLowWrite, "laneFirst": q.laneFirst,
	}
	for name, sql := range map[string]string{"marksRead": marksRead, "openRowsRead": win.openRows(), "quietRead": silenceLeftRead, "placesTaken": usedPlaces,
		"newestOfLine": newestOfLine, "linesFold": linesFold, "withoutCopyRowsRead": withoutCopyRowsRead(win.live), "reportsRead": reportsRead,
		"openPlainRead": openPlainRead, "withoutCopyPlainRead": withoutCopyPlainRead, "staleWrite": staleWrite} {
		all[name] = pg.NewStatement(OfWindow(win.current, win.own(sql)))
	}
	for name, by := range map[string]map[int32]pg.Statement{"seen": q.seen, "duplicates": q.duplicates, "decided": q.decided, "forget": q.forget, "complete": q.complete, "update": q.update, "insert": q.insert, "attempt": q.attempt} {
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

// TestReadsOfRowsGrowWithThePage: beside many dead letters in many windows, a page of open actions costs a few probes of each, not of each and
// every window, and a look for dead letters to export costs nothing where there are none.
func TestReadsOfRowsGrowWithThePage(t *testing.T) {
	t.Parallel()
	const windows, each = 12, 500
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Dead, Attempt: 1}}); err != nil {
		t.Fatal(err)
	}
	for range windows - 1 {
		f.turnWindow()
	}
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	win := f.n.windows.Load()
	if len(win.live) != windows {
		t.Fatalf("windows %v", win.live)
	}
	for i, w := range win.live {
		for _, sql := range []string{`INSERT INTO events_w{w} (window_id, fence, log_offset, event_key, hash, received_at, decided_at, lane_seq, epoch, value, sub, leader_epoch, plan, actions,
				decision, reason, kind, clock, entity, source, event_id, type)
			SELECT {w}, e.fence, n, lpad(to_hex(n), 32, '0')::uuid, e.hash, now(), now(), n, 0, n, 0, 0, e.plan, 1, e.decision, e.reason, e.kind, '', 'e' || n, e.source, 'n-' || n, e.type
			FROM (SELECT * FROM events WHERE lane_seq = 1) e, generate_series($1::int, $2::int) n`,
			`INSERT INTO actions_w{w} (window_id, fence, lane_seq, event_key, event_window, effect, created_at, finished_at, attempts, open, status, exported)
			SELECT {w}, a.fence, n, lpad(to_hex(n), 32, '0')::uuid, {w}, a.effect, now(), now(), 1, true, 'dead_letter', 1
			FROM (SELECT * FROM actions WHERE lane_seq = 1) a, generate_series($1::int, $2::int) n`} {
			if _, err := f.l.hot.Exec(t.Context(), OfWindow(w, sql), (i+1)*each, (i+2)*each-1); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin(t, f.cfg.URL.Reveal(), fmt.Sprintf(`UPDATE %[1]s.actions SET exported = 1; ANALYZE %[1]s.actions, %[1]s.events`, f.cfg.Schema))
	if n := f.blocks(f.l.hot, win.openRows(), c.ID, 0, 1000, maxCopies); n > 20*1000 {
		t.Errorf("a page of 1000 open actions reads %d blocks", n)
	}
	err := pgx.BeginFunc(t.Context(), f.l.quick, func(tx pgx.Tx) error {
		// As beside very many: the planner reads along an index that has the answer's order, and stops once there are enough.
		if _, err := tx.Exec(t.Context(), `SELECT set_config('enable_' || m, 'off', true) FROM unnest('{sort,incremental_sort,hashjoin,mergejoin}'::text[]) m`); err != nil {
			return err
		}
		if n := f.blocks(tx, win.own(unexportedRead), []int32{c.ID}, 50); n > 20*windows {
			t.Errorf("where nothing is to be exported %d blocks are read", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// blocks returns how many blocks a statement reads.
func (f *fixture) blocks(db querier, sql string, args ...any) int {
	f.t.Helper()
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	var text string
	err := db.QueryRow(f.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &plan)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read
}
