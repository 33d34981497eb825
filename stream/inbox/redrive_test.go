package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// aside is a record that is quarantined.
func aside(offset int64, why gate.Reason) ledger.Record {
	r := ledger.Record{LeaderEpoch: 1, Error: "no event", Packed: func() []byte { return fmt.Appendf(nil, "raw %d", offset) }}
	r.Offset, r.Broken = offset, why
	return r
}

// place is the item at an offset of partition 0.
func (f *fixture) place(offset int64) Item {
	f.t.Helper()
	item, err := f.Place(f.t.Context(), "acme", "triage", "events.acme.github", 0, offset)
	if err != nil {
		f.t.Fatal(err)
	}
	return item
}

// redrive redrives as jo and gives what was produced.
func (f *fixture) redrive(item Item, once bool) (raw string, err error) {
	f.t.Helper()
	err = f.Redrive(f.t.Context(), item, "jo", "it is mended", once, func(_ context.Context, b []byte) error {
		raw = string(b)
		return nil
	})
	return raw, err
}

func TestRedriveMarksWhatItProduced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, aside(0, gate.ReasonUndecodable), seq(1, "e", 1), aside(2, gate.ReasonUndecodable))
	item := f.place(0)
	if item.Status != "quarantined" || item.Redriven != nil || item.LastError != "no event" {
		t.Errorf("%+v", item)
	}
	away := errors.New("no broker answers")
	if err := f.Redrive(t.Context(), item, "jo", "x", true, func(context.Context, []byte) error { return away }); !errors.Is(err, away) {
		t.Errorf("the producer's error came back as %v", err)
	}
	if got := f.place(0); got.Redriven != nil {
		t.Errorf("marked although it was not produced: %+v", got.Redriven)
	}
	if raw, err := f.redrive(item, true); raw != "raw 0" || err != nil {
		t.Fatalf("%q %v", raw, err)
	}
	got := f.place(0)
	if got.Status != "redriven" || got.Decision != gate.Quarantined || got.Redriven == nil || got.Redriven.By != "jo" || got.Redriven.Reason != "it is mended" || got.Redriven.At.IsZero() {
		t.Errorf("%+v %+v", got, got.Redriven)
	}
	if raw, err := f.redrive(item, true); raw != "" || schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("a second time: %q %v", raw, err)
	}
	if raw, err := f.redrive(item, false); raw != "raw 0" || err != nil {
		t.Errorf("again, as asked: %q %v", raw, err)
	}
	for status, want := range map[string]int{"quarantined": 1, "redriven": 1, "": 2} {
		page, err := f.List(t.Context(), Query{Decision: gate.Quarantined, Status: status})
		if err != nil || len(page.Items) != want {
			t.Errorf("%q: %+v %v", status, page, err)
		}
	}
	for name, ask := range map[string]func() error{
		"who is missing": func() error { return f.Redrive(t.Context(), item, "", "x", true, nil) },
		"why is missing": func() error { return f.Redrive(t.Context(), item, "jo", "", true, nil) },
	} {
		if err := ask(); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	event, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "e-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.redrive(event, true); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("an event that was applied: %v", err)
	}
}

// Of many who redrive one record at once, one produces it.
func TestRedriveOfTwoAtOnceProducesOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), aside(0, gate.ReasonUndecodable))
	item := f.place(0)
	var produced, refused atomic.Int32
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			err := f.Redrive(t.Context(), item, "jo", "x", true, func(context.Context, []byte) error { produced.Add(1); return nil })
			if schemas.KindOf(err) == schemas.Conflict {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if produced.Load() != 1 || refused.Load() != 4 {
		t.Errorf("produced %d times, refused %d", produced.Load(), refused.Load())
	}
}

// A record without bytes has nothing to produce; after a rewind it is redriven still, or something else stands at its place.
func TestRedriveOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	bare := aside(0, gate.ReasonTooLarge)
	bare.Packed = nil
	f.apply(c, bare, aside(1, gate.ReasonMisplaced), aside(2, gate.ReasonUndecodable))
	if _, err := f.redrive(f.place(0), true); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("without bytes: %v", err)
	}
	gone := f.place(2)
	unwanted := seq(3, "f", 1)
	unwanted.Filtered = true
	if _, err := f.redrive(f.place(1), true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.turnWindow()
		c = f.rewind(c, 1)
		f.apply(c, aside(1, gate.ReasonMisplaced), seq(2, "e", 1), unwanted)
		if got := f.place(1); got.Redriven == nil || got.Redriven.By != "jo" || got.Redriven.Reason != "it is mended" {
			t.Errorf("decided again, and not known to be redriven: %+v", got.Redriven)
		}
		if _, err := f.redrive(f.place(1), true); schemas.KindOf(err) != schemas.Conflict {
			t.Errorf("redriven a second time: %v", err)
		}
	}
	if _, err := f.redrive(gone, true); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("what was decided otherwise since: %v", err)
	}
	if _, err := f.Place(t.Context(), "acme", "triage", "events.acme.github", 0, 2); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("nothing is rejected there: %v", err)
	}
}

