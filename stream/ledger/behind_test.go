package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
	"github.com/jackc/pgx/v5"
)

// restorable keeps the ledger's tables as they are, and returns what brings them back to that, as a restored backup would under processes
// that go on. Windows must not rotate in between.
func (f *fixture) restorable() (restore func()) {
	f.t.Helper()
	tables := f.texts(`SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'`)
	kept := f.cfg.Schema + "_kept"
	admin(f.t, f.cfg.URL.Reveal(), `CREATE SCHEMA `+kept)
	f.t.Cleanup(func() { admin(f.t, f.cfg.URL.Reveal(), `DROP SCHEMA `+kept+` CASCADE`) })
	columns := map[string]string{} // that are not generated
	for _, table := range tables {
		columns[table] = f.texts(`SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = '` + table + `'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`)[0]
		f.exec(`CREATE TABLE ` + kept + `.` + table + ` AS TABLE ` + table)
	}
	return func() {
		f.t.Helper()
		err := pgx.BeginFunc(f.t.Context(), f.l.hot, func(tx pgx.Tx) error {
			if _, err := tx.Exec(f.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
				return err
			}
			for _, table := range tables {
				if _, err := tx.Exec(f.t.Context(), fmt.Sprintf(`DELETE FROM %s`, table)); err != nil {
					return err
				}
				if _, err := tx.Exec(f.t.Context(), fmt.Sprintf(`INSERT INTO %[1]s (%[3]s) OVERRIDING SYSTEM VALUE SELECT %[3]s FROM %[2]s.%[1]s`, table, kept, columns[table])); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// The ledger comes back older under a claim, which holds its fence still. Nothing that follows from what the claim remembers is written: the
// lane_seqs of its results are given again, to other events, all of which run.
func TestLedgerComesBackOlder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, other := f.claim(0), f.claim(1)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(other, seq(0, "x", 1))
	f.record(done(c, 1, 1))
	restore := f.restorable()
	f.apply(c, seq(2, "c", 1), seq(3, "d", 1), seq(4, "e", 1))
	f.record(done(c, 2, 1), done(c, 3, 1))
	restore()

	fenced, err := f.n.Record(t.Context(), []Result{done(c, 4, 1), done(other, 1, 1)})
	if err != nil || !fenced[c.ID] || fenced[other.ID] {
		t.Fatal(fenced, err)
	}
	if _, err := f.n.Commit(t.Context(), done(c, 5, 1), sink.Statement{SQL: `SELECT 1`}); err != ErrFenced {
		t.Error("a statement of a sink: ", err)
	}
	f.release(c)
	for _, claims := range f.openAs(other) {
		t.Error("the other partition's result is not recorded: ", claims)
	}

	c = f.claim(0)
	if !c.Unclean || c.Next.Offset != 2 {
		t.Errorf("unclean %v, at %d", c.Unclean, c.Next.Offset)
	}
	f.apply(c, seq(2, "f", 1), seq(3, "c", 1), seq(4, "d", 1), seq(5, "e", 1))
	want := []string{"2:b-1:pending:0", "3:f-1:pending:0", "4:c-1:pending:0", "5:d-1:pending:0", "6:e-1:pending:0"}
	if got := f.openAs(c); !slices.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
	for lane := range int64(5) {
		f.record(done(c, lane+2, 1))
	}
	if got := f.openAs(c); len(got) > 0 {
		t.Errorf("still open: %v", got)
	}
}

// What a claim remembers of an idle partition is not written to a ledger that came back older, either: the mark would cover actions whose
// lane_seqs are given again. Its caller learns which claim that is, and another partition is not held up by it.
func TestIdlePartitionOfAnOlderLedger(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, other := f.claim(0), f.claim(1)
	f.apply(c, seq(0, "a", 1))
	f.apply(other, seq(0, "x", 1))
	f.record(done(c, 1, 1), done(other, 1, 1))
	restore := f.restorable()
	f.apply(c, seq(1, "b", 1), seq(2, "d", 1))
	f.record(done(c, 2, 1), done(c, 3, 1))
	restore()

	err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c, other})
	if behind, ok := errors.AsType[*BehindError](err); !ok || !behind.Fences[c.ID] || behind.Fences[other.ID] {
		t.Error("the claim is not told: ", err)
	}
	if low := f.texts(`SELECT format('%s at %s', fence, lane_low) FROM progress ORDER BY fence`); !slices.Equal(low, []string{"1 at 1", "2 at 2"}) {
		t.Error("the marks: ", low)
	}
	f.apply(f.claim(0), seq(1, "b", 1), seq(2, "e", 1))
	c = f.claim(0)
	if want, got := []string{"2:b-1:pending:0", "3:e-1:pending:0"}, f.openAs(c); !slices.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
}
