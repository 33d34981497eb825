package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// swallow has the database leave out rows that are written to a table, without an error; event is INSERT or UPDATE, and where says
// of NEW and OLD which rows.
func (f *fixture) swallow(event, table, where string) {
	f.t.Helper()
	table = strings.Replace(table, "{w}", fmt.Sprint(f.n.windows.Load().current), 1)
	admin(f.t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER swallow BEFORE `+event+` ON `+table+` FOR EACH ROW WHEN (`+where+`) EXECUTE FUNCTION swallow()`)
}

const notOne = "0 rows were written, not one"

// Every write that must hit a row says so where it has not, and leaves nothing behind: tried again it does what it was to do.
func TestSwallowedWritesAreErrors(t *testing.T) {
	t.Parallel()
	claim := func(f *fixture, _ *Claim) error {
		_, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
		return err
	}
	record := func(r Result) func(*fixture, *Claim) error {
		return func(f *fixture, c *Claim) error {
			r.Claim = c
			_, err := f.n.Record(f.t.Context(), []Result{r})
			return err
		}
	}
	inTx := func(do func(*fixture, *Claim, pgx.Tx) error) func(*fixture, *Claim) error {
		return func(f *fixture, c *Claim) error {
			return f.l.transact(f.t.Context(), func(tx pgx.Tx) error { return do(f, c, tx) })
		}
	}
	done := record(Result{LaneSeq: 1, Status: Done, Attempt: 1})
	none := func(*fixture, *Claim) {}
	moved := func(f *fixture, c *Claim) { f.apply(c, seq(1, "e", 2)) }
	for name, tt := range map[string]struct {
		before              func(*fixture, *Claim)
		event, table, where string
		do                  func(*fixture, *Claim) error
		want                string
	}{
		"a completion":                    {none, "INSERT", "completions_w{w}", "true", done, "completionInsert"},
		"the mark of what is done":        {func(_ *fixture, c *Claim) { c.marks.Unsaved = laneLowEvery }, "UPDATE", "progress", "true", done, "laneLowWrite"},
		"a line that is behind":           {moved, "UPDATE", "version_lines", "true", claim, "linesFold"},
		"where lines stand":               {moved, "UPDATE", "progress", "NEW.dirty_lines_from <> OLD.dirty_lines_from", claim, notOne},
		"the position of a claim":         {none, "UPDATE", "progress", "true", claim, notOne},
		"the fence of a claim":            {none, "UPDATE", "fences", "true", claim, "no rows"},
		"what is caught up":               {none, "UPDATE", "progress", "true", func(f *fixture, c *Claim) error { return f.n.CaughtUp(f.t.Context(), time.Now(), []*Claim{c}) }, "processedWrite"},
		"the mark of a claim that leaves": {none, "UPDATE", "progress", "true", func(f *fixture, c *Claim) error { return f.n.Release(f.t.Context(), c) }, "release"},
		"the mark of a topic that is left": {none, "UPDATE", "progress", "true", inTx(func(f *fixture, c *Claim, tx pgx.Tx) error {
			return markLow(f.t.Context(), tx, f.n.windows.Load(), c.ID)
		}), notOne},
		"a question for a backfill": {func(f *fixture, c *Claim) {
			f.apply(c, seq(1, "e", 4))
			f.overdue()
			f.deadlines(c)
		}, "INSERT", "backfills", "true", func(f *fixture, c *Claim) error {
			a, err := f.n.Expire(f.t.Context(), c)
			if err == nil {
				err = a.Refused
			}
			return err
		}, "backfillsInsert"},
		"the end of a command": {func(f *fixture, c *Claim) {
			f.die(c, 1, "e-1", 1)
			f.askAction("e-1", Replay, CommandDetail{})
		}, "UPDATE", "commands", "true", func(f *fixture, c *Claim) error {
			_, err := f.n.ApplyLaneCommand(f.t.Context(), c, f.commands(c)[0])
			return err
		}, notOne},
		"the end of a stop": {func(f *fixture, c *Claim) { f.report(belowStart(0, 1, 5), c.Epoch) }, "UPDATE", "stops", "true", func(f *fixture, c *Claim) error {
			_, err := f.n.Report(f.t.Context(), belowStart(0, 1, 7), c.Epoch)
			return err
		}, notOne},
		"the beginning of a subscription": {none, "UPDATE", "subscriptions", "true", func(f *fixture, _ *Claim) error {
			_, err := f.n.Begin(f.t.Context(), nil)
			return err
		}, notOne},
		"a window that turns": {func(f *fixture, _ *Claim) {
			f.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`)
		}, "UPDATE", "windows", "NEW.state = 'closed'",
			func(f *fixture, _ *Claim) error {
				_, err := f.l.Sweep(f.t.Context(), SweepConfig{})
				return err
			}, notOne},
		"the topic of a fence": {none, "UPDATE", "fences", "true", inTx(func(f *fixture, _ *Claim, tx pgx.Tx) error {
			newer := &Claim{Partition: partition(0)}
			newer.Partition.TopicID = TopicID{2}
			_, err := (&claimTx{n: f.n, tx: tx.(*pg.Tx), c: newer}).inherit(f.t.Context())
			return err
		}), notOne},
		"a topic that is taken up": {func(f *fixture, _ *Claim) { f.reportRecreated(TopicID{2}) }, "UPDATE", "topics", "true", func(f *fixture, _ *Claim) error {
			_, err := f.claimNew(0, TopicID{2}, 8)
			return err
		}, notOne},
		"the position in a new topic": {none, "UPDATE", "progress", "NEW.next_offset = 0", inTx(func(f *fixture, c *Claim, tx pgx.Tx) error {
			return (&claimTx{n: f.n, tx: tx.(*pg.Tx), c: c}).startAtZero(f.t.Context())
		}), notOne},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, backfills)
			c := f.claim(0)
			f.apply(c, seq(0, "e", 1))
			tt.before(f, c)
			f.swallow(tt.event, tt.table, tt.where)
			if err := tt.do(f, c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("swallowed: %v", err)
			}
			admin(t, f.cfg.URL.Reveal(), `DROP FUNCTION `+f.cfg.Schema+`.swallow() CASCADE`)
			if tt.want == "backfillsInsert" { // a refused claim is of no use any more
				c = f.claim(0)
				f.deadlines(c)
			}
			if err := tt.do(f, c); err != nil {
				t.Errorf("once they are written: %v", err)
			}
		})
	}
}

