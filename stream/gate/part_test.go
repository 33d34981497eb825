package gate

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// parts plays calls on a whole state, and each of them on a part of that, too: of parked lines the lowest few events, the highest, and those with
// the records' keys.
type parts struct {
	st           *State
	lowest       int
	bound        int
	given, short int // calls with lines in part, and those of them that wanted more
}

func (l *parts) call(t failer, s step, p Policy) []Outcome {
	t.Helper()
	p.MaxReleases = l.bound
	part, unread := l.part(s)
	out := direct(l.st)(t, s, p)
	got := direct(part)(t, s, p)
	if len(unread) == 0 {
		return out
	}
	l.given++
	if len(part.Short) > 0 {
		l.short++
		return out
	}
	says := func(of []Outcome) (all []modelOutcome) {
		for _, o := range of {
			all = append(all, modelOutcomeOf(t, o, s.records, 0))
		}
		return all
	}
	compare(t, "in part", says(out), says(got))
	for k, rest := range unread {
		part.Waiting[k] = append(part.Waiting[k], rest...)
		part.Sort(k)
	}
	part.First = nil
	if !reflect.DeepEqual(l.st, part) {
		t.Fatalf("given in part, it leaves (+):\n%s", cmp.Diff(l.st, part))
	}
	return out
}

// part copies the state for a call, with lines in part, and returns what those lack.
func (l *parts) part(s step) (*State, map[VersionLineKey][]Waiting) {
	st := *l.st
	st.Seen, st.Also, st.Lines, st.Waiting = maps.Clone(st.Seen), maps.Clone(st.Also), map[VersionLineKey]*VersionLine{}, map[VersionLineKey][]Waiting{}
	st.Requests, st.First = slices.Clone(st.Requests), map[VersionLineKey]int{}
	for k, line := range l.st.Lines {
		at := *line
		at.Skipped = slices.Clone(at.Skipped)
		st.Lines[k] = &at
	}
	unread := map[VersionLineKey][]Waiting{}
	for k, w := range l.st.Waiting {
		st.Waiting[k] = slices.Clone(w)
		odd := func(e Waiting) bool {
			return e.Version.Kind != w[0].Version.Kind || e.Version.Text != "" || e.Version.Kind == schemas.Monotonic
		}
		if len(w) <= l.lowest+1 || w[0].Decision != Parked || slices.ContainsFunc(w, odd) {
			continue
		}
		st.Waiting[k], st.First[k] = nil, l.lowest
		for i, e := range w {
			if i < l.lowest || i == len(w)-1 || slices.ContainsFunc(s.records, func(r Record) bool { return r.Key == e.Key }) {
				st.Waiting[k] = append(st.Waiting[k], e)
			} else {
				unread[k] = append(unread[k], e)
			}
		}
	}
	return &st, unread
}

// What is decided on parked lines that are given in part is what is decided on the whole ones, unless the gate says that it needs them.
func TestLinesGivenInPart(t *testing.T) {
	given, decided := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := decodeHistory(rapid.SliceOfN(rapid.Byte(), headSize+80*opSize, headSize+160*opSize).Draw(t, "history"))
		bound := rapid.IntRange(0, 3).Draw(t, "bound")
		l := &parts{st: NewState(), bound: bound, lowest: rapid.IntRange(1, bound+2).Draw(t, "lowest")}
		play(t, h, h.records(), int(h.cuts&7)+1, l.call)
		given, decided = given+l.given, decided+l.given-l.short
	})
	t.Logf("%d calls with lines in part, %d of them decided", given, decided)
	if decided < given/2 || decided == 0 {
		t.Error("most of them wanted more")
	}
}

// Each of these needs more of a line than a part, and the gate says so.
func TestMoreThanAPartIsNeeded(t *testing.T) {
	t.Parallel()
	parking := Policy{Then: ThenPark, MaxReleases: 1}
	last, arrival, unbounded := parking, parking, parking
	last.Equal, arrival.Order, unbounded.MaxReleases = EqualLast, OrderArrival, 0
	five := []Record{seq(1, 1), seq(3, 3), seq(4, 4), seq(5, 5), seq(6, 6), seq(7, 7)}
	for name, c := range map[string]struct {
		before []Record
		policy Policy // of the call
		comes  Record
		enough bool
	}{
		"enough":                  {before: five, policy: parking, comes: seq(2, 2), enough: true},
		"enough, and no place":    {before: five, policy: parking, comes: seq(9, 9), enough: true},
		"a run of one version":    {before: []Record{seq(1, 1), seq(3, 3), seq(4, 3, delta), seq(5, 3, delta), seq(6, 3, delta), seq(7, 3)}, policy: last, comes: seq(2, 2)},
		"another kind":            {before: five, policy: parking, comes: rec(9, schemas.Timestamp, 9)},
		"a kind between":          {before: append(slices.Clone(five), seq(20, 1, epoch(2)), seq(21, 2, epoch(2))), policy: parking, comes: rec(9, schemas.Timestamp, 9)},
		"the highest leaves":      {before: append(slices.Clone(five), seq(9, 9, filtered)), policy: parking, comes: seq(9, 9)},
		"all of the lowest go":    {before: five, policy: unbounded, comes: seq(2, 2)},
		"the order is by arrival": {before: five, policy: arrival, comes: seq(9, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &parts{st: NewState(), lowest: 3}
			Decide(l.st, c.before, parking)
			part, unread := l.part(in(c.comes))
			if len(unread) == 0 {
				t.Fatal("the line is given whole")
			}
			Decide(part, []Record{c.comes}, c.policy)
			if k := (VersionLineKey{Entity: "e"}); part.Short[k] == c.enough {
				t.Errorf("wants more: %v", part.Short[k])
			}
		})
	}
}
