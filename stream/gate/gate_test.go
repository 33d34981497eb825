package gate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func TestOrderOfQuestions(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "undecodable is quarantined and not remembered", policy: wait,
			steps: []step{in(Record{Broken: ReasonUndecodable}, Record{Broken: ReasonUndecodable}, Record{Broken: ReasonDataRejected})},
			want:  []string{"0 quarantined/undecodable", "0 quarantined/undecodable", "0 quarantined/data_rejected"},
		}, {
			name: "what is quarantined for its place or size is not remembered either, and moves no line", policy: wait,
			steps: []step{in(seq(2, 2, misplaced), seq(3, 3, tooLarge), seq(1, 1)), in(seq(2, 2), seq(3, 3))},
			want: []string{
				"2 quarantined/misplaced", "3 quarantined/too_large", "1 applied/first", "2 applied/next", "3 applied/next",
			},
		}, {
			name: "same key and another hash is a conflict that does not replace the first", policy: wait,
			steps: []step{in(seq(1, 1), seq(1, 2, forged), seq(1, 1), seq(1, 2, forged))},
			want:  []string{"1 applied/first", "1 conflict/body_differs", "1 duplicate/seen", "1 conflict/body_differs"},
		}, {
			name: "a duplicate of an event that waits", policy: wait,
			steps:   []step{in(seq(1, 1), seq(3, 3), seq(3, 3), seq(3, 3, forged))},
			want:    []string{"1 applied/first", "3 buffered/gap", "3 duplicate/seen", "3 conflict/body_differs"},
			waiting: "3:buffered",
		}, {
			name: "seen is asked before filtered", policy: wait,
			steps: []step{in(seq(1, 1), seq(1, 1, filtered))},
			want:  []string{"1 applied/first", "1 duplicate/seen"},
		}, {
			name: "filtered is asked before version", policy: wait,
			steps: []step{in(seq(5, 5), seq(4, 4, filtered), rec(6, schemas.None, 0, filtered))},
			want:  []string{"5 applied/first", "4 filtered/type", "6 filtered/type"},
			line:  &VersionLine{At: at(5)},
		}, {
			name: "filtered is not remembered as seen", policy: arrival,
			steps: []step{in(seq(1, 1, filtered), seq(1, 1, filtered), seq(1, 1), seq(1, 1))},
			want:  []string{"1 filtered/type", "1 filtered/type", "1 applied/arrival", "1 duplicate/seen"},
		},
	}.test(t)
}

