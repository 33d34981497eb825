package gate

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

func unknown(r *Record) { r.Payload = "" }

func TestEqualFirst(t *testing.T) {
	t.Parallel()
	parkFirst := with(func(p *Policy) { p.Equal, p.Then = EqualFirst, ThenPark })
	table{
		{
			name: "a delta and a body of unknown kind are late", policy: keepFirst,
			steps: []step{in(seq(1, 1), seq(2, 1, delta), seq(3, 1, unknown), seq(4, 2))},
			want:  []string{"1 applied/first", "2 late/equal_first", "3 late/equal_first", "4 applied/next"},
		}, {
			name: "a filtered one is not the first", policy: keepFirst,
			steps: []step{in(seq(1, 1), seq(2, 2, filtered), seq(3, 2), seq(4, 2), seq(2, 2))},
			want:  []string{"1 applied/first", "2 filtered/type", "3 applied/equal", "4 stale/equal_first", "2 stale/equal_first"},
		}, {
			name: "a filtered one of the line's version stays filtered", policy: keepFirst,
			steps: []step{in(seq(1, 1), seq(2, 1, filtered), seq(2, 1, filtered))},
			want:  []string{"1 applied/first", "2 filtered/type", "2 filtered/type"},
		}, {
			name: "of two that waited, the first in the log runs", policy: keepFirst,
			steps: []step{in(seq(1, 1), seq(31, 3), seq(30, 3), seq(32, 3, delta), seq(2, 2))},
			want: []string{
				"1 applied/first", "31 buffered/gap", "30 buffered/gap", "32 buffered/gap",
				"2 applied/next", "*30 applied/released", "*31 stale/equal_first", "*32 late/equal_first",
			},
		}, {
			name: "after a skip and after a park", policy: keepFirst,
			steps: []step{
				in(seq(1, 1), seq(30, 3), seq(31, 3)), line("e"), policy(parkFirst), in(seq(50, 5), seq(51, 5)), line("e"), in(seq(4, 4)),
			},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "*30 applied/gap_skipped", "*31 stale/equal_first",
				"50 buffered/gap", "51 buffered/gap", "*50 parked/gap_expired", "*51 parked/gap_expired",
				"4 applied/next", "*50 applied/released", "*51 stale/equal_first",
			},
			line: &VersionLine{At: at(5), Skipped: []Span{{2, 2}}},
		}, {
			name: "without versions nothing is equal", policy: with(func(p *Policy) { p.Equal, p.Order = EqualFirst, OrderArrival }),
			steps: []step{in(seq(1, 1), seq(2, 1))},
			want:  []string{"1 applied/arrival", "2 applied/arrival"},
		},
	}.test(t)
}

func TestEqualLast(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "each runs when it comes", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(2, 1), seq(3, 1, delta))},
			want:  []string{"1 applied/first", "2 applied/equal", "3 applied/equal"},
		}, {
			name: "of snapshots that waited together, the last in the log runs", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(32, 3), seq(30, 3), seq(31, 3), seq(40, 4), seq(2, 2))},
			want: []string{
				"1 applied/first", "32 buffered/gap", "30 buffered/gap", "31 buffered/gap", "40 buffered/gap", "2 applied/next",
				"*30 stale/equal_last", "*31 stale/equal_last", "*32 applied/released", "*40 applied/released",
			},
		}, {
			name: "the line's own version, twice among what it has reached", policy: with(func(p *Policy) { p.Equal, p.Start = EqualLast, StartFirst }),
			steps: []step{in(seq(30, 3, first(1)), seq(31, 3, first(1)), seq(9, 3, first(3)))},
			want:  []string{"30 buffered/start_gap", "31 buffered/start_gap", "9 applied/first", "*30 stale/equal_last", "*31 applied/released"},
		}, {
			name: "a delta is never dropped and replaces nothing", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3, delta), seq(2, 2))},
			want:  []string{"1 applied/first", "30 buffered/gap", "31 buffered/gap", "2 applied/next", "*30 applied/released", "*31 applied/released"},
		}, {
			name: "a delta between two snapshots", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3, delta), seq(32, 3), seq(2, 2))},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "32 buffered/gap",
				"2 applied/next", "*30 stale/equal_last", "*31 applied/released", "*32 applied/released",
			},
		}, {
			name: "a filtered one replaces nothing", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3, filtered), seq(2, 2))},
			want:  []string{"1 applied/first", "30 buffered/gap", "31 buffered/gap", "2 applied/next", "*30 applied/released", "*31 filtered/type"},
		}, {
			name: "another sub is another version", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3, sub(1)), seq(2, 2))},
			want:  []string{"1 applied/first", "30 buffered/gap", "31 buffered/gap", "2 applied/next", "*30 applied/released", "*31 applied/released"},
		}, {
			name: "a gap that is skipped is skipped by the last", policy: keepLast,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3), seq(50, 5)), line("e"), in(seq(2, 2))},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "50 buffered/gap",
				"*30 stale/equal_last", "*31 applied/gap_skipped", "2 late/filler",
			},
			waiting: "50:buffered",
			line:    &VersionLine{At: at(3)},
		},
	}.test(t)
}

