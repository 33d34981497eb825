package gate

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func TestFiltered(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "fills its place and releases", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(2, 2, filtered), seq(4, 4, filtered))},
			want:  []string{"1 applied/first", "3 buffered/gap", "2 filtered/type", "*3 applied/released", "4 filtered/type"},
			line:  &VersionLine{At: at(4), Filtered: true},
		}, {
			name: "begins a line", policy: fromOne,
			steps: []step{in(seq(1, 1, filtered, first(1)), seq(2, 2, first(1)))},
			want:  []string{"1 filtered/type", "2 applied/next"},
			line:  &VersionLine{At: at(2)},
		}, {
			name: "ahead of its turn it waits for its place", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3, filtered), seq(4, 4), seq(2, 2))},
			want:  []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "2 applied/next", "*3 filtered/type", "*4 applied/released"},
		}, {
			name: "ahead of its turn on a parked line", policy: parkNow,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(4, 4, filtered), seq(5, 5), seq(2, 2))},
			want:  []string{"1 applied/first", "3 parked/gap_expired", "4 parked/behind_park", "5 parked/behind_park", "2 applied/next", "*3 applied/released", "*4 filtered/type", "*5 applied/released"},
		}, {
			name: "as the lowest one when the wait ends", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3, filtered), seq(4, 4)), line("e")},
			want:  []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "*3 filtered/type", "*4 applied/released"},
			line:  &VersionLine{At: at(4), Skipped: []Span{{2, 2}}},
		}, {
			name: "mended, the line's own version applies", policy: wait,
			steps: []step{in(seq(1, 1), seq(2, 2, filtered)), in(seq(1, 1), seq(2, 2), seq(2, 2))},
			want:  []string{"1 applied/first", "2 filtered/type", "1 duplicate/seen", "2 applied/equal", "2 duplicate/seen"},
			line:  &VersionLine{At: at(2)},
		}, {
			name: "mended, below the line a delta is late and a snapshot stale", policy: wait,
			steps: []step{in(seq(1, 1, filtered), seq(2, 2, filtered, delta), seq(3, 3)), in(seq(1, 1), seq(2, 2, delta))},
			want:  []string{"1 filtered/type", "2 filtered/type", "3 applied/next", "1 stale/older", "2 late/older_delta"},
		}, {
			name: "mended while it waits, it is decided again", policy: wait,
			steps:   []step{in(seq(1, 1), seq(3, 3, filtered)), in(seq(3, 3)), in(seq(2, 2))},
			want:    []string{"1 applied/first", "3 buffered/gap", "*3 filtered/type", "3 buffered/gap", "2 applied/next", "*3 applied/released"},
			waiting: "",
		}, {
			name: "mended while it waits in the middle", policy: wait,
			steps:   []step{in(seq(1, 1), seq(3, 3), seq(4, 4, filtered), seq(5, 5)), in(seq(4, 4)), in(seq(2, 2))},
			want:    []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "5 buffered/gap", "*4 filtered/type", "4 buffered/gap", "2 applied/next", "*3 applied/released", "*4 applied/released", "*5 applied/released"},
			waiting: "",
		}, {
			name: "alone on a parked line and decided again, it ends the park and waits again", policy: parkNow,
			steps:   []step{in(seq(1, 1), seq(3, 3, filtered)), policy(park), in(seq(3, 3))},
			want:    []string{"1 applied/first", "3 parked/gap_expired", "*3 filtered/type", "3 buffered/gap"},
			waiting: "3:buffered",
			line:    &VersionLine{At: at(1)},
		}, {
			name: "leaves a skipped place open for itself", policy: atOnce,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(2, 2, filtered)), in(seq(2, 2))},
			want:  []string{"1 applied/first", "3 applied/gap_skipped", "2 filtered/type", "2 late/filler"},
			line:  &VersionLine{At: at(3)},
		}, {
			name: "another event of its id came first, on another line", policy: wait,
			steps: []step{
				in(seq(1, 1), seq(2, 1, clock("k")), seq(9, 9, filtered), seq(9, 9, clock("k"), forged)), in(seq(9, 9)),
			},
			want:    []string{"1 applied/first", "2 applied/first", "9 buffered/gap", "9 buffered/gap", "9 conflict/body_differs"},
			waiting: "9:buffered",
		}, {
			name: "equal to the line leaves its mark alone", policy: wait,
			steps: []step{in(seq(1, 1), seq(2, 1, filtered))},
			want:  []string{"1 applied/first", "2 filtered/type"},
			line:  &VersionLine{At: at(1)},
		},
	}.test(t)
}

func TestFilteredIsIgnoredWhereItIsRemembered(t *testing.T) {
	t.Parallel()
	st := NewState()
	st.Seen[key(1)] = Seen{Hash: schemas.BodyHash{9}, Decision: Filtered}
	got := run(st, wait, []step{in(seq(1, 1), seq(1, 1))})
	if diff := cmp.Diff([]string{"1 applied/first", "1 duplicate/seen"}, got); diff != "" {
		t.Error(diff)
	}
}

// The same event waits in another partition, where it was wanted: a topic has grown meanwhile, and the filter was mended. It runs there.
func TestFilteredEventThatWaitsInAnotherPartitionToo(t *testing.T) {
	t.Parallel()
	for _, as := range []Decision{Buffered, Parked} {
		st := NewState()
		Decide(st, []Record{seq(1, 1), seq(3, 3, filtered)}, wait)
		st.Seen[key(3)] = Seen{Hash: schemas.BodyHash{3}, Decision: as}
		got := run(st, wait, []step{in(seq(3, 3)), in(seq(3, 3, forged)), in(seq(2, 2))})
		if diff := cmp.Diff([]string{"3 duplicate/seen", "3 conflict/body_differs", "2 applied/next", "*3 filtered/type"}, got); diff != "" {
			t.Error(diff)
		}
	}
}