func TestArrival(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "order arrival runs everything once and touches no line", policy: arrival,
			steps: []step{in(seq(3, 3), seq(1, 1), seq(1, 1), rec(2, schemas.Timestamp, 5))},
			want:  []string{"3 applied/arrival", "1 applied/arrival", "1 duplicate/seen", "2 applied/arrival"},
		}, {
			name: "kind none touches no line", policy: wait,
			steps: []step{in(seq(1, 1), rec(2, schemas.None, 0), rec(3, "", 0), seq(4, 2))},
			want:  []string{"1 applied/first", "2 applied/arrival", "3 applied/arrival", "4 applied/next"},
			line:  &VersionLine{At: at(2)},
		},
	}.test(t)
	st := NewState()
	Decide(st, []Record{seq(1, 1), rec(2, schemas.None, 0)}, arrival)
	if len(st.Lines) != 0 {
		t.Errorf("order arrival left lines: %v", st.Lines)
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	table{
		{
			name: "the next value applies and releases densely in version order", policy: wait,
			steps:   []step{in(seq(1, 1), seq(7, 7), seq(4, 4), seq(3, 3), seq(2, 2))},
			want:    []string{"1 applied/first", "7 buffered/gap", "4 buffered/gap", "3 buffered/gap", "2 applied/next", "*3 applied/released", "*4 applied/released"},
			waiting: "7:buffered",
		}, {
			name: "a stale one is remembered as seen", policy: wait,
			steps: []step{in(seq(5, 5), seq(1, 1), seq(1, 1))},
			want:  []string{"5 applied/first", "1 stale/older", "1 duplicate/seen"},
		}, {
			name: "sub breaks ties inside a value and makes no gap", policy: wait,
			steps: []step{in(seq(1, 1), seq(2, 1, sub(2)), seq(3, 1, sub(1)), seq(4, 2, sub(7)), seq(5, 2, sub(7)))},
			want:  []string{"1 applied/first", "2 applied/next", "3 stale/older", "4 applied/next", "5 applied/equal"},
		}, {
			name: "clocks and entities do not meet", policy: wait,
			steps: []step{in(seq(1, 9), seq(2, 1, clock("c")), seq(3, 1, on("f")), seq(4, 2, clock("c")))},
			want:  []string{"1 applied/first", "2 applied/first", "3 applied/first", "4 applied/next"},
		}, {
			name: "a deletion keeps its line", policy: wait,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(2, 2, deleted), seq(10, 1), seq(4, 4))},
			want:  []string{"1 applied/first", "3 buffered/gap", "2 applied/next", "*3 applied/released", "10 stale/older", "4 applied/next"},
		}, {
			name: "another kind begins the line again and lets go what waited, parked or not", policy: park,
			steps: []step{
				in(seq(1, 1), seq(3, 3), seq(6, 6)), line("e"), in(rec(7, schemas.Timestamp, 100), rec(8, schemas.Timestamp, 99), seq(9, 2), seq(10, 3)),
			},
			want: []string{
				"1 applied/first", "3 buffered/gap", "6 buffered/gap", "*3 parked/gap_expired", "*6 parked/gap_expired",
				"*3 applied/gap_skipped", "*6 applied/gap_skipped", "7 applied/first", "8 stale/older", "9 applied/first", "10 applied/next",
			},
			line: &VersionLine{At: at(3)},
		}, {
			name: "another kind before the line began", policy: fromOne,
			steps: []step{in(seq(3, 3, first(1)), rec(4, schemas.Monotonic, 1), seq(5, 9, first(1)))},
			want:  []string{"3 buffered/start_gap", "*3 applied/gap_skipped", "4 applied/first", "5 applied/first"},
			line:  &VersionLine{At: at(9)},
		},
	}.test(t)
}

func TestMonotonicAndTimestamp(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.VersionKind{schemas.Monotonic, schemas.Timestamp} {
		table{
			{
				name: string(kind) + " has no gaps", policy: wait,
				steps: []step{in(rec(1, kind, 10), rec(2, kind, 500), rec(3, kind, 500), rec(4, kind, 499), rec(5, kind, 20, delta))},
				want:  []string{"1 applied/first", "2 applied/next", "3 applied/equal", "4 stale/older", "5 late/older_delta"},
			}, {
				name: string(kind) + " filtered leaves the line alone", policy: wait,
				steps: []step{in(rec(1, kind, 10, filtered), rec(2, kind, 5), rec(3, kind, 10, filtered), rec(4, kind, 7))},
				want:  []string{"1 filtered/type", "2 applied/first", "3 filtered/type", "4 applied/next"},
			}, {
				name: string(kind) + " knows no first", policy: fromOne,
				steps: []step{in(rec(1, kind, 10, first(1)))},
				want:  []string{"1 applied/first"},
			},
		}.test(t)
	}
}

func word(id int, w string, opts ...func(*Record)) Record {
	r := rec(id, schemas.Monotonic, 0, opts...)
	r.Version.Text = w
	return r
}

