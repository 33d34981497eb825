package gate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
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
