package gate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// stepped plays calls of a history under a bound of releases. It takes all steps of a release before the next call, or at the end alone.
type stepped struct {
	st    *State
	bound int
	lazy  bool
}

func (s stepped) call(t failer, step step, p Policy) (out []Outcome) {
	p.MaxReleases = s.bound
	for _, k := range step.expire {
		out = append(out, Expire(s.st, []VersionLineKey{k}, p)...)
		out = append(out, s.drain(p, k)...)
	}
	for _, k := range step.release {
		for len(s.st.Waiting[k]) > 0 {
			was := len(s.st.Waiting[k])
			out = append(out, Release(s.st, []VersionLineKey{k}, p)...)
			if left := len(s.st.Waiting[k]); left >= was {
				t.Fatalf("a step of %d released nothing of %d", s.bound, was)
			}
		}
	}
	if len(step.records) == 0 {
		return out
	}
	out = Decide(s.st, step.records, p)
	for i := range step.records {
		r := &step.records[i]
		out = append(out, s.drain(p, VersionLineKey{r.Entity, r.Version.Clock})...)
	}
	if !s.lazy {
		out = s.straight(out, step.records)
	}
	return out
}

// straight takes the detour through the buffer from an event that begins a line again behind the steps of what waited before it.
func (s stepped) straight(out []Outcome, records []Record) []Outcome {
	for i, o := range out {
		if o.Record >= 0 {
			continue
		}
		entered := slices.IndexFunc(out[:i], func(e Outcome) bool {
			return e.Record >= 0 && (e.Decision == Buffered || e.Decision == Parked) && records[e.Record].Offset == o.Released.Offset
		})
		if entered >= 0 {
			o.Record, o.Released = out[entered].Record, nil
			out[i] = o
			return s.straight(slices.Delete(out, entered, entered+1), records)
		}
	}
	return out
}

// drain takes the steps that are left on a version line, unless it is lazy.
func (s stepped) drain(p Policy, k VersionLineKey) (out []Outcome) {
	for w := s.st.Waiting[k]; !s.lazy && len(w) > 0 && w[0].Stage == Releasing; w = s.st.Waiting[k] {
		out = append(out, Expire(s.st, []VersionLineKey{k}, p)...)
	}
	return out
}

// A release in steps lets the same events go as one without a bound, in the same order, with the same reasons. What comes between the steps
// goes behind: nothing is lost, and nothing runs before an older one.
func TestReleasesInSteps(t *testing.T) {
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		h := decodeHistory(rapid.SliceOfN(rapid.Byte(), headSize+100*opSize, headSize+300*opSize).Draw(t, "history"))
		bound := rapid.IntRange(1, 3).Draw(t, "bound")
		records := h.records()
		once := newModel(h).outcomes
		s := stepped{st: NewState(), bound: bound}
		compare(t, "step by step", once, play(t, h, records, 1, s.call))

		lazy := stepped{st: NewState(), bound: bound, lazy: true}
		out := play(t, h, records, int(h.cuts&7)+1, lazy.call)
		lazy.lazy = false
		for k := range lazy.st.Waiting {
			for _, o := range lazy.drain(h.policy, k) {
				out = append(out, modelOutcomeOf(t, o, nil, 0))
			}
			if w := lazy.st.Waiting[k]; slices.ContainsFunc(w, func(w Waiting) bool { return w.Stage == Releasing }) {
				t.Fatalf("still being released: %+v", w)
			}
		}
		conserved(t, out, records, lazy.st)
		ordered(t, out, records)
		if len(out) > 0 {
			steps++
		}
	})
	if steps == 0 {
		t.Error("nothing was decided")
	}
}