func TestWordsCompareBytewise(t *testing.T) {
	t.Parallel()
	at := func(w string) *VersionLine {
		return &VersionLine{At: schemas.Version{Kind: schemas.Monotonic, Text: w}}
	}
	table{
		{
			name: "ULIDs", policy: wait,
			steps: []step{in(word(1, "01ARZ3NDEKTSV4RRFFQ69G5FAV"), word(2, "01BX5ZZKBKACTAV9WEVGEMMVRZ"), word(3, "01BX5ZZKBKACTAV9WEVGEMMVRY"),
				word(4, "01BX5ZZKBKACTAV9WEVGEMMVRZ"), word(5, "01ARZ3NDEKTSV4RRFFQ69G5FAV", delta))},
			want: []string{"1 applied/first", "2 applied/next", "3 stale/older", "4 applied/equal", "5 late/older_delta"},
			line: at("01BX5ZZKBKACTAV9WEVGEMMVRZ"),
		}, {
			name: "bytes, not numbers and not letters", policy: wait,
			steps: []step{in(word(1, "9"), word(2, "10"), word(3, "a"), word(4, "B"), word(5, "aa"))},
			want:  []string{"1 applied/first", "2 stale/older", "3 applied/next", "4 stale/older", "5 applied/next"},
			line:  at("aa"),
		}, {
			name: "a rank breaks ties", policy: wait,
			steps: []step{in(word(1, "a", sub(2)), word(2, "a", sub(1)), word(3, "a", sub(3)), word(4, "b"))},
			want:  []string{"1 applied/first", "2 stale/older", "3 applied/next", "4 applied/next"},
		}, {
			name: "a mapping that turns from counters to words and back begins the line again", policy: fromOne,
			steps: []step{in(rec(1, schemas.Monotonic, 500), word(2, "a"), word(3, "A"), rec(4, schemas.Monotonic, 7), rec(5, schemas.Monotonic, 6))},
			want:  []string{"1 applied/first", "2 applied/first", "3 stale/older", "4 applied/first", "5 stale/older"},
			line:  &VersionLine{At: schemas.Version{Kind: schemas.Monotonic, Value: 7}},
		},
	}.test(t)
}