// rewind claims again at a lower offset, as after a seek.
func (f *fixture) rewind(c *ledger.Claim, to int64) *ledger.Claim {
	f.t.Helper()
	again, err := f.n.Claim(f.t.Context(), ledger.ClaimRequest{Partition: c.Partition, Partitions: 8, Confirm: func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		return ledger.Start{Position: ledger.Position{Offset: to, LeaderEpoch: -1}, Seek: &ledger.Seek{From: stored.Offset, To: to}}, nil
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return again
}

// A misplaced record is known by its event, which is not remembered as seen: produced again it runs, once.
func TestMisplacedIsKnownByItsEventAndRunsOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, right := f.claim(0), f.claim(1)
	stray := seq(0, "e", 1)
	stray.Broken, stray.Error = gate.ReasonMisplaced, "belongs elsewhere"
	f.apply(c, stray)
	item, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "e-1")
	if err != nil || item.Decision != gate.Quarantined || item.Reason != gate.ReasonMisplaced || item.Entity != "e" || item.Version != "00000000000000000001" {
		t.Fatalf("%+v %v", item, err)
	}
	if raw, err := f.redrive(item, true); raw != "packed e-1" || err != nil {
		t.Fatalf("%q %v", raw, err)
	}
	for offset, want := range []string{"0:applied/first", "0:duplicate/seen"} {
		if got := decisions(f.apply(right, seq(int64(offset), "e", 1))); got[0] != want {
			t.Errorf("produced again: %v, want %s", got, want)
		}
	}
	if item, err = f.Item(t.Context(), "acme", "triage", "/acme/github", "e-1"); err != nil || item.Decision != gate.Applied || item.Partition != 1 {
		t.Errorf("the event is known as %+v %v", item, err)
	}
	if got := f.place(0); got.Status != "redriven" || got.EventID != "e-1" {
		t.Errorf("its first place is known as %+v", got)
	}
}

// Each list reads only what can hold what it asks for, and shows what the whole inbox shows of it.
func TestInboxByDecisionIsTheInbox(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *ledger.Spec) { s.Policy.Equal = gate.EqualHold })
	c := f.claim(0)
	twin := record(3, "twin", "e", schemas.Version{Kind: schemas.Sequence, Value: 1})
	forged := seq(4, "e", 1)
	forged.Hash[0]++
	filtered := seq(5, "f", 1)
	filtered.Filtered = true
	f.apply(c, aside(0, gate.ReasonUndecodable), seq(1, "e", 1), seq(2, "g", 1), twin, forged, filtered, seq(6, "g", 3), seq(7, "e", 1))
	whole, err := f.List(t.Context(), Query{})
	if err != nil || len(whole.Items) != 7 {
		t.Fatalf("%+v %v", whole, err)
	}
	all := 0
	for _, d := range gate.Decisions() {
		page, err := f.List(t.Context(), Query{Decision: d})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, i := range whole.Items {
			if i.Decision == d || d == gate.Duplicate && i.Duplicates > 0 {
				want++
			}
		}
		if len(page.Items) != want {
			t.Errorf("%s: %d items, the whole inbox has %d: %+v", d, len(page.Items), want, page.Items)
		}
		all += want
	}
	if all != 8 {
		t.Errorf("%d in all", all)
	}
}

// A mark that the database swallows is an error: else the record could be redriven twice.
func TestRedriveTellsOfAMarkThatIsNotWritten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), aside(0, gate.ReasonUndecodable))
	item := f.place(0)
	f.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	f.exec(ledger.OfWindow(item.window, `CREATE TRIGGER keep BEFORE UPDATE ON rejected_records_w{w} FOR EACH ROW EXECUTE FUNCTION keep()`))
	if raw, err := f.redrive(item, true); raw != "" || schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "0 rows") {
		t.Errorf("%q %v", raw, err)
	}
}
