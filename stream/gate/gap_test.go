package gate

import (
	"math"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func TestGapSkip(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "skip releases the lowest, what follows densely, and leaves the rest waiting", policy: wait,
			steps:   []step{in(seq(1, 1), seq(4, 4), seq(5, 5), seq(9, 9)), line("e")},
			want:    []string{"1 applied/first", "4 buffered/gap", "5 buffered/gap", "9 buffered/gap", "*4 applied/gap_skipped", "*5 applied/released"},
			waiting: "9:buffered",
			line:    &VersionLine{At: at(5), Skipped: []Span{{2, 3}}},
		}, {
			name: "of two with the lowest version both go", policy: wait,
			steps: []step{in(seq(1, 1), seq(30, 3), seq(31, 3)), line("e")},
			want:  []string{"1 applied/first", "30 buffered/gap", "31 buffered/gap", "*30 applied/gap_skipped", "*31 applied/released"},
		}, {
			name: "a filler of a skipped place is late once, a snapshot too where those are wanted", policy: atOnce,
			steps: []step{in(seq(1, 1), seq(5, 5), seq(3, 3), seq(30, 3), seq(4, 4, delta), seq(40, 4, delta))},
			want: []string{
				"1 applied/first", "5 applied/gap_skipped", "3 late/filler", "30 stale/older", "4 late/filler", "40 late/older_delta",
			},
			line: &VersionLine{At: at(5), Skipped: []Span{{2, 2}}},
		}, {
			name: "no wait any more: what waited below goes first", policy: wait,
			steps:   []step{in(seq(1, 1), seq(3, 3), seq(6, 6), seq(12, 12)), policy(atOnce), in(seq(9, 9), seq(11, 11))},
			want:    []string{"1 applied/first", "3 buffered/gap", "6 buffered/gap", "12 buffered/gap", "*3 applied/gap_skipped", "*6 applied/gap_skipped", "9 applied/gap_skipped", "11 applied/gap_skipped", "*12 applied/released"},
			waiting: "",
		}, {
			name: "no wait any more: the event may turn out next or equal", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(6, 6)), policy(atOnce), in(seq(4, 4), seq(60, 6))},
			want:  []string{"1 applied/first", "3 buffered/gap", "6 buffered/gap", "*3 applied/gap_skipped", "4 applied/next", "*6 applied/gap_skipped", "60 applied/equal"},
		}, {
			name: "no wait any more, on a line that has not begun", policy: fromOne,
			steps: []step{in(seq(3, 3, first(1)), seq(8, 8, first(1))), policy(atOnce), in(seq(5, 5, first(1)))},
			want:  []string{"3 buffered/start_gap", "8 buffered/start_gap", "*3 applied/gap_skipped", "5 applied/gap_skipped"},
			line:  &VersionLine{At: at(5), Skipped: []Span{{1, 2}, {4, 4}}}, waiting: "8:buffered",
		},
	}.test(t)
}

func TestGapPark(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "park parks all that waits, and later ones behind it", policy: park,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(6, 6)), line("e"), in(seq(4, 4), seq(8, 8), seq(8, 8))},
			want: []string{
				"1 applied/first", "3 buffered/gap", "6 buffered/gap", "*3 parked/gap_expired", "*6 parked/gap_expired",
				"4 parked/behind_park", "8 parked/behind_park", "8 duplicate/seen",
			},
			waiting: "3:parked 4:parked 6:parked 8:parked",
			line:    &VersionLine{At: at(1), Parked: ReasonGapExpired},
		}, {
			name: "lower and equal ones are decided as ever", policy: parkNow,
			steps:   []step{in(seq(5, 5), seq(7, 7), seq(50, 5), seq(4, 4), seq(3, 3, delta))},
			want:    []string{"5 applied/first", "7 parked/gap_expired", "50 applied/equal", "4 stale/older", "3 late/older_delta"},
			waiting: "7:parked",
		}, {
			name: "a filler applies, releases densely and leaves the line parked while places are missing", policy: parkNow,
			steps:   []step{in(seq(1, 1), seq(3, 3), seq(6, 6), seq(2, 2))},
			want:    []string{"1 applied/first", "3 parked/gap_expired", "6 parked/behind_park", "2 applied/next", "*3 applied/released"},
			waiting: "6:parked",
			line:    &VersionLine{At: at(3), Parked: ReasonGapExpired},
		}, {
			name: "the last filler ends the park", policy: parkNow,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(5, 5), seq(2, 2), seq(4, 4), seq(6, 6), seq(8, 8))},
			want: []string{
				"1 applied/first", "3 parked/gap_expired", "5 parked/behind_park", "2 applied/next", "*3 applied/released",
				"4 applied/next", "*5 applied/released", "6 applied/next", "8 parked/gap_expired",
			},
			waiting: "8:parked",
		}, {
			name: "no wait any more: what waited is parked with it", policy: wait,
			steps:   []step{in(seq(1, 1), seq(5, 5)), policy(parkNow), in(seq(3, 3))},
			want:    []string{"1 applied/first", "5 buffered/gap", "*5 parked/gap_expired", "3 parked/gap_expired"},
			waiting: "3:parked 5:parked",
		},
	}.test(t)
}