func TestTimestampIsClampedAgainstTheAppendTime(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	p := with(func(p *Policy) { p.FutureSkew = time.Minute })
	far := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		value    int64
		appended time.Time
		want     int64
	}{
		"past":               {base.UnixNano() - 5, base, base.UnixNano() - 5},
		"inside the skew":    {base.Add(time.Minute).UnixNano(), base, base.Add(time.Minute).UnixNano()},
		"beyond":             {base.Add(time.Hour).UnixNano(), base, base.Add(time.Minute).UnixNano()},
		"largest":            {math.MaxInt64, base, base.Add(time.Minute).UnixNano()},
		"smallest":           {math.MinInt64, base, math.MinInt64},
		"no append time":     {math.MaxInt64, time.Time{}, math.MaxInt64},
		"append time beyond": {math.MaxInt64, far, math.MaxInt64},
		"append time before": {5, time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := NewState()
			out := Decide(st, []Record{rec(1, schemas.Timestamp, c.value, appended(c.appended))}, p)
			if out[0].Version.Value != c.want || st.Lines[e].At.Value != c.want {
				t.Errorf("got %d on a line at %d, want %d", out[0].Version.Value, st.Lines[e].At.Value, c.want)
			}
		})
	}
	// A wild clock holds the line back by no more than the skew.
	st := NewState()
	got := run(st, p, []step{in(
		rec(1, schemas.Timestamp, math.MaxInt64, appended(base)),
		rec(2, schemas.Timestamp, base.Add(2*time.Minute).UnixNano(), appended(base.Add(2*time.Minute))))})
	if diff := cmp.Diff([]string{"1 applied/first", "2 applied/next"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	one := first(1)
	table{
		{
			name: "first waits for the first and releases", policy: fromOne,
			steps:   []step{in(seq(5, 5, one), seq(3, 3, one), seq(2, 2, one), seq(1, 1, one))},
			want:    []string{"5 buffered/start_gap", "3 buffered/start_gap", "2 buffered/start_gap", "1 applied/first", "*2 applied/released", "*3 applied/released"},
			waiting: "5:buffered",
		}, {
			name: "first value applies at once, zero included", policy: fromOne,
			steps: []step{in(seq(1, 0, first(0)), seq(2, 1, first(0)))},
			want:  []string{"1 applied/first", "2 applied/next"},
		}, {
			name: "below the first is stale or late and begins nothing", policy: fromOne,
			steps: []step{in(seq(1, 0, one), seq(2, -4, one, delta), seq(3, 1, one))},
			want:  []string{"1 stale/older", "2 late/older_delta", "3 applied/first"},
		}, {
			name: "without First, first is any", policy: fromOne,
			steps: []step{in(seq(7, 7), seq(8, 8, one))},
			want:  []string{"7 applied/first", "8 applied/next"},
		}, {
			name: "without First an event joins those that wait for the beginning", policy: fromOne,
			steps:   []step{in(seq(7, 7, one), seq(3, 3), seq(1, 1, one))},
			want:    []string{"7 buffered/start_gap", "3 buffered/start_gap", "1 applied/first"},
			waiting: "3:buffered 7:buffered",
		}, {
			name: "a line that begins above some that wait leaves none behind", policy: fromOne,
			steps: []step{
				in(seq(2, 2, one), seq(3, 3, one, delta), seq(4, 4, one, filtered), seq(8, 8, one), seq(7, 7, first(7)), seq(9, 2, one)),
			},
			want: []string{
				"2 buffered/start_gap", "3 buffered/start_gap", "4 buffered/start_gap", "8 buffered/start_gap",
				"7 applied/first", "*2 stale/older", "*3 late/older_delta", "*4 filtered/type", "*8 applied/released", "9 stale/older",
			},
			line: &VersionLine{At: at(8)},
		}, {
			name: "start any joins them too", policy: fromOne,
			steps:   []step{in(seq(7, 7, one)), policy(wait), in(seq(8, 8, one)), line("e")},
			want:    []string{"7 buffered/start_gap", "8 buffered/start_gap", "*7 applied/gap_skipped", "*8 applied/released"},
			line:    &VersionLine{At: at(8), Skipped: []Span{{1, 6}}},
			waiting: "",
		}, {
			name: "skip makes the lowest waiting one the start; the first ones are fillers then", policy: fromOne,
			steps: []step{in(seq(5, 5, one), seq(3, 3, one)), line("e"), in(seq(1, 1, one), seq(0, 0, one), seq(4, 4, one))},
			want: []string{
				"5 buffered/start_gap", "3 buffered/start_gap", "*3 applied/gap_skipped", "1 late/filler", "0 stale/older", "4 applied/next", "*5 applied/released",
			},
			line: &VersionLine{At: at(5), Skipped: []Span{{2, 2}}},
		}, {
			name: "park holds a line that has not begun; its first begins it, parked still", policy: with(func(p *Policy) { p.Start, p.Then = StartFirst, ThenPark }),
			steps: []step{in(seq(5, 5, one), seq(2, 2, one)), line("e"), in(seq(6, 6, one), seq(1, 1, one), seq(7, 7, one))},
			want: []string{
				"5 buffered/start_gap", "2 buffered/start_gap", "*2 parked/gap_expired", "*5 parked/gap_expired", "6 parked/behind_park",
				"1 applied/first", "*2 applied/released", "7 parked/behind_park",
			},
			waiting: "5:parked 6:parked 7:parked",
			line:    &VersionLine{At: at(2), Parked: ReasonGapExpired},
		},
	}.test(t)
}

func TestIDsOfTheBuffer(t *testing.T) {
	t.Parallel()
	st := NewState()
	Decide(st, []Record{seq(1, 1), seq(3, 3), seq(9, 9)}, wait)
	if w, ok := st.Waits(e); !ok || idOf(w.Key) != 3 || st.Buffered != 2 {
		t.Errorf("got %v %v with %d buffered, want 3 as the lowest of 2", w, ok, st.Buffered)
	}
	Expire(st, []VersionLineKey{e, e, e}, wait) // one gap a call, however often it is named
	if w, ok := st.Waits(e); !ok || idOf(w.Key) != 9 || st.Buffered != 1 {
		t.Errorf("got %v %v with %d buffered, want 9 alone", w, ok, st.Buffered)
	}
	Expire(st, []VersionLineKey{e}, park)
	if w, ok := st.Waits(e); ok || st.Buffered != 0 {
		t.Errorf("got %v %v with %d buffered, want none with a deadline", w, ok, st.Buffered)
	}
	if out := Expire(st, []VersionLineKey{e, {Entity: "unknown"}}, wait); len(out) != 0 {
		t.Errorf("a parked and an unknown line expired: %v", out)
	}
	want := []Span{{2, 2}}
	if !slices.Equal(st.Lines[e].Skipped, want) {
		t.Errorf("skipped %v, want %v", st.Lines[e].Skipped, want)
	}
}
