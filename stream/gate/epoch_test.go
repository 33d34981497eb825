package gate

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

func of(n, value int64) schemas.Version {
	return schemas.Version{Kind: schemas.Sequence, Epoch: n, Value: value}
}

// A provider that says that its counter is another one begins the line again, and everything of the one before is older.
func TestNewEpoch(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "applied/new_epoch whatever the value, and dense from there", policy: wait,
			steps: []step{in(seq(1, 9, epoch(1)), seq(2, 1, epoch(2)), seq(3, 3, epoch(2)), seq(4, 2, epoch(2)), seq(5, 40, epoch(7)))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "3 buffered/gap", "4 applied/next", "*3 applied/released", "5 applied/new_epoch"},
			line:  &VersionLine{At: of(7, 40)},
		}, {
			name: "a line of no epoch yet", policy: wait,
			steps: []step{in(seq(1, 9), seq(2, 1, epoch(1)), seq(3, 10), seq(4, 2))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "3 buffered/gap", "4 applied/next"}, waiting: "3:buffered",
			line: &VersionLine{At: of(1, 2)},
		}, {
			name: "whatever start says", policy: fromOne,
			steps: []step{in(seq(1, 1, epoch(1), first(1)), seq(5, 5, epoch(2), first(1)), seq(4, 4, epoch(2), first(1)))},
			want:  []string{"1 applied/first", "5 applied/new_epoch", "4 stale/older"},
		}, {
			name: "start: backfill asks nothing", policy: truth,
			steps: []step{in(seq(1, 1, epoch(1), fetched), seq(5, 5, epoch(2)))},
			want:  []string{"1 applied/backfilled", "5 applied/new_epoch"},
		}, {
			name: "a lower epoch is older, by the payload, whatever its value", policy: wait,
			steps: []step{in(seq(1, 1, epoch(2)), seq(2, 2, epoch(1)), seq(3, 2, epoch(1), delta), seq(4, 99, epoch(1)), seq(5, 2, epoch(2)))},
			want:  []string{"1 applied/first", "2 stale/older", "3 late/older_delta", "4 stale/older", "5 applied/next"},
		}, {
			name: "equal: first compares inside the epoch", policy: keepFirst,
			steps: []step{in(seq(1, 1, epoch(1)), seq(2, 1, epoch(2)), seq(3, 1, epoch(2)))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "3 stale/equal_first"},
		}, {
			name: "words and times have epochs too", policy: wait,
			steps: []step{
				in(word(1, "b", epoch(1)), word(2, "a", epoch(2))),
				in(rec(3, schemas.Timestamp, 9, epoch(3)), rec(4, schemas.Timestamp, 5, epoch(4)), rec(5, schemas.Timestamp, 7, epoch(3))),
			},
			want: []string{"1 applied/first", "2 applied/new_epoch", "3 applied/new_epoch", "4 applied/new_epoch", "5 stale/older"},
		}, {
			name: "what waits goes first, gap after gap", policy: wait,
			steps: []step{in(seq(1, 1, epoch(1)), seq(5, 5, epoch(1)), seq(3, 3, epoch(1)), seq(9, 1, epoch(2)), seq(2, 2, epoch(1)))},
			want: []string{"1 applied/first", "5 buffered/gap", "3 buffered/gap", "*3 applied/gap_skipped", "*5 applied/gap_skipped",
				"9 applied/new_epoch", "2 stale/older"},
			line: &VersionLine{At: of(2, 1)},
		}, {
			name: "or is given up", policy: giveUp,
			steps: []step{in(seq(1, 1, epoch(1)), seq(3, 3, epoch(1)), seq(9, 1, epoch(2)))},
			want:  []string{"1 applied/first", "3 buffered/gap", "*3 + applied/gap_dead", "9 applied/new_epoch"},
		}, {
			name: "parked ones too, and the line is not parked any more", policy: park,
			steps: []step{in(seq(1, 1, epoch(1)), seq(3, 3, epoch(1))), line("e"), in(seq(9, 1, epoch(2)), seq(10, 2, epoch(2)))},
			want: []string{"1 applied/first", "3 buffered/gap", "*3 parked/gap_expired", "*3 applied/gap_skipped",
				"9 applied/new_epoch", "10 applied/next"},
			line: &VersionLine{At: of(2, 2)},
		}, {
			name: "skipped places are forgotten with their epoch", policy: atOnce,
			steps: []step{
				in(seq(1, 1, epoch(1)), seq(4, 4, epoch(1)), seq(2, 2, epoch(1))),
				in(seq(9, 9, epoch(2)), seq(3, 3, epoch(1)), seq(8, 3, epoch(2))),
			},
			want: []string{"1 applied/first", "4 applied/gap_skipped", "2 late/filler", "9 applied/new_epoch", "3 stale/older", "8 stale/older"},
			line: &VersionLine{At: of(2, 9)},
		}, {
			name: "a place of the new epoch is not filled by the old one", policy: atOnce,
			steps: []step{in(seq(1, 1, epoch(1)), seq(2, 1, epoch(2)), seq(4, 4, epoch(2)), seq(5, 3, epoch(1)), seq(6, 3, epoch(2)))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "4 applied/gap_skipped", "5 stale/older", "6 late/filler"},
			line:  &VersionLine{At: of(2, 4), Skipped: []Span{{2, 2}}},
		}, {
			name: "a filtered one of kind sequence moves the line all the same", policy: wait,
			steps: []step{in(seq(1, 9, epoch(1)), seq(2, 1, epoch(2), filtered), seq(3, 2, epoch(2)), seq(4, 10, epoch(1)))},
			want:  []string{"1 applied/first", "2 filtered/type", "3 applied/next", "4 stale/older"},
		}, {
			name: "a filtered one of another kind does not", policy: wait,
			steps: []step{in(rec(1, schemas.Monotonic, 9, epoch(1)), rec(2, schemas.Monotonic, 1, epoch(2), filtered), rec(3, schemas.Monotonic, 10, epoch(1)))},
			want:  []string{"1 applied/first", "2 filtered/type", "3 applied/next"},
		}, {
			name: "the question is about the line's own epoch", policy: fetch,
			steps: []step{in(seq(1, 9, epoch(1)), seq(2, 1, epoch(2)), seq(4, 4, epoch(2))), line("e"), in(seq(3, 3, epoch(2), fetched))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "4 buffered/gap", "3 applied/backfilled", "*4 applied/released"},
			asked: []string{"gap 2-3"},
		}, {
			name: "an answer of the epoch before is older", policy: fetch,
			steps: []step{in(seq(1, 1, epoch(1)), seq(3, 3, epoch(1))), line("e"), in(seq(9, 1, epoch(2)), seq(2, 2, epoch(1), fetched))},
			want:  []string{"1 applied/first", "3 buffered/gap", "*3 applied/gap_skipped", "9 applied/new_epoch", "2 stale/older"},
			asked: []string{"gap 2-2"},
		}, {
			name: "an answer of a new epoch begins it", policy: fetch,
			steps: []step{in(seq(1, 1, epoch(1)), seq(3, 3, epoch(1))), line("e"), in(seq(9, 1, epoch(2), fetched))},
			want:  []string{"1 applied/first", "3 buffered/gap", "*3 applied/gap_skipped", "9 applied/new_epoch"},
			asked: []string{"gap 2-2"},
		}, {
			name: "what was held of the epoch before is late", policy: holdEqual,
			steps: []step{in(seq(1, 5, epoch(1)), seq(2, 5, epoch(1)), seq(3, 1, epoch(2))), redrive},
			want:  []string{"1 applied/first", "2 | parked/equal_held", "3 applied/new_epoch", "*2 late/redriven"},
		}, {
			name: "an operator's release is of one epoch", policy: wait,
			steps: []step{in(seq(1, 9, epoch(1)), seq(2, 1, epoch(2)), seq(4, 4, epoch(2))), {release: []VersionLineKey{e}}, in(seq(3, 3, epoch(2)))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "4 buffered/gap", "*4 applied/gap_skipped", "3 late/filler"},
		},
	}.test(t)
}