func TestBufferOutlivesDedupe(t *testing.T) {
	t.Parallel()
	st := NewState()
	Decide(st, []Record{seq(1, 1), seq(3, 3)}, wait)
	clear(st.Seen)
	got := run(st, wait, []step{in(seq(3, 3), seq(3, 3, forged))})
	if diff := cmp.Diff([]string{"3 duplicate/seen", "3 conflict/body_differs"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLineIsNotParkedWhenNothingWaits(t *testing.T) {
	t.Parallel()
	st := NewState() // as when an operator took out what was parked
	st.Lines[e] = &VersionLine{At: at(1), Parked: ReasonOverflow}
	got := run(st, parkNow, []step{in(seq(2, 2))})
	if diff := cmp.Diff([]string{"2 applied/next"}, got); diff != "" || st.Lines[e].Parked != "" {
		t.Errorf("parked %q\n%s", st.Lines[e].Parked, diff)
	}
}

func TestEpochIsTheLines(t *testing.T) {
	t.Parallel()
	st := NewState()
	st.Lines[e] = &VersionLine{At: schemas.Version{Kind: schemas.Sequence, Epoch: 2, Value: 5}}
	records := []Record{seq(4, 4), seq(5, 5), seq(8, 8), seq(6, 6), seq(7, 7)}
	out := Decide(st, records, wait)
	want := []string{"4 stale/older", "5 applied/equal", "8 buffered/gap", "6 applied/next", "7 applied/next", "*8 applied/released"}
	if diff := cmp.Diff(want, printed(out, records)); diff != "" {
		t.Error(diff)
	}
	for _, o := range out {
		if o.Version.Epoch != 2 {
			t.Errorf("%s/%s has epoch %d, want the line's 2", o.Decision, o.Reason, o.Version.Epoch)
		}
	}
}

func TestExtremes(t *testing.T) {
	t.Parallel()
	const lo, hi = math.MinInt64, math.MaxInt64
	table{
		{
			name: "a line at the largest value", policy: wait,
			steps: []step{in(seq(1, hi), seq(2, hi), seq(3, lo), seq(4, hi-1))},
			want:  []string{"1 applied/first", "2 applied/equal", "3 stale/older", "4 stale/older"},
		}, {
			name: "from one end to the other", policy: atOnce,
			steps: []step{in(seq(1, lo), seq(2, hi), seq(3, 0), seq(4, lo+1), seq(5, hi-1), seq(6, lo))},
			want:  []string{"1 applied/first", "2 applied/gap_skipped", "3 late/filler", "4 late/filler", "5 late/filler", "6 stale/older"},
			line:  &VersionLine{At: at(hi), Skipped: []Span{{lo + 2, -1}, {1, hi - 2}}},
		}, {
			name: "waiting at both ends", policy: wait,
			steps:   []step{in(seq(1, lo), seq(2, hi), seq(3, hi), seq(4, lo+2), seq(5, lo+1)), line("e")},
			want:    []string{"1 applied/first", "2 buffered/gap", "3 buffered/gap", "4 buffered/gap", "5 applied/next", "*4 applied/released", "*2 applied/gap_skipped", "*3 applied/released"},
			waiting: "",
		}, {
			name: "a negative first", policy: fromOne,
			steps: []step{in(seq(1, hi, first(lo)), seq(2, lo, first(lo)), seq(3, lo+1, first(lo))), line("e")},
			want:  []string{"1 buffered/start_gap", "2 applied/first", "3 applied/next", "*1 applied/gap_skipped"},
			line:  &VersionLine{At: at(hi), Skipped: []Span{{lo + 2, hi - 1}}},
		}, {
			name: "a first above everything", policy: fromOne,
			steps: []step{in(seq(1, 5, first(hi)), seq(2, hi, first(hi)), seq(3, lo, first(hi), delta))},
			want:  []string{"1 stale/older", "2 applied/first", "3 late/older_delta"},
		}, {
			name: "a start gap from the smallest value", policy: with(func(p *Policy) { p.Start, p.GapWait = StartFirst, 0 }),
			steps: []step{in(seq(1, lo+1, first(lo)), seq(2, lo, first(lo)))},
			want:  []string{"1 applied/gap_skipped", "2 late/filler"},
			line:  &VersionLine{At: at(lo + 1)},
		},
	}.test(t)
}

func TestSkippedIsBounded(t *testing.T) {
	t.Parallel()
	st := NewState()
	for i := range int64(MaxSpans + 4) { // 0, 2, 4, ...: every odd place is skipped
		Decide(st, []Record{seq(int(i), 2*i)}, atOnce)
	}
	spans := st.Lines[e].Skipped
	if len(spans) != MaxSpans || spans[0] != (Span{7, 7}) {
		t.Fatalf("got %d spans from %v, want %d from 7", len(spans), spans[0], MaxSpans)
	}
	got := run(st, atOnce, []step{in(seq(101, 5), seq(102, 3, delta), seq(103, 7))})
	if diff := cmp.Diff([]string{"101 stale/older", "102 late/older_delta", "103 late/filler"}, got); diff != "" {
		t.Error(diff)
	}
	// A filler in the middle of a wide span makes two of one; the oldest gives way.
	Decide(st, []Record{seq(200, 100), seq(201, 120), seq(202, 110)}, atOnce)
	if spans := st.Lines[e].Skipped; len(spans) != MaxSpans || spans[MaxSpans-1] != (Span{111, 119}) {
		t.Errorf("got %v", spans)
	}
}

// Where the order is by arrival from now on, what waits came before what comes: it goes first, whatever would have followed its wait, and with the end
// of that at the latest.
func TestFromVersionToArrival(t *testing.T) {
	t.Parallel()
	parkArrival := with(func(p *Policy) { p.Order, p.Then = OrderArrival, ThenPark })
	table{
		{
			name: "before the next event, gap after gap", policy: wait,
			steps: []step{in(seq(1, 1), seq(6, 6), seq(3, 3)), policy(arrival), in(seq(4, 4), seq(2, 2))},
			want:  []string{"1 applied/first", "6 buffered/gap", "3 buffered/gap", "*3 applied/gap_skipped", "*6 applied/gap_skipped", "4 applied/arrival", "2 applied/arrival"},
		}, {
			name: "when the wait ends, whatever was to follow", policy: park,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(6, 6)), policy(parkArrival), line("e"), in(seq(4, 4))},
			want:  []string{"1 applied/first", "3 buffered/gap", "6 buffered/gap", "*3 applied/gap_skipped", "*6 applied/gap_skipped", "4 applied/arrival"},
		}, {
			name: "what is parked, too", policy: parkNow,
			steps: []step{in(seq(1, 1), seq(3, 3)), policy(parkArrival), in(seq(4, 4))},
			want:  []string{"1 applied/first", "3 parked/gap_expired", "*3 applied/gap_skipped", "4 applied/arrival"},
		}, {
			name: "what waited for a backfill", policy: truth,
			steps: []step{in(seq(1, 1), seq(2, 2)), policy(arrival), line("e")},
			want:  []string{"1 buffered/start_backfill", "2 buffered/start_backfill", "*1 applied/gap_skipped", "*2 applied/released"}, asked: []string{"start_backfill 0-0"},
		}, {
			name: "in one step", policy: with(func(p *Policy) { p.MaxReleases = 1 }),
			steps: []step{in(seq(1, 1), seq(3, 3), seq(4, 4)), policy(with(func(p *Policy) { p.Order, p.MaxReleases = OrderArrival, 1 })), in(seq(5, 9))},
			want:  []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "*3 applied/gap_skipped", "*4 applied/released", "5 applied/arrival"},
		},
	}.test(t)
}
