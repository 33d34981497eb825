package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An operator's word ends every wait on a line, whether it has a deadline or is parked, whatever the policy, in order.
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Policy{
		"parked":      {GapWait: 1, Then: ThenPark},
		"buffered":    wait,
		"dead letter": {GapWait: 1, Then: ThenDeadLetter},
		"backfill":    {GapWait: 1, Then: ThenBackfill, BackfillWait: 1},
	} {
		st := NewState()
		run(st, p, []step{in(seq(1, 1), seq(4, 4), seq(5, 5), seq(9, 9))})
		if name == "parked" {
			run(st, p, []step{line("e")})
		}
		k := VersionLineKey{Entity: "e"}
		if d := cmp.Diff([]string{"*4 applied/gap_skipped", "*5 applied/released", "*9 applied/gap_skipped"}, printed(Release(st, []VersionLineKey{k, k}, p), nil)); d != "" {
			t.Error(name, d)
		}
		if len(st.Waiting) > 0 || st.Buffered != 0 || st.Lines[k].Parked != "" {
			t.Errorf("%s: %v wait, %d counted, parked %q", name, waitingIDs(st, k), st.Buffered, st.Lines[k].Parked)
		}
		if d := cmp.Diff([]string{"10 late/filler", "11 applied/next"}, run(st, p, []step{in(seq(10, 3, delta), seq(11, 10))})); d != "" {
			t.Error(name, d)
		}
	}
	if out := Release(NewState(), []VersionLineKey{{Entity: "e"}}, wait); len(out) != 0 {
		t.Errorf("nothing waits: %v", out)
	}
}

// A release of which the gate was given the first events goes on with the rest, as if it had been given all of them.
func TestReach(t *testing.T) {
	t.Parallel()
	k, p := VersionLineKey{Entity: "e"}, with(func(p *Policy) { p.GapWait, p.Equal = 1, EqualLast })
	history := []step{in(seq(1, 1), seq(3, 3), seq(40, 4), seq(41, 4), seq(5, 5), seq(7, 7))}
	all, cut := NewState(), NewState()
	run(all, p, history)
	run(cut, p, history)
	if cut.Reached(k) || len(Reach(cut, k, p)) > 0 {
		t.Error("something is reached before the filler comes")
	}
	rest := cut.Waiting[k][1:]
	cut.Waiting[k] = cut.Waiting[k][:1:1]
	want := run(all, p, []step{in(seq(2, 2))})
	got := run(cut, p, []step{in(seq(2, 2))})
	for len(rest) > 0 {
		cut.Waiting[k], rest = rest[:min(2, len(rest))], rest[min(2, len(rest)):]
		if cut.Reached(k) {
			got = append(got, printed(Reach(cut, k, p), nil)...)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all.Lines[k], cut.Lines[k]); diff != "" {
		t.Error(diff)
	}
	if cut.Reached(k) || waitingIDs(cut, k)[0] != waitingIDs(all, k)[0] {
		t.Errorf("%v wait", waitingIDs(cut, k))
	}
}

// An operator's word on what is held runs it or gives it up, once for each, and leaves the line where it is.
func TestRedriveAndDiscard(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "a twin runs while the line is at its version", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 1)), redrive}, want: []string{"1 applied/first", "2 | parked/equal_held", "*2 applied/redriven"},
			line: &VersionLine{At: at(1)},
		}, {
			name: "it is late when the line has gone on", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 1), seq(3, 2)), redrive},
			want:  []string{"1 applied/first", "2 | parked/equal_held", "3 applied/next", "*2 late/redriven"}, line: &VersionLine{At: at(2)},
		}, {
			name: "so is what was older from the start", policy: with(func(p *Policy) { p.Stale.Delta = StaleHold }),
			steps: []step{in(seq(2, 2), seq(1, 1, delta)), redrive}, want: []string{"2 applied/first", "1 | parked/older_held", "*1 late/redriven"},
			line: &VersionLine{At: at(2)},
		}, {
			name: "what is discarded does not run", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 1)), discard}, want: []string{"1 applied/first", "2 | parked/equal_held", "*2 stale/discarded"},
			line: &VersionLine{At: at(1)},
		}, {
			name: "a redelivery of either is a duplicate", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 1)), redrive, in(seq(2, 1))},
			want:  []string{"1 applied/first", "2 | parked/equal_held", "*2 applied/redriven", "2 duplicate/seen"},
		},
	}.test(t)
}
