package gate

import (
	"maps"
	"reflect"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// keeper is what a ledger keeps: what is seen and who waits by the outcomes alone, the lines and the stages by the state.
type keeper struct {
	seen    map[schemas.EventKey]Seen
	also    map[Also]Said
	lines   map[VersionLineKey]VersionLine
	waiting map[VersionLineKey][]Waiting
	asked   []Request
}

func newKeeper() *keeper {
	return &keeper{seen: map[schemas.EventKey]Seen{}, also: map[Also]Said{}, lines: map[VersionLineKey]VersionLine{}, waiting: map[VersionLineKey][]Waiting{}}
}

// call loads what State promises for the batch and no more, makes the call and writes back.
func (l *keeper) call(t failer, s step, p Policy) []Outcome {
	st, batch := NewState(), s.records
	lines := slices.Concat(s.expire, s.release)
	for i := range batch {
		if s, ok := l.seen[batch[i].Key]; ok {
			st.Seen[batch[i].Key] = s
		}
		if first, ok := l.also[batch[i].Also]; ok {
			st.Also[batch[i].Also] = first
		}
		lines = append(lines, VersionLineKey{batch[i].Entity, batch[i].Version.Clock})
	}
	for _, k := range lines {
		if at, ok := l.lines[k]; ok {
			at.Skipped = slices.Clone(at.Skipped)
			st.Lines[k] = &at
		}
		if w := l.waiting[k]; len(w) > 0 {
			st.Waiting[k] = slices.Clone(w)
		}
	}
	for _, w := range l.waiting {
		for i := range w {
			if w[i].Decision == Buffered {
				st.Buffered++
				st.BufferedBytes += w[i].Size
			}
		}
	}
	out := direct(st)(t, s, p)
	maps.Copy(l.also, st.Also)
	for _, o := range out {
		l.write(t, o, batch)
	}
	for k, at := range st.Lines {
		l.lines[k] = *at
	}
	for _, k := range lines {
		if !slices.EqualFunc(st.Waiting[k], l.waiting[k], func(a, b Waiting) bool {
			b.Stage = a.Stage
			return a == b
		}) {
			t.Fatalf("line %v: the outcomes leave %+v waiting, the state has %+v", k, l.waiting[k], st.Waiting[k])
		}
		l.waiting[k] = slices.Clone(st.Waiting[k])
	}
	l.asked = append(l.asked, st.Requests...)
	l.covered(t, st, lines)
	return out
}

// covered: where events wait for the answer to a question, it was asked about every place that is missing before them.
func (l *keeper) covered(t failer, st *State, lines []VersionLineKey) {
	t.Helper()
	wanted := st.Wanted()
	for _, k := range lines {
		low, waits := st.Waits(k)
		if !waits || low.Stage != Backfilling {
			if slices.ContainsFunc(wanted, func(r Request) bool { return r.VersionLine == k }) {
				t.Fatalf("line %v does not wait for an answer: %+v", k, wanted)
			}
			continue
		}
		from, to := int64(0), int64(0)
		if low.Version.Kind == schemas.Sequence {
			from, to = missing(st.Lines[k], &low.Record)
		}
		about := func(r Request) bool {
			return r.VersionLine == k && (r.Reason != ReasonGap || r.From <= from) && to <= r.To // before the beginning From is a guess
		}
		if !slices.ContainsFunc(l.asked, about) {
			t.Fatalf("line %v: %d to %d are missing, asked for was %+v", k, from, to, l.asked)
		}
		if n := slices.IndexFunc(st.Requests, func(r Request) bool { return r.VersionLine == k }); n >= 0 && !slices.ContainsFunc(wanted, about) {
			t.Fatalf("line %v: %+v is wanted of %+v", k, wanted, st.Requests)
		}
	}
}

func (l *keeper) write(t failer, o Outcome, batch []Record) {
	r := o.Released
	if r == nil {
		r = &Waiting{Record: batch[o.Record]}
	}
	k := VersionLineKey{r.Entity, r.Version.Clock}
	i := slices.IndexFunc(l.waiting[k], func(w Waiting) bool { return w.Key == r.Key })
	switch {
	case o.Record < 0 && i < 0:
		t.Fatalf("%v came out of the buffer and is not in it", r.Key)
	case o.Record < 0 && o.Decision == Parked && !o.Held:
		l.waiting[k][i].Decision, l.waiting[k][i].Stage = Parked, Filling
	case o.Record < 0:
		l.waiting[k] = slices.Delete(slices.Clone(l.waiting[k]), i, i+1)
	case o.Decision == Buffered || o.Decision == Parked && !o.Held:
		in := Waiting{Record: r.Record, Decision: o.Decision}
		in.Version = o.Version
		in.Repeats = r.Also != (Also{}) && !r.Filtered && l.also[r.Also].Key != r.Key
		l.waiting[k] = append(slices.Clone(l.waiting[k]), in)
		slices.SortFunc(l.waiting[k], func(a, b Waiting) int {
			if before(&a.Record, &b.Record) {
				return -1
			}
			return 1
		})
	}
	switch o.Decision {
	case Conflict, Filtered, Quarantined:
	default:
		if !r.Filtered && o.Reason != ReasonSeen {
			l.seen[r.Key] = Seen{r.Hash, o.Decision}
		}
	}
}

func (l *keeper) compare(t failer, st *State) {
	t.Helper()
	lines := map[VersionLineKey]VersionLine{}
	for k, at := range st.Lines {
		lines[k] = *at
	}
	maps.DeleteFunc(l.waiting, func(_ VersionLineKey, w []Waiting) bool { return len(w) == 0 })
	if !slices.Equal(l.asked, st.Requests) {
		t.Fatalf("asked for over a ledger:\n%s", cmp.Diff(l.asked, st.Requests))
	}
	if !reflect.DeepEqual(l.seen, st.Seen) || !reflect.DeepEqual(l.lines, lines) || len(l.waiting) != len(st.Waiting) {
		t.Fatalf("what a ledger keeps differs from the state:\n%s\n%s", cmp.Diff(l.seen, st.Seen), cmp.Diff(l.lines, lines))
	}
}