// A line that begins again in a higher epoch while more wait than a step may release: the old epoch goes in its order, step by step, and then the
// lowest event of the next one begins the line.
func TestNewEpochInSteps(t *testing.T) {
	t.Parallel()
	inSteps := func(p Policy) Policy { p.MaxReleases = 2; return p }
	five := []Record{seq(1, 1, epoch(1)), seq(3, 3, epoch(1)), seq(5, 5, epoch(1)), seq(7, 7, epoch(1)), seq(9, 9, epoch(1)), seq(10, 10, epoch(1))}
	waits := []string{"1 applied/first", "3 buffered/gap", "5 buffered/gap", "7 buffered/gap", "9 buffered/gap", "10 buffered/gap"}
	table{
		{
			name: "its first event waits behind", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 1, epoch(2))), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "*7 applied/gap_skipped", "*9 applied/gap_skipped",
				"*10 applied/released", "*20 applied/new_epoch"}),
			line: &VersionLine{At: of(2, 1)},
		}, {
			name: "and so do others of it, sorted, with what has no epoch, and one of the old epoch in its place", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(23, 3, epoch(2)), seq(22, 2), seq(21, 1, epoch(2)), seq(8, 8, epoch(1)), seq(4, 2, epoch(1))), line("e"), line("e"), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "23 buffered/gap", "22 buffered/gap", "21 buffered/gap",
				"8 buffered/gap", "4 late/filler", "*7 applied/gap_skipped", "*8 applied/released", "*9 applied/released", "*10 applied/released",
				"*21 applied/new_epoch", "*22 applied/released", "*23 applied/released"}),
			line: &VersionLine{At: of(2, 3)},
		}, {
			name: "an operator's release goes on with it", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 1, epoch(2))), {release: []VersionLineKey{e}}, {release: []VersionLineKey{e}}},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "*7 applied/gap_skipped", "*9 applied/gap_skipped",
				"*10 applied/released", "*20 applied/new_epoch"}),
		}, {
			name: "parked ones too, and the line is not parked any more", policy: inSteps(park),
			steps: []step{in(five[:5]...), line("e"), in(seq(20, 1, epoch(2)), seq(22, 3, epoch(2))), line("e"), line("e"), in(seq(21, 2, epoch(2)))},
			want: slices.Concat(waits[:5], []string{"*3 parked/gap_expired", "*5 parked/gap_expired", "*7 parked/gap_expired", "*9 parked/gap_expired",
				"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 parked/behind_park", "22 parked/behind_park", "*7 applied/gap_skipped", "*9 applied/gap_skipped",
				"*20 applied/new_epoch", "21 applied/next", "*22 applied/released"}),
			line: &VersionLine{At: of(2, 3)},
		}, {
			name: "given up, all of the old epoch", policy: inSteps(giveUp),
			steps: []step{in(five...), in(seq(20, 1, epoch(2))), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 + applied/gap_dead", "*5 + applied/gap_dead", "20 buffered/gap", "*7 + applied/gap_dead",
				"*9 + applied/gap_dead", "*10 + applied/gap_dead", "*20 applied/new_epoch"}),
		}, {
			name: "and by arrival now: none is given up", policy: inSteps(giveUp),
			steps: []step{in(five...), in(seq(20, 1, epoch(2))), policy(with(func(p *Policy) { p.Order, p.Then = OrderArrival, ThenDeadLetter })), in(seq(30, 2, epoch(2)))},
			want: slices.Concat(waits, []string{"*3 + applied/gap_dead", "*5 + applied/gap_dead", "20 buffered/gap", "*7 applied/gap_skipped",
				"*9 applied/gap_skipped", "*10 applied/released", "*20 applied/new_epoch", "30 applied/arrival"}),
		}, {
			name: "a filtered one begins it", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 1, epoch(2), filtered), seq(21, 2, epoch(2))), line("e"), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "21 buffered/gap", "*7 applied/gap_skipped",
				"*9 applied/gap_skipped", "*10 applied/released", "*20 filtered/type", "*21 applied/released"}),
		}, {
			name: "a third epoch before the second has begun", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 4, epoch(2)), seq(30, 1, epoch(3))), line("e"), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "30 buffered/gap", "*7 applied/gap_skipped",
				"*9 applied/gap_skipped", "*10 applied/released", "*20 applied/new_epoch", "*30 applied/new_epoch"}),
			line: &VersionLine{At: of(3, 1)},
		}, {
			name: "unless its first event leaves again: a filter that was corrected", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 1, epoch(2), filtered)), in(seq(20, 6, epoch(1)))},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "*20 filtered/type", "20 applied/next",
				"*7 applied/released"}),
			waiting: "9:buffered 10:buffered", line: &VersionLine{At: of(1, 7), Skipped: []Span{{2, 2}, {4, 4}}},
		}, {
			name: "another kind of values meanwhile, of the epoch that ends: before the next epoch", policy: inSteps(wait),
			steps: []step{in(five...), in(seq(20, 1, epoch(2)), rec(31, schemas.Monotonic, 5, epoch(1))), line("e"), line("e")},
			want: slices.Concat(waits, []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap", "31 buffered/gap", "*7 applied/gap_skipped",
				"*9 applied/gap_skipped", "*10 applied/released", "*31 applied/first"}),
			waiting: "20:buffered",
		},
	}.test(t)
}

