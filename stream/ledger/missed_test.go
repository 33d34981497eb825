package ledger

import (
	"errors"
	"strings"
	"testing"
)

// A batch that does not find a row that must be there is refused: nothing is committed, and the next claims go on with what there
// is.
func TestWritesThatMissARowAreRefused(t *testing.T) {
	t.Parallel()
	gap := func(f *fixture, c *Claim) { f.apply(c, seq(0, "e", 1), seq(1, "e", 3)) }
	plain := func(f *fixture, c *Claim) { f.apply(c, seq(0, "e", 1), seq(1, "e", 2)) }
	for name, tt := range map[string]struct {
		before func(*fixture, *Claim)
		gone   string // what is done behind the claim's back
		then   Record
		want   string
	}{
		"a line that moves on":    {plain, `DELETE FROM version_lines`, seq(2, "e", 3), "linesAdvance"},
		"an event that waited":    {gap, `DELETE FROM events WHERE decision = 'buffered'`, seq(2, "e", 2), "decidedUpdate"},
		"its place in the buffer": {gap, `DELETE FROM buffer`, seq(2, "e", 2), "the read of the gap buffer"},
		"its window":              {gap, `UPDATE buffer SET window_id = window_id + 1000`, seq(2, "e", 2), "a write to window"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { s.Policy.MaxPerEntity = 1 })
			f.n.maxLag = 0
			c, d := f.claim(0), f.claim(1)
			tt.before(f, c)
			f.exec(tt.gone)
			before := one[string](f, `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT next_offset FROM progress WHERE fence = (SELECT id FROM fences WHERE partition = 0))`)
			out, err := f.n.Apply(t.Context(), []Slice{slice(c, tt.then), slice(d, seq(0, "d", 1))})
			if err != nil {
				t.Fatal(err)
			}
			broken, ok := errors.AsType[*ContinuityError](out[0].Refused)
			if !ok || !strings.Contains(broken.Error(), ": "+tt.want+" ") || broken.Partition != c.Partition {
				t.Fatalf("refused: %v", out[0].Refused)
			}
			if out[1].Refused == nil || len(out[1].Actions) != 0 {
				t.Errorf("the other of the batch: %+v", out[1])
			}
			if after := one[string](f, `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT next_offset FROM progress WHERE fence = (SELECT id FROM fences WHERE partition = 0))`); after != before {
				t.Errorf("%s, before %s", after, before)
			}
			c, d = f.claim(0), f.claim(1)
			if a := f.apply(d, seq(0, "d", 1)); len(a.Actions) != 1 {
				t.Errorf("the other: %+v", a)
			}
			if strings.Contains(tt.gone, "events") || strings.Contains(tt.gone, "window_id") {
				return // what is wrong of an event keeps its place in the buffer from being left, until somebody looks
			}
			if a := f.apply(c, tt.then); a.Refused != nil || len(a.Outcomes) == 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// unwanted is a filtered record, which still takes its place on the line.
func unwanted(offset int64, entity string, value int64) Record {
	r := seq(offset, entity, value)
	r.Filtered = true
	return r
}

// Whatever keeps a row from being written that must be, here a trigger, the statement that must hit it says so, each by its name:
// nothing of the batch is written, and all of it once it may be.
func TestEveryWriteThatMustHitARowSaysThatItDidNot(t *testing.T) {
	t.Parallel()
	apply := func(r Record) func(*fixture, *Claim) (Applied, error) {
		return func(f *fixture, c *Claim) (Applied, error) { return f.apply(c, r), nil }
	}
	applyCommands := func(f *fixture, c *Claim) (Applied, error) {
		asked, err := f.n.Commands(f.t.Context(), []*Claim{c}, 0)
		if err != nil || len(asked) != 1 {
			f.t.Fatal(asked, err)
		}
		return f.n.ApplyCommand(f.t.Context(), c, asked[0])
	}
	for statement, tt := range map[string]struct {
		keeps string
		do    func(*fixture, *Claim) (Applied, error)
	}{
		"linesAdvance":          {`UPDATE ON version_lines`, apply(seq(3, "x", 2))},
		"linesUpdate":           {`UPDATE ON version_lines`, apply(unwanted(3, "x", 2))},
		"bufferUpdate":          {`UPDATE ON buffer`, apply(seq(3, "e", 5))}, // one too many: both park
		"bufferDelete":          {`DELETE ON buffer`, apply(seq(3, "e", 2))},
		"progressWrite":         {`UPDATE ON progress`, apply(seq(3, "y", 1))},
		"duplicatesUpdate":      {`UPDATE ON events`, apply(seq(3, "x", 1))},
		"decidedUpdate":         {`UPDATE ON events`, apply(seq(3, "e", 2))},
		"bufferedActionsInsert": {`INSERT ON actions`, apply(seq(3, "e", 2))},
		"commandEnd":            {`UPDATE ON commands`, applyCommands},
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { s.Policy.MaxPerEntity = 1 })
			f.n.maxLag = 0
			c := f.claim(0)
			waiting := seq(1, "e", 3)
			f.apply(c, seq(0, "e", 1), waiting, seq(2, "x", 1))
			if _, err := TestInbox.Ask(t.Context(), f.l, TestInbox.Place(c.ID, 1, waiting.Key), Release, "ann", "now"); err != nil {
				t.Fatal(err)
			}
			f.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
			f.exec(`CREATE TRIGGER keep BEFORE ` + tt.keeps + ` FOR EACH ROW EXECUTE FUNCTION keep()`)
			const written = `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT count(*) FROM actions), (SELECT string_agg(decision, ' ') FROM buffer),
				(SELECT next_offset FROM progress), (SELECT max(value) FROM version_lines WHERE entity = 'x'), (SELECT count(*) FROM commands WHERE ended_at IS NULL))`
			before := one[string](f, written)
			a, err := tt.do(f, c)
			if broken, ok := errors.AsType[*ContinuityError](a.Refused); err != nil || !ok || !strings.Contains(broken.Error(), statement+" has not found") {
				t.Fatalf("refused: %v, %v", a.Refused, err)
			}
			if after := one[string](f, written); after != before || len(a.Actions) > 0 {
				t.Errorf("%s, before %s; handed out %v", after, before, lanes(a.Actions))
			}
			f.exec(`DROP FUNCTION keep() CASCADE`)
			if a, err := tt.do(f, f.claim(0)); err != nil || a.Refused != nil || len(a.Outcomes) == 0 {
				t.Errorf("once it may: %+v, %v", a, err)
			}
			if after := one[string](f, written); after == before {
				t.Errorf("nothing has changed: %s", after)
			}
		})
	}
}
