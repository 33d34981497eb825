package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
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
		"a line that moves on":      {plain, `DELETE FROM lines`, seq(2, "e", 3), "linesAdvance"},
		"a line that turns":         {plain, `DELETE FROM lines`, record(2, "turned", "e", schemas.Version{Kind: schemas.Sequence, Epoch: 1, Value: 1}), "lines"},
		"an event that waited":      {gap, `DELETE FROM events WHERE decision = 'buffered'`, seq(2, "e", 2), "decidedUpdate"},
		"its place in the buffer":   {gap, `DELETE FROM buffer`, seq(2, "e", 2), "buffer"},
		"a line with what it waits": {gap, `DELETE FROM lines`, seq(2, "e", 2), "lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.n.lag = 0
			c, d := f.claim(0), f.claim(1)
			tt.before(f, c)
			f.exec(tt.gone)
			before := one[string](f, `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT next_offset FROM progress WHERE fence = (SELECT id FROM fences WHERE partition = 0))`)
			out, err := f.n.Apply(t.Context(), []Slice{slice(c, tt.then), slice(d, seq(0, "d", 1))})
			if err != nil {
				t.Fatal(err)
			}
			broken, ok := errors.AsType[*ContinuityError](out[0].Refused)
			if !ok || !strings.Contains(broken.Error(), tt.want) || broken.Partition != c.Partition {
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
			if strings.Contains(tt.gone, "events") {
				return // what is lost of an event keeps its place in the buffer from being left, until somebody looks
			}
			if a := f.apply(c, tt.then); a.Refused != nil || len(a.Outcomes) == 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A result that would be lost, because the event of its action is not there, is an error.
func TestResultThatMissesItsActionIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "x", 1))
	f.exec(`DELETE FROM events`)
	failed := Result{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}
	if _, err := f.n.Record(t.Context(), []Result{failed}); schemas.KindOf(err) != schemas.Internal || !strings.Contains(err.Error(), "actionsStand") {
		t.Errorf("recorded: %v", err)
	}
	if n := one[int](f, `SELECT (SELECT count(*) FROM actions) + (SELECT count(*) FROM attempts)`); n != 0 {
		t.Errorf("%d rows of it were written", n)
	}
}
