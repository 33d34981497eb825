package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/sink"
)

// till makes a table that statements write into, and gives the statement that pays once per call.
func till(f *fixture) (pay func(lane int64) sink.Statement) {
	f.t.Helper()
	admin(f.t, f.cfg.URL.Reveal(), `CREATE TABLE `+f.cfg.Schema+`.paid (lane int NOT NULL, amount numeric NOT NULL CHECK (amount > 0))`)
	return func(lane int64) sink.Statement {
		return sink.Statement{SQL: `INSERT INTO ` + f.cfg.Schema + `.paid VALUES ($1, $2)`, Params: [][]byte{[]byte(fmt.Sprint(lane)), []byte("12.50")}}
	}
}

func done(c *Claim, lane int64, attempt int) Result {
	return Result{Claim: c, LaneSeq: lane, Status: Done, Attempt: attempt}
}

func (f *fixture) paid(lane int64) int {
	return one[int](f, `SELECT count(*) FROM paid WHERE lane = $1`, lane)
}

func (f *fixture) statusOf(lane int64) string {
	return one[string](f, `SELECT status FROM `+states+` WHERE lane_seq = $1`, lane)
}

func sqlState(err error) string {
	s, ok := errors.AsType[*sink.StatementError](err)
	if !ok {
		return ""
	}
	pg, _ := errors.AsType[*pgconn.PgError](s)
	return pg.Code
}