func TestEqualHold(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "each one after the first is held, whatever its body, and remembered", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 1), seq(3, 1, delta), seq(4, 1, unknown), seq(2, 1), seq(5, 2), seq(6, 2))},
			want: []string{
				"1 applied/first", "2 | parked/equal_held", "3 | parked/equal_held", "4 | parked/equal_held", "2 duplicate/seen",
				"5 applied/next", "6 | parked/equal_held",
			},
			line: &VersionLine{At: at(2)},
		}, {
			name: "another sub is another version", policy: holdEqual,
			steps: []step{in(rec(1, schemas.Timestamp, 7), rec(2, schemas.Timestamp, 7, sub(1)), rec(3, schemas.Timestamp, 7, sub(1)))},
			want:  []string{"1 applied/first", "2 applied/next", "3 | parked/equal_held"},
		}, {
			name: "where the line's event was filtered, the next one applies", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(2, 2, filtered), seq(3, 2), seq(4, 2), seq(5, 2, filtered)), in(seq(2, 2))},
			want: []string{
				"1 applied/first", "2 filtered/type", "3 applied/equal", "4 | parked/equal_held", "5 filtered/type", "2 | parked/equal_held",
			},
		}, {
			name: "of those that waited, the first in the log runs", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(31, 3), seq(30, 3), seq(40, 4), seq(2, 2)), in(seq(31, 3))},
			want: []string{
				"1 applied/first", "31 buffered/gap", "30 buffered/gap", "40 buffered/gap", "2 applied/next",
				"*30 applied/released", "*31 | parked/equal_held", "*40 applied/released", "31 duplicate/seen",
			},
			line: &VersionLine{At: at(4)},
		}, {
			name: "after a skip", policy: holdEqual,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3)), line("e"), in(seq(32, 3))},
			want: []string{
				"1 applied/first", "30 buffered/gap", "31 buffered/gap", "*30 applied/gap_skipped", "*31 | parked/equal_held", "32 | parked/equal_held",
			},
		}, {
			name: "without versions nothing is equal", policy: with(func(p *Policy) { p.Equal, p.Order = EqualHold, OrderArrival }),
			steps: []step{in(seq(1, 1), seq(2, 1))},
			want:  []string{"1 applied/arrival", "2 applied/arrival"},
		},
	}.test(t)
}

// TestRankOrdersWhatHappensInOneSecond: a source's rank stands in the sub.
func TestRankOrdersWhatHappensInOneSecond(t *testing.T) {
	t.Parallel()
	queued, running, done := sub(1), sub(2), sub(3)
	for _, kind := range []schemas.VersionKind{schemas.Sequence, schemas.Monotonic, schemas.Timestamp} {
		table{
			{
				name: string(kind) + " in order", policy: wait,
				steps: []step{in(rec(1, kind, 7, queued), rec(2, kind, 7, running), rec(3, kind, 7, done), rec(4, kind, 8, queued))},
				want:  []string{"1 applied/first", "2 applied/next", "3 applied/next", "4 applied/next"},
			}, {
				name: string(kind) + " out of order", policy: keepFirst,
				steps: []step{in(rec(1, kind, 7, done), rec(2, kind, 7, queued), rec(3, kind, 7, running, delta), rec(4, kind, 7, done))},
				want:  []string{"1 applied/first", "2 stale/older", "3 late/older_delta", "4 stale/equal_first"},
			},
		}.test(t)
	}
	table{{
		name: "those that waited are released by rank", policy: wait,
		steps: []step{in(seq(1, 1), seq(33, 3, done), seq(31, 3, queued), seq(32, 3, running), seq(2, 2))},
		want: []string{
			"1 applied/first", "33 buffered/gap", "31 buffered/gap", "32 buffered/gap",
			"2 applied/next", "*31 applied/released", "*32 applied/released", "*33 applied/released",
		},
	}}.test(t)
}
