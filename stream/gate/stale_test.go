package gate

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func stale(snapshot, delta StaleDo) Policy {
	return with(func(p *Policy) { p.Stale = OnStale{snapshot, delta} })
}

// TestStaleByPayload: each body has its own word, one of unknown kind the delta's, on every kind of line.
func TestStaleByPayload(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.VersionKind{schemas.Sequence, schemas.Monotonic, schemas.Timestamp} {
		below := in(rec(1, kind, 5), rec(2, kind, 4), rec(3, kind, 4, delta), rec(4, kind, 4, unknown), rec(5, kind, 5), rec(6, kind, 6))
		said := func(snapshot, delta, unknown string) []string {
			return []string{"1 applied/first", "2 " + snapshot, "3 " + delta, "4 " + unknown, "5 applied/equal", "6 applied/next"}
		}
		table{
			{name: string(kind) + " by default", policy: wait, steps: []step{below}, want: said("stale/older", "late/older_delta", "late/older_delta")},
			{name: string(kind) + " drop", policy: stale(StaleDrop, StaleDrop), steps: []step{below}, want: said("stale/older", "stale/older_delta", "stale/older_delta")},
			{name: string(kind) + " deliver_marked", policy: stale(StaleDeliver, StaleDeliver), steps: []step{below}, want: said("late/older", "late/older_delta", "late/older_delta")},
			{name: string(kind) + " hold", policy: stale(StaleHold, StaleHold), steps: []step{below}, want: said("| parked/older_held", "| parked/older_held", "| parked/older_held")},
			{name: string(kind) + " one of each", policy: stale(StaleHold, ""), steps: []step{below}, want: said("| parked/older_held", "late/older_delta", "late/older_delta")},
			{name: string(kind) + " a word nobody knows is the default", policy: stale("keep", "keep"), steps: []step{below}, want: said("stale/older", "late/older_delta", "late/older_delta")},
		}.test(t)
	}
}

func TestHeldForAPerson(t *testing.T) {
	t.Parallel()
	held := stale(StaleHold, StaleHold)
	table{
		{
			name: "the line goes on, and a redelivery is a duplicate", policy: held,
			steps: []step{in(seq(5, 5), seq(3, 3), seq(3, 3), seq(3, 3, forged), seq(6, 6)), in(seq(3, 3), seq(8, 8), seq(4, 4), seq(7, 7))},
			want: []string{
				"5 applied/first", "3 | parked/older_held", "3 duplicate/seen", "3 conflict/body_differs", "6 applied/next",
				"3 duplicate/seen", "8 buffered/gap", "4 | parked/older_held", "7 applied/next", "*8 applied/released",
			},
			line: &VersionLine{At: at(8)},
		}, {
			name: "of what the subscription does not want nobody is asked", policy: held,
			steps: []step{in(seq(5, 5), seq(3, 3, filtered)), in(seq(3, 3))},
			want:  []string{"5 applied/first", "3 filtered/type", "3 | parked/older_held"},
		}, {
			name: "a filler of a skipped place is late all the same", policy: with(func(p *Policy) { p.GapWait, p.Stale = 0, OnStale{StaleHold, StaleDrop} }),
			steps: []step{in(seq(1, 1), seq(4, 4), seq(2, 2), seq(20, 2), seq(3, 3, delta), seq(30, 3, delta))},
			want: []string{
				"1 applied/first", "4 applied/gap_skipped", "2 late/filler", "20 | parked/older_held", "3 late/filler", "30 stale/older_delta",
			},
			line: &VersionLine{At: at(4)},
		}, {
			name: "on a parked line", policy: with(func(p *Policy) { p.GapWait, p.Then, p.Stale.Snapshot = 0, ThenPark, StaleHold }),
			steps:   []step{in(seq(5, 5), seq(7, 7), seq(4, 4), seq(6, 6))},
			want:    []string{"5 applied/first", "7 parked/gap_expired", "4 | parked/older_held", "6 applied/next", "*7 applied/released"},
			waiting: "",
		}, {
			name: "below the first value of a line that has not begun", policy: with(func(p *Policy) { p.Start, p.Stale.Snapshot = StartFirst, StaleHold }),
			steps: []step{in(seq(1, 0, first(1)), seq(2, 1, first(1)))},
			want:  []string{"1 | parked/older_held", "2 applied/first"},
		}, {
			name: "out of the buffer, where the line began above it", policy: with(func(p *Policy) { p.Start, p.Stale.Snapshot = StartFirst, StaleHold }),
			steps: []step{in(seq(2, 2, first(1)), seq(3, 3, first(1), filtered), seq(7, 7, first(7)), seq(2, 2, first(1)))},
			want: []string{
				"2 buffered/start_gap", "3 buffered/start_gap", "7 applied/first", "*2 | parked/older_held", "*3 filtered/type", "2 duplicate/seen",
			},
			line: &VersionLine{At: at(7)},
		}, {
			name: "with equal: first, as if it were older", policy: with(func(p *Policy) { p.Equal, p.Stale = EqualFirst, OnStale{StaleDeliver, StaleHold} }),
			steps: []step{in(seq(1, 1), seq(2, 1), seq(3, 1, delta), seq(3, 1, delta), seq(4, 2))},
			want:  []string{"1 applied/first", "2 late/equal_first", "3 | parked/equal_held", "3 duplicate/seen", "4 applied/next"},
		},
	}.test(t)
}

// TestHeldKeepsNothingInTheGate: an operator decides over the ledger's row; the state knows the key and no more.
func TestHeldKeepsNothingInTheGate(t *testing.T) {
	t.Parallel()
	st, p := NewState(), stale(StaleHold, "")
	out := Decide(st, []Record{seq(5, 5), seq(3, 3)}, p)
	if !out[1].Held || out[1].Record != 1 || out[1].Version != at(3) {
		t.Errorf("got %+v", out[1])
	}
	if diff := cmp.Diff(Seen{Hash: schemas.BodyHash{3}, Decision: Parked}, st.Seen[key(3)]); diff != "" {
		t.Error(diff)
	}
	if len(st.Waiting) != 0 || st.Buffered != 0 || st.Lines[e].Parked != "" || st.Lines[e].At != at(5) {
		t.Errorf("waiting %v, %d buffered, line %+v", st.Waiting, st.Buffered, st.Lines[e])
	}
}