// What a statement is refused for stays its own: nothing of it is written, and what others record is.
func TestCommitThatIsRefusedWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	pay := till(f)
	admin(t, f.cfg.URL.Reveal(), `CREATE TABLE `+f.cfg.Schema+`.late (lane int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	for _, tt := range []struct {
		name, sql, state string
		params           []string
	}{
		{"no number", `INSERT INTO S.paid VALUES ($1, $2)`, "22P02", []string{"1", "much"}},
		{"a check", `INSERT INTO S.paid VALUES ($1, $2)`, "23514", []string{"1", "-1"}},
		{"null", `INSERT INTO S.paid VALUES ($1, $2)`, "23502", []string{"1", ""}},
		{"no syntax", `INSERT 1`, "42601", nil},
		{"no table", `INSERT INTO S.nothing VALUES (1)`, "42P01", nil},
		{"tables of the ledger by their bare names", `DELETE FROM completions`, "42P01", nil},
		{"two statements", `DELETE FROM S.paid; DELETE FROM S.paid`, "42601", nil},
		{"a constraint that waits for the end", `INSERT INTO S.late VALUES (1), (1)`, "23505", nil},
		{"too long", `SELECT pg_sleep(60)`, "57014", nil},
	} {
		s := sink.Statement{SQL: replaceSchema(tt.sql, f.cfg.Schema)}
		for _, p := range tt.params {
			if p == "" {
				s.Params = append(s.Params, nil)
			} else {
				s.Params = append(s.Params, []byte(p))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if tt.state == "57014" {
			ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		}
		_, err := f.n.Commit(ctx, done(c, 1, 1), s)
		cancel()
		if got := sqlState(err); got != tt.state && (tt.state != "57014" || err == nil) {
			t.Errorf("%s: %v, want state %s", tt.name, err, tt.state)
		}
	}
	if _, err := f.n.Record(t.Context(), []Result{done(c, 2, 1)}); err != nil {
		t.Fatal(err)
	}
	if f.statusOf(1) != "pending" || f.statusOf(2) != "done" || one[int](f, `SELECT count(*) FROM paid`) != 0 {
		t.Errorf("statuses %s and %s", f.statusOf(1), f.statusOf(2))
	}
	if open := f.open(f.claim(0)); len(open) != 1 {
		t.Errorf("open: %v", open)
	}
	if _, err := f.n.Commit(t.Context(), done(c, 1, 1), pay(1)); !errors.Is(err, ErrFenced) || f.paid(1) != 0 {
		t.Errorf("a claim that is fenced: %v, paid %d times", err, f.paid(1))
	}
	for name, r := range map[string]Result{
		"not done": {Claim: c, LaneSeq: 1, Status: Failed}, "no claim": {LaneSeq: 1, Status: Done}, "never had": done(c, 9, 1),
	} {
		if _, err := f.n.Commit(t.Context(), r, pay(1)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A role that is named as the ledger's schema, forebay beside forebay, has it as "$user" in its search_path: a statement does not reach the
// ledger's tables by their bare names all the same, and still those of the role's other schemas.
func TestCommitOfARoleNamedAsTheSchema(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	role, base := cfg.Schema, cfg.URL.Reveal()
	admin(t, base, `CREATE ROLE `+role+` LOGIN SUPERUSER PASSWORD 'a-password'`)
	t.Cleanup(func() { admin(t, base, `DROP OWNED BY `+role+` CASCADE; DROP ROLE `+role) })
	admin(t, base, `CREATE TABLE public.`+role+`_paid (lane int)`)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "a-password")
	cfg.URL = schemas.NewSecret(u.String())
	f := &fixture{t: t, cfg: cfg, l: open(t, cfg)}
	t.Cleanup(func() { admin(t, base, `DROP TABLE public.`+role+`_paid`) })
	f.n = f.namespace()
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	for _, sql := range []string{`DELETE FROM completions`, `DELETE FROM fences`, `SELECT 1 FROM "$user".fences`} {
		if _, err := f.n.Commit(t.Context(), done(c, 1, 1), sink.Statement{SQL: sql}); sqlState(err) != "42P01" {
			t.Errorf("%s: %v, want state 42P01: no such table", sql, err)
		}
	}
	if tag, err := f.n.Commit(t.Context(), done(c, 1, 1), sink.Statement{SQL: `INSERT INTO ` + role + `_paid VALUES (1)`}); err != nil || tag != "INSERT 0 1" {
		t.Errorf("a table in public: %q, %v", tag, err)
	}
}

func replaceSchema(sql, schema string) string {
	var out []byte
	for i := range len(sql) {
		if sql[i] == 'S' && i+1 < len(sql) && sql[i+1] == '.' {
			out = append(out, schema...)
			continue
		}
		out = append(out, sql[i])
	}
	return string(out)
}

// The connection breaks before or after each statement of the transaction, COMMIT among them. The next try, by the same
// claim or by the next one, finds the action either open and not paid, or done and paid: never a third thing.
func TestCommitCutAnywherePaysOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	pay := till(f)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	var records []Record
	for i := range int64(100) {
		records = append(records, seq(i, fmt.Sprintf("e%d", i), 1))
	}
	g.apply(c, records...)
	lane, places := int64(0), 0
	for _, restart := range []bool{false, true} {
		for _, before := range []bool{true, false} {
			for skip := 0; ; skip++ {
				lane++
				if restart { // an attempt that is on record
					if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: lane, Status: Failed, Attempt: 1, Class: "network"}}); err != nil {
						t.Fatal(err)
					}
				}
				p.Cut.Store(&cut{Skip: skip, Before: before})
				at := p.Cuts.Load()
				_, err := g.n.Commit(t.Context(), done(c, lane, 1), pay(lane))
				if p.Cuts.Load() == at {
					p.Cut.Store(nil)
					if err != nil {
						t.Fatal(err)
					}
					break // past the last statement
				}
				places++
				paid, status := f.paid(lane), f.statusOf(lane)
				if paid > 1 || (paid == 1) != (status == "done") {
					t.Fatalf("cut at statement %d (before: %v): paid %d times, status %s", skip, before, paid, status)
				}
				if err == nil && paid == 0 {
					t.Fatalf("cut at statement %d (before: %v): no error, and not paid", skip, before)
				}
				if restart {
					c = g.claim(0)
				} else if err != nil { // the lane writes down what it knows
					if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: lane, Status: Failed, Attempt: 1, Class: "network"}}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := g.n.Commit(t.Context(), done(c, lane, 2), pay(lane)); err != nil {
					t.Fatal(err)
				}
				if _, err := f.n.Record(t.Context(), []Result{done(c, lane, 2)}); err != nil {
					t.Fatal(err)
				}
				if paid, status := f.paid(lane), f.statusOf(lane); paid != 1 || status != "done" {
					t.Fatalf("cut at statement %d (before: %v): in the end paid %d times, status %s", skip, before, paid, status)
				}
			}
		}
	}
	if places < 4*8 {
		t.Errorf("only %d places were cut: the transaction has more", places)
	}
}

// The server, or a pooler before it, ends the session behind the COMMIT: what it has said stands, and what nobody has heard is asked for.
func TestCommitThatASessionEndsBehind(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]*cut{
		"heard": {Commit: true, Fatal: "57P01", Told: true}, "not heard": {Commit: true, Fatal: "08P01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			pay := till(f)
			p, g := throughProxy(t, f)
			c := g.claim(0)
			g.apply(c, seq(0, "a", 1))
			p.Cut.Store(cut)
			tag, err := g.n.Commit(t.Context(), done(c, 1, 1), pay(1))
			if cut.Told && (tag != "INSERT 0 1" || err != nil) || !cut.Told && schemas.KindOf(err) != schemas.Unavailable {
				t.Errorf("%q, %v", tag, err)
			}
			if was, err := g.n.Committed(t.Context(), done(c, 1, 1)); !was || err != nil {
				t.Errorf("committed: %t, %v", was, err)
			}
			if f.paid(1) != 1 || f.statusOf(1) != "done" {
				t.Errorf("paid %d times, status %s", f.paid(1), f.statusOf(1))
			}
		})
	}
}

// A transaction in doubt may still be on its way when the action is tried again: the second one waits for it.
func TestCommitWaitsForTheOneInDoubt(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			pay := till(f)
			c := f.claim(0)
			f.apply(c, seq(0, "a", 1))
			r := done(c, 1, 1)
			first, err := f.l.sinkConns.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer pg.RollbackAndRelease(first)
			w, err := writeOf([]Result{r})
			if err != nil {
				t.Fatal(err)
			}
			shared := newSinkTx(first, &r, actionLock(f.cfg.Schema, &r))
			if _, err := shared.lockAndRead(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := shared.write(t.Context(), w, f.n.windows.Load(), f.cfg.Schema, "0"); err != nil {
				t.Fatal(err)
			}
			if _, err := first.Conn().Exec(t.Context(), `INSERT INTO `+f.cfg.Schema+`.paid VALUES (1, 1)`); err != nil {
				t.Fatal(err)
			}
			w.markUnknown() // its process knows nothing of it
			second := make(chan error, 1)
			go func() {
				_, err := f.n.Commit(t.Context(), r, pay(1))
				second <- err
			}()
			const waiting = `SELECT count(*) FROM pg_locks w JOIN pg_locks h USING (locktype, classid, objid, objsubid), pg_sleep(0.01)
				WHERE w.locktype = 'advisory' AND NOT w.granted AND h.granted AND h.pid = $1`
			for one[int](f, waiting, first.Conn().PgConn().PID()) == 0 {
				select {
				case err := <-second:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
			}
			end := "ROLLBACK"
			if committed {
				end = "COMMIT"
			}
			if _, err := first.Conn().Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			if f.paid(1) != 1 || f.statusOf(1) != "done" {
				t.Errorf("paid %d times, status %s", f.paid(1), f.statusOf(1))
			}
		})
	}
}
