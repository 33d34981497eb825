package gate

import (
	"math"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func otherwise(p Policy, then Then) Policy {
	p.Otherwise = then
	return p
}

func TestGapBackfill(t *testing.T) {
	t.Parallel()
	fetchNow := with(func(p *Policy) { p.GapWait, p.Then, p.BackfillWait = 0, ThenBackfill, time.Minute })
	gap24 := []string{"gap 2-4"}
	table{
		{
			name: "the first end of the wait asks and decides nothing", policy: fetch,
			steps:   []step{in(seq(1, 1), seq(5, 5), seq(6, 6), seq(9, 9)), line("e")},
			want:    []string{"1 applied/first", "5 buffered/gap", "6 buffered/gap", "9 buffered/gap"},
			waiting: "5:buffered? 6:buffered? 9:buffered?", asked: gap24,
		}, {
			name: "synthetic deltas fill, and what waits behind another gap waits again", policy: fetch,
			steps: []step{
				in(seq(1, 1), seq(5, 5), seq(6, 6), seq(9, 9)), line("e"),
				in(seq(20, 2, delta, fetched), seq(40, 4, delta, fetched), seq(30, 3, delta, fetched)), line("e"),
			},
			want: []string{
				"1 applied/first", "5 buffered/gap", "6 buffered/gap", "9 buffered/gap",
				"20 applied/next", "40 buffered/gap", "30 applied/next", "*40 applied/released", "*5 applied/released", "*6 applied/released",
			},
			waiting: "9:buffered?", asked: []string{"gap 2-4", "gap 7-8"},
			line: &VersionLine{At: at(6)},
		}, {
			name: "while fillers are missing still, the line waits for the same answer", policy: otherwise(fetch, ThenSkip),
			steps: []step{in(seq(1, 1), seq(5, 5)), line("e"), in(seq(2, 2)), line("e")},
			want:  []string{"1 applied/first", "5 buffered/gap", "2 applied/next", "*5 applied/gap_skipped"},
			asked: gap24,
			line:  &VersionLine{At: at(5), Skipped: []Span{{3, 4}}},
		}, {
			name: "a synthetic snapshot covers what is missing below it", policy: fetch,
			steps: []step{in(seq(1, 1), seq(5, 5), seq(6, 6), seq(8, 8)), line("e"), in(seq(70, 7, fetched), seq(3, 3), seq(4, 4, delta))},
			want: []string{
				"1 applied/first", "5 buffered/gap", "6 buffered/gap", "8 buffered/gap", "70 applied/backfilled",
				"*5 stale/older", "*6 stale/older", "*8 applied/released", "3 stale/older", "4 late/older_delta",
			},
			asked: gap24,
			line:  &VersionLine{At: at(8)},
		}, {
			name: "what waited up to it is decided as what it is now", policy: with(func(p *Policy) {
				p.Then, p.BackfillWait, p.Equal, p.Stale.Snapshot = ThenBackfill, time.Minute, EqualHold, StaleHold
			}),
			steps: []step{
				in(seq(1, 1), seq(3, 3, delta), seq(4, 4), seq(5, 5, filtered), seq(60, 6), seq(61, 6, delta)), line("e"), in(seq(70, 6, fetched)),
			},
			want: []string{
				"1 applied/first", "3 buffered/gap", "4 buffered/gap", "5 buffered/gap", "60 buffered/gap", "61 buffered/gap",
				"70 applied/backfilled", "*3 late/older_delta", "*4 | parked/older_held", "*5 filtered/type",
				"*60 | parked/equal_held", "*61 | parked/equal_held",
			},
			asked: []string{"gap 2-2"},
			line:  &VersionLine{At: at(6)},
		}, {
			name: "a synthetic snapshot leaves earlier skipped places and what is missing above it as they are", policy: atOnce,
			steps: []step{
				in(seq(1, 1), seq(3, 3)), policy(fetch), in(seq(9, 9)), line("e"), in(seq(6, 6, fetched), seq(2, 2)), line("e"),
			},
			want: []string{
				"1 applied/first", "3 applied/gap_skipped", "9 buffered/gap", "6 applied/backfilled", "2 late/filler", "*9 parked/gap_expired",
			},
			waiting: "9:parked", asked: []string{"gap 4-8"}, // of which 7-8 is a part
		}, {
			name: "what comes to the line meanwhile joins it", policy: otherwise(fetch, ThenSkip),
			steps: []step{in(seq(1, 1), seq(5, 5)), line("e"), in(seq(7, 7), seq(3, 3)), line("e")},
			want:  []string{"1 applied/first", "5 buffered/gap", "7 buffered/gap", "3 buffered/gap", "*3 applied/gap_skipped"},
			asked: gap24, waiting: "5:buffered 7:buffered",
			line: &VersionLine{At: at(3), Skipped: []Span{{2, 2}}},
		}, {
			name: "a late answer after a skip", policy: otherwise(fetch, ThenSkip),
			steps: []step{
				in(seq(1, 1), seq(4, 4)), line("e"), line("e"),
				in(seq(20, 2, delta, fetched), seq(30, 3, fetched), seq(40, 4, fetched), seq(41, 4, delta, fetched), seq(42, 4), seq(10, 1, fetched)),
			},
			want: []string{
				"1 applied/first", "4 buffered/gap", "*4 applied/gap_skipped",
				"20 late/filler", "30 late/filler", "40 stale/equal_first", "41 late/equal_first", "42 applied/equal", "10 stale/older",
			},
			asked: []string{"gap 2-3"},
		}, {
			name: "otherwise park, the default; an answer after all releases", policy: fetch,
			steps: []step{in(seq(1, 1), seq(4, 4), seq(6, 6)), line("e"), line("e"), line("e"), in(seq(7, 7), seq(30, 3, fetched), seq(5, 5))},
			want: []string{
				"1 applied/first", "4 buffered/gap", "6 buffered/gap", "*4 parked/gap_expired", "*6 parked/gap_expired", "7 parked/behind_park",
				"30 applied/backfilled", "*4 applied/released", "5 applied/next", "*6 applied/released", "*7 applied/released",
			},
			asked: []string{"gap 2-3"},
			line:  &VersionLine{At: at(7)},
		}, {
			name: "a wait of no length asks with the event that shows the gap", policy: fetchNow,
			steps:   []step{in(seq(1, 1), seq(3, 3), seq(4, 4), seq(6, 6), seq(20, 2, delta, fetched), seq(8, 8))},
			want:    []string{"1 applied/first", "3 buffered/gap", "4 buffered/gap", "6 buffered/gap", "20 applied/next", "*3 applied/released", "*4 applied/released", "8 buffered/gap"},
			waiting: "6:buffered? 8:buffered?", asked: []string{"gap 2-2", "gap 5-5"},
		}, {
			name: "a synthetic event that the filter does not want fills its place and covers nothing", policy: fetch,
			steps: []step{in(seq(1, 1), seq(4, 4)), line("e"), in(seq(30, 3, fetched, filtered), seq(20, 2, fetched, filtered))},
			want:  []string{"1 applied/first", "4 buffered/gap", "30 buffered/gap", "20 filtered/type", "*30 filtered/type", "*4 applied/released"},
			asked: []string{"gap 2-3"},
			line:  &VersionLine{At: at(4)},
		}, {
			name: "a synthetic event where the line's own was filtered is the first of its version", policy: fetch,
			steps: []step{in(seq(1, 1), seq(2, 2, filtered), seq(20, 2, fetched), seq(21, 2, fetched))},
			want:  []string{"1 applied/first", "2 filtered/type", "20 applied/equal", "21 stale/equal_first"},
		}, {
			name: "a filtered event decided again forgets what was asked", policy: fetch,
			steps: []step{in(seq(1, 1), seq(3, 3, filtered), seq(7, 7)), line("e"), in(seq(3, 3))},
			want:  []string{"1 applied/first", "3 buffered/gap", "7 buffered/gap", "*3 filtered/type", "3 buffered/gap"},
			asked: []string{"gap 2-2"}, waiting: "3:buffered 7:buffered",
		}, {
			name: "another policy ends the wait for an answer as it says", policy: fetch,
			steps: []step{in(seq(1, 1), seq(3, 3)), line("e"), policy(wait), line("e"), policy(fetch), in(seq(5, 5)), policy(park), line("e")},
			want:  []string{"1 applied/first", "3 buffered/gap", "*3 applied/gap_skipped", "5 buffered/gap", "*5 parked/gap_expired"},
			asked: []string{"gap 2-2"}, waiting: "5:parked",
		}, {
			name: "over a cap nothing is asked", policy: with(func(p *Policy) { p.Then, p.GapWait, p.BackfillWait, p.MaxBuffered = ThenBackfill, 0, 1, 1 }),
			steps:   []step{in(seq(10, 1, on("f")), seq(11, 3, on("f")), seq(1, 1), seq(3, 3))},
			want:    []string{"10 applied/first", "11 buffered/gap", "1 applied/first", "3 parked/overflow"},
			waiting: "3:parked", asked: []string{"gap 2-2"},
		}, {
			name: "start: first asks from the first value", policy: with(func(p *Policy) { p.Start, p.Then, p.BackfillWait = StartFirst, ThenBackfill, 1 }),
			steps: []step{in(seq(5, 5, first(1)), seq(4, 4, first(1))), line("e"), in(seq(10, 1, fetched, delta, first(1)), seq(30, 3, fetched))},
			want: []string{
				"5 buffered/start_gap", "4 buffered/start_gap", "10 applied/first", "30 applied/backfilled", "*4 applied/released", "*5 applied/released",
			},
			asked: []string{"start_gap 1-3"},
			line:  &VersionLine{At: at(5)},
		}, {
			name: "the ends of the range", policy: fetchNow,
			steps: []step{
				in(seq(1, math.MinInt64), seq(2, math.MaxInt64)), line("e"),
			},
			want:    []string{"1 applied/first", "2 buffered/gap", "*2 parked/gap_expired"},
			waiting: "2:parked", asked: []string{"gap -9223372036854775807-9223372036854775806"},
		},
	}.test(t)
}

func TestStartBackfill(t *testing.T) {
	t.Parallel()
	const ts = schemas.Timestamp
	one := first(1)
	table{
		{
			name: "the first event asks at once, the next ones join it", policy: truth,
			steps:   []step{in(seq(7, 7), seq(9, 9), seq(5, 5)), in(seq(6, 6, filtered))},
			want:    []string{"7 buffered/start_backfill", "9 buffered/start_backfill", "5 buffered/start_backfill", "6 buffered/start_backfill"},
			waiting: "5:buffered? 6:buffered? 7:buffered? 9:buffered?", asked: []string{"start_backfill 1-6"},
		}, {
			name: "a synthetic snapshot begins the line", policy: truth,
			steps: []step{in(seq(7, 7), seq(8, 8), seq(10, 10)), in(seq(70, 7, fetched), seq(3, 3))},
			want: []string{
				"7 buffered/start_backfill", "8 buffered/start_backfill", "10 buffered/start_backfill",
				"70 applied/backfilled", "*7 applied/released", "*8 applied/released", "3 stale/older",
			},
			waiting: "10:buffered", asked: []string{"start_backfill 1-6"},
			line: &VersionLine{At: at(8)},
		}, {
			name: "a synthetic delta begins it, whatever its value, and others fill", policy: truth,
			steps: []step{in(seq(4, 4, one)), in(seq(20, 2, one, delta, fetched), seq(30, 3, one, delta, fetched), seq(10, 1, one, delta, fetched))},
			want: []string{
				"4 buffered/start_backfill", "20 applied/first", "30 applied/next", "*4 applied/released", "10 late/older_delta",
			},
			asked: []string{"start_backfill 1-3"},
		}, {
			name: "times wait in version order and are released without gaps", policy: truth,
			steps: []step{in(rec(3, ts, 30), rec(1, ts, 10), rec(2, ts, 20), rec(4, ts, 20, delta)), in(rec(20, ts, 20, fetched), rec(5, ts, 50))},
			want: []string{
				"3 buffered/start_backfill", "1 buffered/start_backfill", "2 buffered/start_backfill", "4 buffered/start_backfill",
				"20 applied/backfilled", "*1 stale/older", "*2 applied/released", "*4 applied/released", "*3 applied/released", "5 applied/next",
			},
			asked: []string{"start_backfill before 30"},
		}, {
			name: "words wait in their order", policy: otherwise(truth, ThenSkip),
			steps: []step{in(word(2, "b"), word(1, "a"), word(3, "c")), line("e")},
			want: []string{
				"2 buffered/start_backfill", "1 buffered/start_backfill", "3 buffered/start_backfill",
				"*1 applied/first", "*2 applied/released", "*3 applied/released",
			},
			asked: []string{"start_backfill before 0b"},
		}, {
			name: "kind none, and order: arrival, wait for nothing", policy: truth,
			steps: []step{in(rec(1, schemas.None, 0)), policy(with(func(p *Policy) { p.Start, p.Order = StartBackfill, OrderArrival })), in(seq(2, 2))},
			want:  []string{"1 applied/arrival", "2 applied/arrival"},
		}, {
			name: "the promised first value begins it and asks nothing; below it is stale", policy: truth,
			steps: []step{in(seq(1, 1, one), seq(2, 2, one), seq(3, 0, clock("k"), one), seq(4, 1, clock("k"), one))},
			want:  []string{"1 applied/first", "2 applied/next", "3 stale/older", "4 applied/first"},
		}, {
			name: "of what is filtered alone nothing is asked", policy: truth,
			steps: []step{in(seq(5, 5, filtered), rec(6, ts, 5, clock("k"), filtered), seq(7, 7))},
			want:  []string{"5 filtered/type", "6 filtered/type", "7 buffered/start_backfill"},
			asked: []string{"start_backfill 1-6"}, waiting: "7:buffered?",
		}, {
			name: "a filtered answer begins nothing", policy: truth,
			steps: []step{in(seq(7, 7), seq(60, 6, fetched, filtered), seq(70, 7, fetched))},
			want: []string{
				"7 buffered/start_backfill", "60 buffered/start_backfill", "70 applied/backfilled", "*60 filtered/type", "*7 applied/released",
			},
			asked: []string{"start_backfill 1-6"},
		}, {
			name: "otherwise park, the default; an answer after all begins it", policy: truth,
			steps: []step{in(rec(3, ts, 30), rec(2, ts, 20)), line("e"), in(rec(4, ts, 40), rec(30, ts, 25, fetched))},
			want: []string{
				"3 buffered/start_backfill", "2 buffered/start_backfill", "*2 parked/gap_expired", "*3 parked/gap_expired", "4 parked/behind_park",
				"30 applied/backfilled", "*2 stale/older", "*3 applied/released", "*4 applied/released",
			},
			asked: []string{"start_backfill before 30"},
		}, {
			name: "otherwise skip starts as any does", policy: otherwise(truth, ThenSkip),
			steps: []step{in(seq(5, 5, one), seq(3, 3, one), seq(4, 4, one), seq(8, 8, one)), line("e"), in(seq(2, 2, one))},
			want: []string{
				"5 buffered/start_backfill", "3 buffered/start_backfill", "4 buffered/start_backfill", "8 buffered/start_backfill",
				"*3 applied/first", "*4 applied/released", "*5 applied/released", "2 stale/older",
			},
			asked: []string{"start_backfill 1-4"}, waiting: "8:buffered",
			line: &VersionLine{At: at(5)},
		}, {
			name: "otherwise dead_letter gives up what skip would release", policy: otherwise(truth, ThenDeadLetter),
			steps: []step{in(rec(3, ts, 30), rec(2, ts, 20)), line("e"), in(rec(4, ts, 40))},
			want: []string{
				"3 buffered/start_backfill", "2 buffered/start_backfill", "*2 + applied/gap_dead", "*3 + applied/gap_dead", "4 applied/next",
			},
			asked: []string{"start_backfill before 30"},
		}, {
			name: "then: backfill asks about the gaps behind it as well", policy: with(func(p *Policy) { p.Start, p.Then, p.BackfillWait = StartBackfill, ThenBackfill, 1 }),
			steps: []step{in(seq(3, 3), seq(6, 6)), in(seq(30, 3, fetched)), line("e")},
			want:  []string{"3 buffered/start_backfill", "6 buffered/start_backfill", "30 applied/backfilled", "*3 applied/released"},
			asked: []string{"start_backfill 1-2", "gap 4-5"}, waiting: "6:buffered?",
		}, {
			name: "start: any from now on: what waits goes on waiting, and others with it", policy: truth,
			steps: []step{in(rec(3, ts, 30)), policy(wait), in(rec(1, ts, 10), rec(5, ts, 50, on("f"))), policy(atOnce), in(rec(4, ts, 40)), line("e")},
			want: []string{
				"3 buffered/start_backfill", "1 buffered/start_gap", "5 applied/first", "4 buffered/start_gap",
				"*1 applied/gap_skipped", "*3 applied/released", "*4 applied/released",
			},
			asked: []string{"start_backfill before 30"},
			line:  &VersionLine{At: schemas.Version{Kind: ts, Value: 40}},
		}, {
			name: "start: backfill from now on: the next event asks", policy: fromOne,
			steps: []step{in(seq(5, 5, one)), policy(truth), in(seq(4, 4, one))},
			want:  []string{"5 buffered/start_gap", "4 buffered/start_backfill"},
			asked: []string{"start_backfill 1-3"}, waiting: "4:buffered? 5:buffered?",
		}, {
			name: "start: backfill from now on: the end of the wait asks", policy: fromOne,
			steps: []step{in(seq(5, 5, one)), policy(truth), line("e")},
			want:  []string{"5 buffered/start_gap"},
			asked: []string{"start_backfill 1-4"}, waiting: "5:buffered?",
		}, {
			name: "another kind begins the line again and lets go what waited", policy: otherwise(truth, ThenSkip),
			steps: []step{in(rec(3, ts, 30), rec(2, ts, 20), seq(4, 4), seq(6, 6))},
			want: []string{
				"3 buffered/start_backfill", "2 buffered/start_backfill", "*2 applied/first", "*3 applied/released", "4 applied/first", "6 buffered/gap",
			},
			asked: []string{"start_backfill before 30"}, waiting: "6:buffered",
		}, {
			name: "words after counters begin the line again, and what is given up is given up", policy: otherwise(truth, ThenDeadLetter),
			steps: []step{in(rec(3, schemas.Monotonic, 30), word(4, "a"), word(5, "b"))},
			want:  []string{"3 buffered/start_backfill", "*3 + applied/gap_dead", "4 applied/first", "5 applied/next"},
			asked: []string{"start_backfill before 30"},
		}, {
			name: "a first value says nothing of times", policy: truth,
			steps: []step{in(rec(3, ts, 30, one)), policy(wait), line("e")},
			want:  []string{"3 buffered/start_backfill", "*3 applied/gap_skipped"},
			asked: []string{"start_backfill before 30"},
			line:  &VersionLine{At: schemas.Version{Kind: ts, Value: 30}},
		}, {
			name: "the smallest value", policy: truth,
			steps: []step{in(seq(1, math.MinInt64), seq(2, 0, clock("k")))},
			want:  []string{"1 buffered/start_backfill", "2 buffered/start_backfill"},
			asked: []string{"start_backfill -9223372036854775808--9223372036854775808", "start_backfill -1--1"}, waiting: "1:buffered?",
		},
	}.test(t)
}

// TestWaitingTimesAreClamped: they wait in the order in which the line would take them, as of their own append times.
func TestWaitingTimesAreClamped(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	p := otherwise(truth, ThenSkip)
	p.FutureSkew = time.Minute
	wild := rec(1, schemas.Timestamp, base.Add(time.Hour).UnixNano(), appended(base))
	tame := rec(2, schemas.Timestamp, base.Add(2*time.Minute).UnixNano(), appended(base.Add(2*time.Minute)))
	st := NewState()
	records := []Record{tame, wild}
	records[0].Offset, records[1].Offset = 1, 2
	said := printed(Decide(st, records, p), records)
	if v := st.Waiting[e][0].Version.Value; v != base.Add(time.Minute).UnixNano() {
		t.Errorf("waits at %s", time.Unix(0, v).UTC())
	}
	p.FutureSkew = time.Second // what waits has its version
	said = append(said, printed(Expire(st, []VersionLineKey{e}, p), nil)...)
	want := []string{"2 buffered/start_backfill", "1 buffered/start_backfill", "*1 applied/first", "*2 applied/released"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

// TestWanted: a question that a later record of the same call has answered is not worth asking.
func TestWanted(t *testing.T) {
	t.Parallel()
	now := with(func(p *Policy) { p.GapWait, p.Then, p.BackfillWait = 0, ThenBackfill, time.Minute })
	st := NewState()
	Decide(st, []Record{
		seq(1, 1), seq(3, 3), seq(10, 1, on("f")), seq(13, 3, on("f")), seq(2, 2), seq(20, 1, on("g")), seq(23, 3, on("g")), seq(22, 2, on("g")), seq(26, 6, on("g")),
	}, now)
	if diff := cmp.Diff([]string{"gap 2-2", "gap 2-2", "gap 2-2", "gap 4-5"}, requested(st.Requests)); diff != "" {
		t.Error(diff)
	}
	want := []Request{
		{VersionLine: VersionLineKey{Entity: "f"}, From: 2, To: 2, Before: at(3), Reason: ReasonGap},
		{VersionLine: VersionLineKey{Entity: "g"}, From: 4, To: 5, Before: at(6), Reason: ReasonGap},
	}
	if diff := cmp.Diff(want, st.Wanted()); diff != "" {
		t.Error(diff)
	}
	if low, waits := st.Waits(want[0].VersionLine); !waits || low.Stage != Backfilling {
		t.Errorf("%+v", low)
	}
	Expire(st, []VersionLineKey{want[0].VersionLine, want[1].VersionLine}, now) // otherwise park
	if wanted := st.Wanted(); wanted != nil {
		t.Errorf("parked lines want %+v", wanted)
	}
}