// A claim that finds an event of a line and no line makes the line again from its events: what comes next would be taken for a first
// event. The other lines are left as they are.
func TestClaimRestoresALostLine(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2), seq(3, "b", 2))
	f.apply(c, seq(4, "a", 3))
	const lines = `SELECT (to_jsonb(l) - 'as_of')::text FROM version_lines l ORDER BY entity`
	f.exec(`DELETE FROM version_lines WHERE entity = 'a'`)
	f.claim(0)
	restored := f.texts(lines)
	f.claim(0)
	if d := cmp.Diff(restored, f.texts(lines)); d != "" || len(restored) != 2 {
		t.Errorf("%v, by the next claim: %s", restored, d)
	}
	c = f.claim(0)
	want := []string{"0:duplicate/seen", "1:stale/older", "2:buffered/gap", "3:applied/next", "4:applied/next"}
	older := record(6, "older", "a", schemas.Version{Kind: schemas.Sequence, Value: 2})
	got := decisions(f.apply(c, seq(5, "a", 3), older, seq(7, "a", 5), seq(8, "b", 3), seq(9, "a", 4)))
	if d := cmp.Diff(want, got[:5]); d != "" {
		t.Errorf("%v: %s", got, d)
	}
}

// What keeps the row from being made again, or from being written, leaves the claim refused, as often as it is tried. Who owns the partition
// keeps it.
func TestClaimOfALineThatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2), seq(3, "b", 2))
	f.exec(`DELETE FROM version_lines WHERE entity = 'a'`)
	f.swallow("INSERT", "version_lines", "true")
	for range 2 {
		_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
		if schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "linesFold") || !strings.Contains(err.Error(), "restore the ledger from a backup") {
			t.Errorf("claimed: %v", err)
		}
	}
	if got := one[string](f, `SELECT concat_ws(' ', fences.epoch, value, dirty_lines_from) FROM fences JOIN progress ON fence = id JOIN version_lines USING (fence)`); got != "1 1 3" {
		t.Errorf("epoch, value of b, dirty_lines_from: %s", got)
	}
	if a := f.apply(c, seq(4, "b", 3)); len(a.Actions) != 1 {
		t.Errorf("%+v", a)
	}
}

// A line that was written since is newer than what a claim folds, and is not missing.
func TestFoldSparesNewerLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.apply(c, seq(2, "a", 2), seq(3, "b", 2))
	filtered := seq(4, "b", 3)
	filtered.Filtered = true
	f.apply(c, filtered) // written at once, and a is still behind
	f.claim(0)
	if got := f.written(); got != "a2 b3" {
		t.Error(got)
	}
}

// A result of an action that has had a row, or is done, and now neither has one nor is, would be written nowhere.
func TestResultOfALostActionIsRefused(t *testing.T) {
	t.Parallel()
	failed := Result{Status: Failed, Attempt: 1, Class: "timeout"}
	for name, tt := range map[string]struct {
		first   Result
		laneSeq int64 // 1 is below the mark then, 2 is not
		lost    string
		want    string
	}{
		"below the mark":          {failed, 1, "actions", "actionsKnown"},
		"above the mark":          {failed, 2, "actions", "actionsStand"},
		"done and below the mark": {Result{Status: Done, Attempt: 1}, 1, "completions", "actionsKnown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c := f.claim(0)
			f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
			r := tt.first
			r.Claim, r.LaneSeq = c, tt.laneSeq
			f.record(r)
			again := failed
			again.Claim, again.LaneSeq, again.Attempt = c, tt.laneSeq, 2
			f.record(again) // it stands, or is done and stays so
			f.exec(`DELETE FROM ` + tt.lost)
			again.Attempt = 3
			if _, err := f.n.Record(t.Context(), []Result{again}); schemas.KindOf(err) != schemas.Internal || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("recorded: %v", err)
			}
		})
	}
}

// A copy whose event is not there has no row to be in.
func TestCopyThatMissesItsActionIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	f.exec(`DELETE FROM events`)
	if stored, _, err := f.n.Copy(t.Context(), c, []Copy{{LaneSeq: 1, Packed: []byte("x")}}); err == nil || !strings.Contains(err.Error(), "actionsStand") {
		t.Errorf("%d stored: %v", stored, err)
	}
}

// What must hit a row hits none where the claim is fenced, and that is no error.
func TestFencedClaimsMissNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.claim(0)
	c.marks.Unsaved = laneLowEvery
	results := []Result{{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, {Claim: c, LaneSeq: 2, Status: Failed, Attempt: 1}}
	if fenced, err := f.n.Record(t.Context(), results); err != nil || !fenced[c.ID] {
		t.Error(fenced, err)
	}
	now, err := f.n.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.n.CaughtUp(t.Context(), now, []*Claim{c}); err != nil {
		t.Error(err)
	}
	if err := f.n.Release(t.Context(), c); err != nil {
		t.Error(err)
	}
}