// What waits for a line's beginning has an epoch as well.
func TestNewEpochOfALineThatHasNotBegun(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "applied/new_epoch ends the wait", policy: fromOne,
			steps: []step{in(seq(3, 3, epoch(1), first(1)), seq(4, 1, epoch(2), first(1)))},
			want:  []string{"3 buffered/start_gap", "*3 applied/gap_skipped", "4 applied/new_epoch"},
			line:  &VersionLine{At: of(2, 1)},
		}, {
			name: "a lower one begins nothing", policy: fromOne,
			steps:   []step{in(seq(3, 3, epoch(2), first(1)), seq(4, 1, epoch(1), first(1)), seq(5, 1, epoch(2), first(1)))},
			want:    []string{"3 buffered/start_gap", "4 stale/older", "5 applied/first"},
			waiting: "3:buffered",
		}, {
			name: "one without joins what waits", policy: fromOne,
			steps:   []step{in(seq(3, 3, epoch(2), first(1)), seq(2, 2, first(1)), seq(4, 4, first(1)), seq(1, 1, first(1)))},
			want:    []string{"3 buffered/start_gap", "2 buffered/start_gap", "4 buffered/start_gap", "1 applied/first", "*2 applied/released", "*3 applied/released", "*4 applied/released"},
			line:    &VersionLine{At: of(2, 4)},
			waiting: "",
		}, {
			name: "the truth of a higher epoch", policy: truth,
			steps: []step{in(seq(3, 3, epoch(1)), seq(9, 1, epoch(2), fetched))},
			want:  []string{"3 buffered/start_backfill", "*3 applied/first", "9 applied/new_epoch"},
			asked: []string{"start_backfill 1-2"},
		},
	}.test(t)
}

// A filtered event without an epoch that waits is known again: it is of its line's epoch both times.
func TestWaitingFilteredEventOfAnEpochIsSeen(t *testing.T) {
	t.Parallel()
	table{{
		name: "seen", policy: wait,
		steps:   []step{in(seq(1, 1, epoch(2)), seq(3, 3, filtered), seq(3, 3, filtered))},
		want:    []string{"1 applied/first", "3 buffered/gap", "3 duplicate/seen"},
		waiting: "3:buffered",
	}, {
		name: "a wait of no length looks at the epochs of what waits", policy: wait,
		steps: []step{in(seq(1, 1, epoch(2)), seq(3, 3)), policy(atOnce), in(seq(5, 5))},
		want:  []string{"1 applied/first", "3 buffered/gap", "*3 applied/gap_skipped", "5 applied/gap_skipped"},
	}}.test(t)
}
