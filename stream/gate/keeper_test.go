package gate

import (
	"maps"
	"reflect"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// keeper is what a ledger keeps, written from the outcomes alone but for the lines.
type keeper struct {
	seen    map[schemas.EventKey]Seen
	lines   map[LineKey]Line
	waiting map[LineKey][]Waiting
}

func newKeeper() *keeper {
	return &keeper{map[schemas.EventKey]Seen{}, map[LineKey]Line{}, map[LineKey][]Waiting{}}
}

// call loads what State promises for the batch and no more, makes the call and writes back.
func (l *keeper) call(t failer, batch []Record, lines []LineKey, p Policy) []Outcome {
	st := NewState()
	for i := range batch {
		if s, ok := l.seen[batch[i].Key]; ok {
			st.Seen[batch[i].Key] = s
		}
		lines = append(lines, LineKey{batch[i].Entity, batch[i].Version.Clock})
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
			}
		}
	}
	out := direct(st)(t, batch, lines[:len(lines)-len(batch)], p)
	for _, o := range out {
		l.write(t, o, batch)
	}
	for k, at := range st.Lines {
		l.lines[k] = *at
	}
	for _, k := range lines {
		if !slices.EqualFunc(st.Waiting[k], l.waiting[k], func(a, b Waiting) bool {
			return a.Key == b.Key && a.Offset == b.Offset && a.Decision == b.Decision && a.Filtered == b.Filtered
		}) {
			t.Fatalf("line %v: the outcomes leave %+v waiting, the state has %+v", k, l.waiting[k], st.Waiting[k])
		}
	}
	return out
}

func (l *keeper) write(t failer, o Outcome, batch []Record) {
	r := o.Released
	if r == nil {
		r = &Waiting{Record: batch[o.Record]}
	}
	k := LineKey{r.Entity, r.Version.Clock}
	i := slices.IndexFunc(l.waiting[k], func(w Waiting) bool { return w.Key == r.Key })
	switch {
	case o.Record < 0 && i < 0:
		t.Fatalf("%v came out of the buffer and is not in it", r.Key)
	case o.Record < 0 && o.Decision == Parked && !o.Held:
		l.waiting[k][i].Decision = Parked
	case o.Record < 0:
		l.waiting[k] = slices.Delete(slices.Clone(l.waiting[k]), i, i+1)
	case o.Decision == Buffered || o.Decision == Parked && !o.Held:
		l.waiting[k] = append(slices.Clone(l.waiting[k]), Waiting{r.Record, o.Decision})
		slices.SortFunc(l.waiting[k], func(a, b Waiting) int {
			if before(&a.Record, &b.Record) {
				return -1
			}
			return 1
		})
	}
	switch o.Decision {
	case Duplicate, Conflict, Filtered, Quarantined:
	default:
		if !r.Filtered {
			l.seen[r.Key] = Seen{r.Hash, o.Decision}
		}
	}
}

func (l *keeper) compare(t failer, st *State) {
	t.Helper()
	lines := map[LineKey]Line{}
	for k, at := range st.Lines {
		lines[k] = *at
	}
	maps.DeleteFunc(l.waiting, func(_ LineKey, w []Waiting) bool { return len(w) == 0 })
	if !reflect.DeepEqual(l.seen, st.Seen) || !reflect.DeepEqual(l.lines, lines) || len(l.waiting) != len(st.Waiting) {
		t.Fatalf("what a ledger keeps differs from the state:\n%s\n%s", cmp.Diff(l.seen, st.Seen), cmp.Diff(l.lines, lines))
	}
}
