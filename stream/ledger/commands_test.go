package ledger

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/google/go-cmp/cmp"
)

// ask asks for something about an event.
func (f *fixture) ask(id string, kind CommandKind) (int64, error) {
	f.t.Helper()
	item, err := f.item(id)
	if err != nil {
		f.t.Fatal(err)
	}
	return TestInbox.Ask(f.t.Context(), f.l, item.of, kind, "jo", "it is wanted after all")
}

// applyCommands does all that is asked and gives what became of it.
func (f *fixture) applyCommands(c *Claim) (done []string, actions []Action) {
	f.t.Helper()
	asked, err := f.n.Commands(f.t.Context(), []*Claim{c}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, cmd := range asked {
		for again := range 2 { // the second time does nothing
			a, err := f.n.ApplyCommand(f.t.Context(), c, cmd)
			if err != nil || again == 1 && (len(a.Actions) > 0 || len(a.Outcomes) > 0) {
				f.t.Fatal(decisions(a), err)
			}
			done, actions = append(done, decisions(a)...), append(actions, a.Actions...)
		}
		s, err := f.commandStatus(cmd.ID)
		if err != nil || s.EndedAt == nil || s.Outcome == "" || s.By != "jo" {
			f.t.Errorf("%+v %v", s, err)
		}
	}
	return done, actions
}

func TestReleaseAndDiscardOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal = gate.EqualHold })
	c := f.claim(0)
	twin := func(offset int64, id string) Record {
		return record(offset, id, "e", schemas.Version{Kind: schemas.Sequence, Value: 1})
	}
	f.apply(c, seq(0, "e", 1), twin(1, "a"), twin(2, "b"), seq(3, "e", 2))
	for id, kind := range map[string]CommandKind{"a": Release, "b": Discard} {
		if _, err := f.ask(id, kind); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ask("e-2", Release); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("nothing to release: %v", err)
	}
	c = f.claim(0) // asked before it came
	done, actions := f.applyCommands(c)
	want := []string{"-1:late/redriven", "-1:stale/discarded"}
	if len(done) == 2 && done[0] != want[0] {
		want[0], want[1] = want[1], want[0] // maps have no order
	}
	if d := cmp.Diff(want, done); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3:a:run"}, lanes(actions)); d != "" || string(actions[0].Packed) != "packed a" || !actions[0].Late {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"1:e-1:run", "2:e-2:run", "3:a:run"}, f.open(c)); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(' ', event_id, decision, reason), ', ' ORDER BY event_id) FROM events WHERE event_id < 'c'`); got != "a late redriven, b stale discarded" {
		t.Error(got)
	}
	if n := one[int](f, `SELECT count(*) FROM buffer`); n != 0 {
		t.Errorf("%d left in the buffer", n)
	}
	again := twin(4, "a")
	if d := cmp.Diff([]string{"0:duplicate/seen"}, decisions(f.apply(c, again))); d != "" {
		t.Error(d)
	}
}

func TestReleaseOfAParkedLine(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then = gate.ThenPark })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 6), seq(3, "f", 1), seq(4, "f", 3))
	f.expire(c)
	if _, err := f.ask("e-6", Discard); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("it is not held: %v", err)
	}
	if _, err := f.ask("e-6", Release); err != nil {
		t.Fatal(err)
	}
	done, actions := f.applyCommands(c)
	if d := cmp.Diff([]string{"-1:applied/gap_skipped", "-1:applied/gap_skipped"}, done); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3:e-3:run", "4:e-6:run"}, lanes(actions)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0:late/filler", "1:applied/next"}, decisions(f.apply(c, seq(5, "e", 2), seq(6, "e", 7)))); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT string_agg(event_id, ' ') FROM buffer`); got != "f-3" {
		t.Error(got)
	}
}

// A command to a fenced owner stays for the next one.
func TestFencedOwnerAppliesNoCommand(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then = gate.ThenPark })
	zombie := f.claim(0)
	f.apply(zombie, seq(0, "e", 1), seq(1, "e", 3))
	id, err := f.ask("e-3", Release)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := f.n.Commands(t.Context(), []*Claim{zombie}, 0)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	c := f.claim(0)
	if a, err := f.n.ApplyCommand(t.Context(), zombie, asked[0]); err != nil || !a.Fenced {
		t.Error(a, err)
	}
	if s, err := f.commandStatus(id); err != nil || s.EndedAt != nil {
		t.Error(s, err)
	}
	if _, actions := f.applyCommands(c); len(actions) != 1 {
		t.Error(lanes(actions))
	}
}
