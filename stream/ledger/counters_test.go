package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// counting is a ledger of the test's own, with what changes its counters behind its back.
func counting(t *testing.T) (*ledger.Ledger, func(sql string)) {
	t.Helper()
	url, schema := pgtest.Migrated(t)
	l, err := ledger.Open(t.Context(), ledger.Config{URL: schemas.NewSecret(url), Schema: schema, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	conn := pgtest.Connect(t, url, schema)
	return l, func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t *testing.T, l *ledger.Ledger, asks ...ledger.CounterAsk) []ledger.CounterGrant {
	t.Helper()
	grants, err := l.Count(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	return grants
}

const year = 366 * 24 * time.Hour

// TestCountersAreTheModel: whatever is asked for and given back, in whatever order, the database gives what the model gives.
func TestCountersAreTheModel(t *testing.T) {
	t.Parallel()
	l, _ := counting(t)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		var model ledgertest.Counters
		limits := map[string]int64{}
		windows := map[string]time.Time{}
		for step := range 150 {
			var asks []ledger.CounterAsk
			for _, i := range r.Perm(4)[:1+r.IntN(4)] {
				name := fmt.Sprintf("%d/%d", seed, i)
				if limits[name] == 0 || r.IntN(40) == 0 { // the file changes
					limits[name] = []int64{1, 3, 30, 500, 1e9}[r.IntN(5)]
				}
				a := ledger.CounterAsk{Name: name, Limit: limits[name], Per: year, Want: 1 + r.Int64N(3), Most: 1 + r.Int64N(limits[name])}
				switch r.IntN(5) {
				case 0:
					a.Force = true
				case 1:
					a.Force, a.Want, a.Window = true, -a.Want, windows[name]
				case 2:
					a.Force, a.Want, a.Window = true, -a.Want, time.Unix(0, 0) // of a window before
				}
				asks = append(asks, a)
			}
			got := count(t, l, asks...)
			want, _ := model.Count(t.Context(), asks)
			for i := range got {
				windows[asks[i].Name] = got[i].Window
				if got[i].Left <= 0 || got[i].Left > year {
					t.Fatalf("the window ends in %s", got[i].Left)
				}
				got[i].Left, want[i].Left = 0, 0
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, step %d: %+v\n%s", seed, step, asks, diff)
			}
		}
	}
}

// TestCountersBegin: a window that has ended counts no more, what is given back to it is given to nobody, and its row goes.
func TestCountersBegin(t *testing.T) {
	t.Parallel()
	l, exec := counting(t)
	ask := ledger.CounterAsk{Name: "a", Limit: 5, Per: year, Want: 5, Most: 5}
	old := count(t, l, ask)[0]
	if got := count(t, l, ask)[0]; got.Units != 0 || got.Used != 5 {
		t.Fatalf("beyond the limit: %+v", got)
	}
	exec(`UPDATE counters SET at = at - interval '366 days', until = until - interval '366 days'`)
	if got, err := l.CountersUsed(t.Context(), "a", 10); err != nil || len(got) != 0 {
		t.Errorf("the window has ended: %+v %v", got, err)
	}
	if got := count(t, l, ledger.CounterAsk{Name: "a", Limit: 5, Per: year, Want: -5, Force: true, Window: old.Window.Add(-year)})[0]; got.Units != 0 {
		t.Errorf("given back to a window that has ended: %+v", got)
	}
	if got := count(t, l, ask)[0]; got.Units != 5 || !got.Window.Equal(old.Window) {
		t.Errorf("a new window: %+v", got)
	}
	if got := count(t, l, ledger.CounterAsk{Name: "a", Limit: 3, Per: year, Want: 1, Most: 1})[0]; got.Units != 0 || got.Used != 5 {
		t.Errorf("with a lower limit: %+v", got)
	}
	used, err := l.CountersUsed(t.Context(), "a", 10)
	if err != nil || len(used) != 1 || used[0].Used != 5 || used[0].Limit != 3 || used[0].Left <= 0 {
		t.Errorf("%+v %v", used, err)
	}
	for _, tt := range []struct {
		ahead, why string
		want       int64
	}{{"366 days", "the clock was set back", 0}, {"3660 days", "the clock was wrong", 5}} {
		exec(`UPDATE counters SET at = at + interval '` + tt.ahead + `', until = until + interval '` + tt.ahead + `'`)
		if got := count(t, l, ask)[0]; got.Units != tt.want || got.Used != 5 || tt.want > 0 && !got.Window.Equal(old.Window) {
			t.Errorf("%s: %+v", tt.why, got)
		}
	}
	exec(`UPDATE counters SET at = at - interval '732 days', until = until - interval '732 days'`)
	exec(`INSERT INTO counters (name, at, used, cap, unit, granted, until) SELECT name || n, at, used, cap, unit, granted, until FROM counters, generate_series(1, 5) n`)
	if err := l.ForgetCounters(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	exec(`DO $$ BEGIN IF EXISTS (SELECT FROM counters) THEN RAISE EXCEPTION 'rows are left'; END IF; END $$`)
}

// TestBudgetReadsItsOwnCounters: of one budget among many, what is used is a range of the table, and of all the whole table from end to end, however
// often that was asked before.
func TestBudgetReadsItsOwnCounters(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Migrated(t)
	l, err := ledger.Open(t.Context(), ledger.Config{URL: schemas.NewSecret(url), Schema: schema, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn := pgtest.Connect(t, url, schema)
	for _, sql := range []string{`INSERT INTO counters SELECT 'budget ' || b || ' e' || n, now(), n, 1000, 1, 1, now() + interval '1 hour' FROM generate_series(1, 100) b, generate_series(1, 300) n`, `ANALYZE counters`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const asked = 40 // more than all connections together plan each time by themselves
	scans := func() (byIndex, whole int64) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `SELECT coalesce(idx_scan, 0), coalesce(seq_scan, 0) FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'counters'`, schema).Scan(&byIndex, &whole)
		if err != nil {
			t.Fatal(err)
		}
		return byIndex, whole
	}
	ask := func(prefix string, n int) (byIndex, whole int64) {
		t.Helper()
		indexBefore, wholeBefore := scans() // by tests that had the schema before
		for range asked {
			if list, err := l.CountersUsed(t.Context(), prefix, n); err != nil || len(list) != n || list[0].Used != 300 {
				t.Fatalf("%+v %v", list, err)
			}
		}
		for deadline := time.Now().Add(time.Minute); byIndex+whole < asked; time.Sleep(100 * time.Millisecond) { // the server counts late
			byIndex, whole = scans()
			if byIndex, whole = byIndex-indexBefore, whole-wholeBefore; time.Now().After(deadline) {
				t.Fatalf("%d by the index and %d of the whole table are counted", byIndex, whole)
			}
		}
		return byIndex, whole
	}
	if _, whole := ask("budget 7 ", 20); whole > asked/4 { // others read it, too, once in a while
		t.Errorf("for one budget the whole table was read %d times", whole)
	}
}

// TestForgettingWaitsForNobody: a sweep leaves out what somebody counts just then, whose statement may wait for what the sweep has locked.
func TestForgettingWaitsForNobody(t *testing.T) {
	t.Parallel()
	l, exec := counting(t)
	for _, name := range []string{"a", "b"} {
		count(t, l, ledger.CounterAsk{Name: name, Limit: 5, Per: time.Hour, Want: 1, Most: 1})
	}
	exec(`UPDATE counters SET at = at - interval '2 hours', until = until - interval '2 hours'`)
	exec(`BEGIN`)
	exec(`UPDATE counters SET used = 2 WHERE name = 'a'`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.ForgetCounters(ctx, 10); err != nil {
		t.Fatal(err)
	}
	exec(`COMMIT`)
	exec(`DO $$ BEGIN IF (SELECT array_agg(name) FROM counters) <> ARRAY['a'] THEN RAISE EXCEPTION 'not the one that was locked is left'; END IF; END $$`)
}

// TestCountersPour: a bucket gives its burst, and then as much as has flowed in.
func TestCountersPour(t *testing.T) {
	t.Parallel()
	l, exec := counting(t)
	day := 24 * time.Hour
	ask := ledger.CounterAsk{Name: "b", Limit: 2, Per: day, Burst: 5, Want: 1, Most: 9}
	pour := func(want int64) ledger.CounterGrant {
		t.Helper()
		g := count(t, l, ask)[0]
		if g.Units != want {
			t.Fatalf("got %+v, want %d", g, want)
		}
		return g
	}
	pour(5)
	if g := pour(0); g.Left > day/2 || g.Left < day/2-time.Minute || g.Used != 5 {
		t.Errorf("%+v", g)
	}
	exec(`UPDATE counters SET at = at - interval '36 hours'`)
	pour(3)
	exec(`UPDATE counters SET at = at + interval '1 hour'`) // the clock was set back
	pour(0)
	exec(`UPDATE counters SET at = at + interval '3650 days'`) // the clock was wrong
	pour(5)
	pour(0)
	exec(`UPDATE counters SET at = at - interval '3650 days'`)
	pour(5)
	if g := count(t, l, ledger.CounterAsk{Name: "b", Limit: 2, Per: day, Burst: 5, Want: -2, Force: true})[0]; g.Units != -2 {
		t.Errorf("given back: %+v", g)
	}
	pour(2)
	// The statement that had the row before began later: what it took is not given again, however short the time in which the bucket is full again.
	ask.Per = 500 * time.Microsecond
	exec(`UPDATE counters SET at = now() + interval '30 seconds', used = cap`)
	pour(0)
}
