package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGapDeadLetter(t *testing.T) {
	t.Parallel()
	one := first(1)
	table{
		{
			name: "what skip would release is given up, and what comes later runs", policy: giveUp,
			steps: []step{in(seq(1, 1), seq(4, 4), seq(5, 5), seq(9, 9)), line("e"), in(seq(6, 6), seq(4, 4))},
			want: []string{
				"1 applied/first", "4 buffered/gap", "5 buffered/gap", "9 buffered/gap", "*4 + applied/gap_dead", "*5 + applied/gap_dead",
				"6 applied/next", "4 duplicate/seen",
			},
			waiting: "9:buffered",
			line:    &VersionLine{At: at(6), Skipped: []Span{{2, 3}}},
		}, {
			name: "a filler that comes after all is late, and not dead", policy: giveUp,
			steps: []step{in(seq(1, 1), seq(4, 4)), line("e"), in(seq(3, 3), seq(2, 2, delta))},
			want:  []string{"1 applied/first", "4 buffered/gap", "*4 + applied/gap_dead", "3 late/filler", "2 late/filler"},
			line:  &VersionLine{At: at(4)},
		}, {
			name: "no wait any more: what waited below goes first, what it reaches runs", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(6, 6), seq(10, 10)), policy(giveUpNow), in(seq(4, 4), seq(9, 9))},
			want: []string{
				"1 applied/first", "3 buffered/gap", "6 buffered/gap", "10 buffered/gap", "*3 + applied/gap_dead", "4 applied/next",
				"*6 + applied/gap_dead", "9 + applied/gap_dead", "*10 + applied/gap_dead",
			},
		}, {
			name: "a filtered one only fills its place", policy: giveUp,
			steps: []step{in(seq(1, 1), seq(3, 3, filtered), seq(4, 4)), line("e"), in(seq(3, 3))},
			want:  []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "*3 filtered/type", "*4 + applied/gap_dead", "3 stale/older"},
		}, {
			name: "what equal marks is given up with the rest, what it drops is not", policy: with(func(p *Policy) { p.Then, p.Equal = ThenDeadLetter, EqualFirst }),
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3, delta), seq(32, 3), seq(4, 4)), line("e")},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "32 buffered/gap", "4 buffered/gap",
				"*30 + applied/gap_dead", "*31 + late/gap_dead", "*32 stale/equal_first", "*4 + applied/gap_dead",
			},
		}, {
			name: "what equal drops or holds is not given up", policy: with(func(p *Policy) { p.Then, p.Equal = ThenDeadLetter, EqualHold }),
			steps: []step{
				in(seq(1, 1), seq(30, 3), seq(31, 3)), line("e"), policy(with(func(p *Policy) { p.Then, p.Equal = ThenDeadLetter, EqualLast })),
				in(seq(50, 5), seq(51, 5)), line("e"),
			},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "*30 + applied/gap_dead", "*31 | parked/equal_held",
				"50 buffered/gap", "51 buffered/gap", "*50 stale/equal_last", "*51 + applied/gap_dead",
			},
		}, {
			name: "a line that has not begun", policy: with(func(p *Policy) { p.Then, p.Start = ThenDeadLetter, StartFirst }),
			steps: []step{in(seq(5, 5, one), seq(3, 3, one)), line("e"), in(seq(4, 4, one), seq(1, 1, one))},
			want: []string{
				"5 buffered/start_gap", "3 buffered/start_gap", "*3 + applied/gap_dead", "4 applied/next", "*5 applied/released", "1 late/filler",
			},
			line: &VersionLine{At: at(5), Skipped: []Span{{2, 2}}},
		}, {
			name: "a line that begins again", policy: giveUp,
			steps: []step{in(seq(1, 1), seq(3, 3), rec(4, "monotonic", 1), rec(5, "monotonic", 2))},
			want:  []string{"1 applied/first", "3 buffered/gap", "*3 + applied/gap_dead", "4 applied/first", "5 applied/next"},
		},
	}.test(t)
}

// TestDeadIsRememberedAsApplied: a redrive is the ledger's business; a redelivery is a duplicate.
func TestDeadIsRememberedAsApplied(t *testing.T) {
	t.Parallel()
	st := NewState()
	Decide(st, []Record{seq(1, 1), seq(3, 3)}, giveUp)
	out := Expire(st, []VersionLineKey{e}, giveUp)
	if len(out) != 1 || !out[0].Dead || out[0].Decision != Applied || st.Seen[key(3)].Decision != Applied || len(st.Waiting) != 0 {
		t.Errorf("got %+v, seen as %q", out, st.Seen[key(3)].Decision)
	}
	if diff := cmp.Diff([]Span{{2, 2}}, st.Lines[e].Skipped); diff != "" {
		t.Error(diff)
	}
}
