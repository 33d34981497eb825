package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// rows has a short history for every row of the table in doc.go, in its order and under its name.
var rows = table{
	{
		name: "quarantined/undecodable", policy: wait,
		steps: []step{in(Record{Broken: ReasonUndecodable})}, want: []string{"0 quarantined/undecodable"},
	}, {
		name: "quarantined/data_rejected", policy: wait,
		steps: []step{in(Record{Broken: ReasonDataRejected})}, want: []string{"0 quarantined/data_rejected"},
	}, {
		name: "quarantined/misplaced", policy: wait,
		steps: []step{in(seq(1, 1, misplaced), seq(1, 1))}, want: []string{"1 quarantined/misplaced", "1 applied/first"},
	}, {
		name: "quarantined/too_large", policy: wait,
		steps: []step{in(Record{Broken: ReasonTooLarge})}, want: []string{"0 quarantined/too_large"},
	}, {
		name: "quarantined/expression", policy: wait,
		steps: []step{in(seq(1, 1), seq(2, 2, failed), seq(1, 1, failed), seq(3, 3), seq(2, 2))},
		want:  []string{"1 applied/first", "2 quarantined/expression", "1 duplicate/seen", "3 buffered/gap", "2 applied/next", "*3 applied/released"},
	}, {
		name: "duplicate/seen", policy: wait,
		steps: []step{in(seq(1, 1), seq(1, 1))}, want: []string{"1 applied/first", "1 duplicate/seen"},
	}, {
		name: "duplicate/key", policy: with(func(p *Policy) { p.Also = time.Minute }),
		steps: []step{in(seq(1, 1, also), seq(2, 2, also), seq(3, 3), seq(5, 5, also), seq(5, 5, also), seq(4, 4), seq(2, 2, also))},
		want:  []string{"1 applied/first", "2 duplicate/key", "3 applied/next", "5 buffered/gap", "5 duplicate/seen", "4 applied/next", "*5 duplicate/key", "2 duplicate/seen"},
	}, {
		name: "conflict/body_differs", policy: wait,
		steps: []step{in(seq(1, 1), seq(1, 1, forged))}, want: []string{"1 applied/first", "1 conflict/body_differs"},
	}, {
		name: "filtered/type", policy: wait,
		steps: []step{in(seq(1, 1, filtered))}, want: []string{"1 filtered/type"},
	}, {
		name: "filtered/match", policy: wait,
		steps: []step{in(seq(1, 1), seq(3, 3, unmatched), seq(3, 3, failed), seq(2, 2))},
		want:  []string{"1 applied/first", "3 buffered/gap", "3 quarantined/expression", "2 applied/next", "*3 filtered/match"},
	}, {
		name: "applied/arrival", policy: wait,
		steps: []step{in(rec(1, schemas.None, 0))}, want: []string{"1 applied/arrival"},
	}, {
		name: "applied/first", policy: wait,
		steps: []step{in(seq(7, 7))}, want: []string{"7 applied/first"},
	}, {
		name: "applied/new_epoch", policy: wait,
		steps: []step{in(seq(1, 9, epoch(1)), seq(2, 4, epoch(2)))}, want: []string{"1 applied/first", "2 applied/new_epoch"},
	}, {
		name: "applied/next", policy: wait,
		steps: []step{in(seq(1, 1), seq(2, 2))}, want: []string{"1 applied/first", "2 applied/next"},
	}, {
		name: "applied/equal", policy: wait,
		steps: []step{in(seq(1, 1), seq(2, 1))}, want: []string{"1 applied/first", "2 applied/equal"},
	}, {
		name: "applied/backfilled", policy: fetch,
		steps: []step{in(seq(1, 1), seq(5, 5, fetched))}, want: []string{"1 applied/first", "5 applied/backfilled"},
	}, {
		name: "applied/released", policy: wait,
		steps: []step{in(seq(1, 1), seq(3, 3), seq(2, 2))},
		want:  []string{"1 applied/first", "3 buffered/gap", "2 applied/next", "*3 applied/released"},
	}, {
		name: "applied/gap_skipped", policy: wait,
		steps: []step{in(seq(1, 1), seq(3, 3)), line("e")},
		want:  []string{"1 applied/first", "3 buffered/gap", "*3 applied/gap_skipped"},
	}, {
		name: "applied/gap_dead", policy: giveUp,
		steps: []step{in(seq(1, 1), seq(3, 3)), line("e")},
		want:  []string{"1 applied/first", "3 buffered/gap", "*3 + applied/gap_dead"},
	}, {
		name: "applied/redriven", policy: holdEqual,
		steps: []step{in(seq(1, 1), seq(2, 1)), redrive},
		want:  []string{"1 applied/first", "2 | parked/equal_held", "*2 applied/redriven"},
	}, {
		name: "late/redriven", policy: holdEqual,
		steps: []step{in(seq(1, 1), seq(2, 1), seq(3, 2)), redrive},
		want:  []string{"1 applied/first", "2 | parked/equal_held", "3 applied/next", "*2 late/redriven"},
	}, {
		name: "applied/again", policy: wait,
		steps: []step{in(seq(1, 1)), reprocess(false, seq(11, 1))}, want: []string{"1 applied/first", "11 applied/again"},
	}, {
		name: "late/again", policy: wait,
		steps: []step{in(seq(1, 1), seq(2, 2)), reprocess(false, seq(11, 1, delta))}, want: []string{"1 applied/first", "2 applied/next", "11 late/again"},
	}, {
		name: "late/older_delta", policy: wait,
		steps: []step{in(seq(2, 2), seq(1, 1, delta))}, want: []string{"2 applied/first", "1 late/older_delta"},
	}, {
		name: "late/older", policy: with(func(p *Policy) { p.Stale.Snapshot = StaleDeliver }),
		steps: []step{in(seq(2, 2), seq(1, 1))}, want: []string{"2 applied/first", "1 late/older"},
	}, {
		name: "late/filler", policy: atOnce,
		steps: []step{in(seq(1, 1), seq(3, 3), seq(2, 2))},
		want:  []string{"1 applied/first", "3 applied/gap_skipped", "2 late/filler"},
	}, {
		name: "late/equal_first", policy: keepFirst,
		steps: []step{in(seq(1, 1), seq(2, 1, delta))}, want: []string{"1 applied/first", "2 late/equal_first"},
	}, {
		name: "late/gap_dead", policy: with(func(p *Policy) { p.Then, p.Equal = ThenDeadLetter, EqualFirst }),
		steps: []step{in(seq(1, 1), seq(3, 3), seq(4, 3, delta)), line("e")},
		want:  []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "*3 + applied/gap_dead", "*4 + late/gap_dead"},
	}, {
		name: "stale/older", policy: wait,
		steps: []step{in(seq(2, 2), seq(1, 1))}, want: []string{"2 applied/first", "1 stale/older"},
	}, {
		name: "stale/older_delta", policy: with(func(p *Policy) { p.Stale.Delta = StaleDrop }),
		steps: []step{in(seq(2, 2), seq(1, 1, delta))}, want: []string{"2 applied/first", "1 stale/older_delta"},
	}, {
		name: "stale/filler", policy: with(func(p *Policy) { p.GapWait, p.LateSnapshots = 0, false }),
		steps: []step{in(seq(1, 1), seq(4, 4), seq(2, 2), seq(3, 3, delta))},
		want:  []string{"1 applied/first", "4 applied/gap_skipped", "2 stale/filler", "3 late/filler"},
	}, {
		name: "stale/equal_first", policy: keepFirst,
		steps: []step{in(seq(1, 1), seq(2, 1))}, want: []string{"1 applied/first", "2 stale/equal_first"},
	}, {
		name: "stale/equal_last", policy: keepLast,
		steps: []step{in(seq(1, 1), seq(31, 3), seq(32, 3), seq(2, 2))},
		want: []string{
			"1 applied/first", "31 buffered/gap", "32 buffered/gap", "2 applied/next", "*31 stale/equal_last", "*32 applied/released",
		},
	}, {
		name: "stale/discarded", policy: holdEqual,
		steps: []step{in(seq(1, 1), seq(2, 1)), discard},
		want:  []string{"1 applied/first", "2 | parked/equal_held", "*2 stale/discarded"},
	}, {
		name: "buffered/gap", policy: wait,
		steps: []step{in(seq(1, 1), seq(3, 3))}, want: []string{"1 applied/first", "3 buffered/gap"}, waiting: "3:buffered",
	}, {
		name: "buffered/start_gap", policy: fromOne,
		steps: []step{in(seq(3, 3, first(1)))}, want: []string{"3 buffered/start_gap"}, waiting: "3:buffered",
	}, {
		name: "buffered/start_backfill", policy: truth,
		steps: []step{in(seq(3, 3))}, want: []string{"3 buffered/start_backfill"}, waiting: "3:buffered?",
		asked: []string{"start_backfill 1-2"},
	}, {
		name: "parked/gap_expired", policy: park,
		steps:   []step{in(seq(1, 1), seq(3, 3)), line("e")},
		want:    []string{"1 applied/first", "3 buffered/gap", "*3 parked/gap_expired"},
		waiting: "3:parked",
	}, {
		name: "parked/overflow", policy: with(func(p *Policy) { p.MaxPerEntity = 1 }),
		steps:   []step{in(seq(1, 1), seq(3, 3), seq(4, 4))},
		want:    []string{"1 applied/first", "3 buffered/gap", "*3 parked/overflow", "4 parked/overflow"},
		waiting: "3:parked 4:parked",
	}, {
		name: "parked/behind_park", policy: parkNow,
		steps:   []step{in(seq(1, 1), seq(3, 3), seq(5, 5))},
		want:    []string{"1 applied/first", "3 parked/gap_expired", "5 parked/behind_park"},
		waiting: "3:parked 5:parked",
	}, {
		name: "parked/older_held", policy: with(func(p *Policy) { p.Stale.Snapshot = StaleHold }),
		steps: []step{in(seq(2, 2), seq(1, 1))}, want: []string{"2 applied/first", "1 | parked/older_held"},
	}, {
		name: "parked/equal_held", policy: holdEqual,
		steps: []step{in(seq(1, 1), seq(2, 1))}, want: []string{"1 applied/first", "2 | parked/equal_held"},
	},
}

// TestRows plays every row of the decision table, and says where table and tests differ.
func TestRows(t *testing.T) {
	t.Parallel()
	var names, want []string
	for _, c := range rows {
		names = append(names, c.name)
		if !slices.ContainsFunc(c.want, func(said string) bool { return strings.HasSuffix(said, " "+c.name) }) {
			t.Errorf("%s: the case never says it: %v", c.name, c.want)
		}
	}
	for _, row := range documented(t) {
		want = append(want, string(row.Decision)+"/"+string(row.Reason))
	}
	if !slices.Equal(names, want) {
		t.Errorf("the rows tested are\n%v\nthe table in doc.go has\n%v", names, want)
	}
	rows.test(t)
}
