package bench

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// gateOf is a short run of ours.
func gateOf(pg *pgServer) gateRun {
	return gateRun{url: pg.url, meter: pg.meter, seed: 7, name: "bench." + rand.Text(), loops: 2, gateLoad: gateLoad{entities: 100, body: 256}, length: 50 * time.Millisecond}
}

// What is counted is what the ledger has decided in the measured part: not what let the entities begin.
func TestRunCountsWhatItMeasured(t *testing.T) {
	t.Parallel()
	pg := opened(t)
	conn := connected(t, pg.url)
	g := gateOf(pg)
	g.entities = 2 * len(generator{}.recent) // from then on there are repeats
	got, err := g.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fences, err := fencesOf(t.Context(), conn, g.name)
	if err != nil || len(fences) != g.loops {
		t.Fatalf("%d fences, %v", len(fences), err)
	}
	begun := int64(g.loops * g.entities)
	decided := number(t, conn, fmt.Sprintf(`SELECT count(*) + sum(duplicates) FROM forebay.events_w%d`, fences[0].window))
	if got.events < 10 || decided != got.events+begun {
		t.Errorf("%d events measured, %d decided, %d of them to begin", got.events, decided, begun)
	}
	given := number(t, conn, `SELECT sum(next_lane_seq - 1) FROM forebay.progress WHERE fence BETWEEN $1 AND $2 AND lane_low = next_lane_seq`, fences[0].id, fences[len(fences)-1].id)
	if got.actions != given-begun || got.actions == 0 || got.actions >= got.events {
		t.Errorf("%d actions of %d events, the ledger has done %d, %d of them to begin", got.actions, got.events, given, begun)
	}
	if got.elapsed <= 0 || got.own <= 0 || got.wal < 100*got.actions {
		t.Errorf("%+v", got)
	}
}

// COPY gets the rows that ours has written, the begin left out, and tables with the ledger's indexes.
func TestCopyTakesTheSameRows(t *testing.T) {
	pg := opened(t)
	conn := connected(t, pg.url)
	g := gateOf(pg)
	g.warmUp = gateBatch
	got, err := g.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.lineUpdates = 0.05 // too short a run for lines to be written
	c, err := copyOf(t.Context(), g, got)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the tables are emptied between two runs
		m, err := c.run(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		// The warm-up ends with a batch of events, of which a few are repeats.
		if m.events < got.events || m.events > got.events+int64(gateBatch*g.loops) {
			t.Errorf("the copied rows stand for %d events, not %d", m.events, got.events)
		}
	}
	fences, err := fencesOf(t.Context(), conn, g.name)
	if err != nil {
		t.Fatal(err)
	}
	events := fmt.Sprintf("forebay.events_w%d", fences[0].window)
	missing := func(a, b string) int64 {
		return number(t, conn, fmt.Sprintf(`SELECT count(*) FROM (SELECT * FROM %s WHERE lane_seq > $1 EXCEPT SELECT * FROM %s) m`, a, b), g.entities)
	}
	if n, m := missing(events, copySchema+".events"), missing(copySchema+".events", events); n != 0 || m != 0 {
		t.Errorf("%d rows were not copied, %d are none of ours", n, m)
	}
	want := number(t, conn, fmt.Sprintf(`SELECT coalesce(sum(least(n, $3)), 0)::bigint FROM (
		SELECT count(DISTINCT entity) AS n FROM %s WHERE lane_seq > $1 GROUP BY fence, (lane_seq - 1 - $1) / $2) l`, events), g.entities, gateBatch, int64(gateBatch*got.lineUpdates))
	if n := number(t, conn, `SELECT count(*) FROM `+copySchema+`.version_lines`); n != want || want == 0 {
		t.Errorf("%d lines copied, not %d", n, want)
	}
}

// indexesOf tells a table's indexes without the names of table and index.
func indexesOf(t *testing.T, conn *pgx.Conn, schema, table string) (text string) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(d, '; ' ORDER BY d), '') FROM (
		SELECT regexp_replace(indexdef, 'INDEX .* USING', 'USING') AS d FROM pg_indexes WHERE schemaname = $1 AND tablename = $2) i`, schema, table).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