// A line that begins again with values of another kind while more wait than a step may release: these go in their order, step by step, and then
// the lowest event of the new kind begins the line.
func TestNewKindInSteps(t *testing.T) {
	t.Parallel()
	inSteps := func(p Policy) Policy { p.MaxReleases = 2; return p }
	changed := func(id int, value int64) Record { return rec(id, schemas.Monotonic, value) }
	four := []Record{seq(1, 1), seq(3, 3), seq(5, 5), seq(7, 7), seq(8, 8)}
	waits := []string{"1 applied/first", "3 buffered/gap", "5 buffered/gap", "7 buffered/gap", "8 buffered/gap"}
	step1 := []string{"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 buffered/gap"}
	table{
		{
			name: "its first event waits behind, whatever its value", policy: inSteps(wait),
			steps: []step{in(four...), in(changed(20, 2)), line("e"), line("e")},
			want:  slices.Concat(waits, step1, []string{"*7 applied/gap_skipped", "*8 applied/released", "*20 applied/first"}),
			line:  &VersionLine{At: schemas.Version{Kind: schemas.Monotonic, Value: 2}},
		}, {
			name: "and so do others of it, sorted, and one of the old kind in its place", policy: inSteps(wait),
			steps: []step{in(four...), in(changed(20, 7), changed(21, 6), seq(9, 9), seq(4, 4)), line("e"), line("e")},
			want: slices.Concat(waits, step1, []string{"21 buffered/gap", "9 buffered/gap", "4 late/filler", "*7 applied/gap_skipped", "*8 applied/released",
				"*9 applied/released", "*21 applied/first"}),
			waiting: "20:buffered",
		}, {
			name: "an operator's release goes on with it", policy: inSteps(park),
			steps: []step{in(four...), line("e"), in(changed(20, 2)), {release: []VersionLineKey{e}}, {release: []VersionLineKey{e}}},
			want: slices.Concat(waits, []string{"*3 parked/gap_expired", "*5 parked/gap_expired", "*7 parked/gap_expired", "*8 parked/gap_expired",
				"*3 applied/gap_skipped", "*5 applied/gap_skipped", "20 parked/behind_park", "*7 applied/gap_skipped", "*8 applied/released", "*20 applied/first"}),
		}, {
			name: "a line that has not begun", policy: inSteps(fromOne),
			steps: []step{in(seq(3, 3, first(1)), seq(4, 4, first(1)), seq(5, 5, first(1)), seq(7, 7, first(1))), in(changed(20, 2)), line("e"), line("e")},
			want: []string{"3 buffered/start_gap", "4 buffered/start_gap", "5 buffered/start_gap", "7 buffered/start_gap", "*3 applied/gap_skipped", "*4 applied/released",
				"20 buffered/gap", "*5 applied/released", "*7 applied/gap_skipped", "*20 applied/first"},
		}, {
			name: "one of an equal value replaces none of another kind", policy: inSteps(keepLast),
			steps: []step{in(four...), in(changed(20, 8)), line("e"), line("e")},
			want:  slices.Concat(waits, step1, []string{"*7 applied/gap_skipped", "*8 applied/released", "*20 applied/first"}),
		}, {
			name: "a third kind meanwhile: all goes at once", policy: inSteps(wait),
			steps: []step{in(four...), in(changed(20, 2), rec(31, schemas.Timestamp, 1))},
			want:  slices.Concat(waits, step1, []string{"*7 applied/gap_skipped", "*8 applied/released", "*20 applied/first", "31 applied/first"}),
		}, {
			name: "and then a higher epoch", policy: inSteps(wait),
			steps: []step{in(four...), in(changed(20, 2), seq(30, 1, epoch(1))), line("e"), line("e")},
			want:  slices.Concat(waits, step1, []string{"30 buffered/gap", "*7 applied/gap_skipped", "*8 applied/released", "*20 applied/first", "*30 applied/new_epoch"}),
		},
	}.test(t)
}
