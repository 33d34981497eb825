package gate

import "testing"

func TestOverflow(t *testing.T) {
	t.Parallel()
	two := with(func(p *Policy) { p.MaxPerEntity = 2 })
	all := with(func(p *Policy) { p.MaxBuffered = 2 })
	table{
		{
			name: "one too many for an entity parks all of it and drops nothing", policy: two,
			steps: []step{in(seq(1, 1), seq(3, 3), seq(4, 4), seq(6, 6), seq(7, 7), seq(2, 2), seq(5, 5))},
			want: []string{
				"1 applied/first", "3 buffered/gap", "4 buffered/gap", "*3 parked/overflow", "*4 parked/overflow", "6 parked/overflow",
				"7 parked/behind_park", "2 applied/next", "*3 applied/released", "*4 applied/released", "5 applied/next", "*6 applied/released", "*7 applied/released",
			},
		}, {
			name: "a full buffer parks the line that would need it, and what is parked takes no room", policy: all,
			steps: []step{
				in(seq(1, 1), seq(3, 3), seq(10, 1, on("f")), seq(12, 3, on("f")), seq(20, 1, on("g")), seq(22, 3, on("g")), seq(23, 4, on("g"))),
				in(seq(2, 2), seq(30, 1, on("h")), seq(32, 3, on("h"))),
			},
			want: []string{
				"1 applied/first", "3 buffered/gap", "10 applied/first", "12 buffered/gap", "20 applied/first", "22 parked/overflow", "23 parked/behind_park",
				"2 applied/next", "*3 applied/released", "30 applied/first", "32 buffered/gap",
			},
		}, {
			name: "a line that has not begun", policy: with(func(p *Policy) { p.Start, p.MaxPerEntity = StartFirst, 1 }),
			steps:   []step{in(seq(3, 3, first(1)), seq(2, 2, first(1)), seq(4, 4, first(1)))},
			want:    []string{"3 buffered/start_gap", "*3 parked/overflow", "2 parked/overflow", "4 parked/behind_park"},
			waiting: "2:parked 3:parked 4:parked",
		},
	}.test(t)
}

func TestOverflowOfBytes(t *testing.T) {
	t.Parallel()
	entity := with(func(p *Policy) { p.MaxBytesPerEntity = 250 })
	all := with(func(p *Policy) { p.MaxBytes = 200 })
	table{
		{
			name: "too much for an entity parks all of it and drops nothing", policy: entity,
			steps: []step{in(seq(1, 1), seq(3, 3, bytes(100)), seq(4, 4, bytes(150)), seq(5, 5), seq(6, 6, bytes(1)), seq(7, 7, bytes(900)), seq(2, 2))},
			want: []string{
				"1 applied/first", "3 buffered/gap", "4 buffered/gap", "5 buffered/gap", "*3 parked/overflow", "*4 parked/overflow", "*5 parked/overflow",
				"6 parked/overflow", "7 parked/behind_park", "2 applied/next",
				"*3 applied/released", "*4 applied/released", "*5 applied/released", "*6 applied/released", "*7 applied/released",
			},
		}, {
			name: "one event that is too large by itself", policy: entity,
			steps:   []step{in(seq(1, 1), seq(3, 3, bytes(251)), seq(10, 1, on("f")), seq(12, 3, on("f"), bytes(250)))},
			want:    []string{"1 applied/first", "3 parked/overflow", "10 applied/first", "12 buffered/gap"},
			waiting: "3:parked",
			line:    &VersionLine{At: at(1), Parked: ReasonOverflow},
		}, {
			name: "what would not wait is not asked for its size", policy: entity,
			steps: []step{in(seq(1, 1, bytes(900)), seq(2, 2, bytes(900)), seq(3, 1, bytes(900)))},
			want:  []string{"1 applied/first", "2 applied/next", "3 stale/older"},
		}, {
			name: "too much in all parks the line that would need it; what is parked or released takes no room", policy: all,
			steps: []step{
				in(seq(1, 1), seq(3, 3, bytes(100)), seq(10, 1, on("f")), seq(12, 3, on("f"), bytes(100)), seq(20, 1, on("g")), seq(22, 3, on("g"), bytes(1))),
				in(seq(2, 2), seq(30, 1, on("h")), seq(32, 3, on("h"), bytes(100)), seq(14, 5, on("f"), bytes(1)), seq(34, 5, on("h"), bytes(100))),
			},
			want: []string{
				"1 applied/first", "3 buffered/gap", "10 applied/first", "12 buffered/gap", "20 applied/first", "22 parked/overflow",
				"2 applied/next", "*3 applied/released", "30 applied/first", "32 buffered/gap", "*12 parked/overflow", "14 parked/overflow", "34 buffered/gap",
			},
		}, {
			name: "a filtered one that is decided again gives its room back", policy: all,
			steps:   []step{in(seq(1, 1), seq(3, 3, filtered, bytes(150)), seq(3, 3, bytes(150)), seq(4, 4, bytes(50)))},
			want:    []string{"1 applied/first", "3 buffered/gap", "*3 filtered/type", "3 buffered/gap", "4 buffered/gap"},
			waiting: "3:buffered 4:buffered",
		}, {
			name: "what waits for the truth counts too", policy: with(func(p *Policy) { p.Start, p.BackfillWait, p.MaxBytesPerEntity = StartBackfill, 1, 100 }),
			steps:   []step{in(seq(3, 3, bytes(60)), seq(4, 4, bytes(60)), seq(30, 3, fetched, bytes(900)))},
			want:    []string{"3 buffered/start_backfill", "*3 parked/overflow", "4 parked/overflow", "30 applied/backfilled", "*3 applied/released", "*4 applied/released"},
			asked:   []string{"start_backfill 1-2"},
			waiting: "",
		},
	}.test(t)
	st := NewState()
	Decide(st, []Record{seq(1, 1), seq(3, 3, bytes(70)), seq(4, 4, bytes(30))}, wait)
	if st.BufferedBytes != 100 || st.Buffered != 2 {
		t.Errorf("%d of %d bytes", st.Buffered, st.BufferedBytes)
	}
	Expire(st, []VersionLineKey{e}, park)
	if st.BufferedBytes != 0 || st.Buffered != 0 {
		t.Errorf("parked, %d of %d bytes", st.Buffered, st.BufferedBytes)
	}
}
