package gate

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMain asks rapid for as many histories as a million decisions take, unless the command line says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		must(flag.Set("rapid.checks", fmt.Sprint(histories)))
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// TestGateAgreesWithTheModel is the gate's main proof; see check for what holds of every history. It also shows that
// the histories reach every row of the decision table.
func TestGateAgreesWithTheModel(t *testing.T) {
	var decisions atomic.Int64
	reached := map[pair]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := decodeHistory(rapid.SliceOfN(rapid.Byte(), 4*opSize*100, 4*opSize*200).Draw(t, "history"))
		for _, s := range check(t, h) {
			reached[pair{s.Decision, s.Reason}]++
			decisions.Add(1)
		}
	})
	t.Logf("%d decisions compared", decisions.Load())
	if t.Failed() || testing.Short() || flag.Lookup("rapid.checks").Value.String() != fmt.Sprint(histories) {
		return
	}
	if n := decisions.Load(); n < leastDecisions {
		t.Errorf("%d decisions were compared, want at least %d", n, leastDecisions)
	}
	for _, row := range documented(t) {
		if reached[row] == 0 {
			t.Errorf("no history came to %s/%s", row.Decision, row.Reason)
		}
	}
}

// failer is what check needs of *testing.T, *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check runs a history through the gate three times (in the largest batches over one state, cut at random over one
// state, and cut at random over what a ledger keeps of the outcomes) and compares each with the model; then it
// looks at what must hold of any outcomes.
func check(t failer, h history) []said {
	t.Helper()
	m := newModel(h)
	records := h.records()

	whole := NewState()
	compare(t, "in large batches", m.said, play(t, h, records, 1<<30, direct(whole)))
	cut := NewState()
	compare(t, "cut at random", m.said, play(t, h, records, int(h.cuts&7)+1, direct(cut)))
	if !reflect.DeepEqual(whole, cut) {
		t.Fatalf("the cuts show in the state:\n%s", cmp.Diff(whole, cut))
	}
	keeper := newKeeper()
	compare(t, "from a ledger", m.said, play(t, h, records, int(h.cuts>>3&7)+1, keeper.call))
	keeper.compare(t, whole)

	sameState(t, m, whole)
	conserved(t, m.said, records, whole)
	ordered(t, m.said, records)
	return m.said
}

// caller makes one call of the gate: a batch, or lines whose wait ends.
type caller func(t failer, batch []Record, lines []LineKey, p Policy) []Outcome

func direct(st *State) caller {
	return func(_ failer, batch []Record, lines []LineKey, p Policy) []Outcome {
		if batch != nil {
			return Decide(st, batch, p)
		}
		return Expire(st, lines, p)
	}
}

// play cuts a history into batches of at most n records, of random sizes, and gives the outcomes with the records'
// places in the history.
func play(t failer, h history, records []Record, n int, call caller) (all []said) {
	rng := rand.New(rand.NewPCG(uint64(h.cuts), uint64(n)))
	p := h.policy
	next, from := 0, 0 // records played, and collected for the next batch
	flush := func() {
		for next < from {
			size := min(from-next, 1+rng.IntN(min(n, 1<<20)))
			if n > len(records) {
				size = from - next
			}
			batch := slices.Clone(records[next : next+size])
			for _, o := range call(t, batch, nil, p) {
				all = append(all, saidOf(t, o, batch, next))
			}
			next += size
		}
	}
	for _, s := range h.steps {
		switch {
		case s.policy != nil:
			flush()
			p = *s.policy
		case s.expire != nil:
			flush()
			for _, o := range call(t, nil, s.expire, p) {
				all = append(all, saidOf(t, o, nil, 0))
			}
		default:
			from++
		}
	}
	flush()
	return all
}

func saidOf(t failer, o Outcome, batch []Record, base int) said {
	if (o.Record < 0) != (o.Released != nil) {
		t.Fatalf("outcome with record %d and released %v", o.Record, o.Released)
	}
	if o.Record < 0 {
		return said{-1, o.Released.Key, o.Released.Offset, o.Decision, o.Reason, o.Version}
	}
	r := &batch[o.Record]
	return said{base + o.Record, r.Key, r.Offset, o.Decision, o.Reason, o.Version}
}

func (h history) records() (all []Record) {
	for _, s := range h.steps {
		all = append(all, s.records...)
	}
	return all
}

func compare(t failer, how string, want, got []said) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s: outcome %d differs\nbefore: %+v\nmodel:  %+v\ngate:   %+v", how, i,
				want[max(0, min(i, len(want))-3):min(i, len(want))], want[min(i, len(want)):min(i+3, len(want))], got[min(i, len(got)):min(i+3, len(got))])
		}
	}
}

// sameState compares what the gate remembers with what the model can work out.
func sameState(t failer, m *model, st *State) {
	t.Helper()
	waiting, buffered := 0, 0
	for k, w := range st.Waiting {
		waiting += len(w)
		held := m.waiting(k)
		slices.SortFunc(held, func(a, b *heldEvent) int { return order(&a.Record, &b.Record) })
		for i := range w {
			if w[i].Decision == Buffered {
				buffered++
			}
			if len(held) != len(w) || held[i].Key != w[i].Key || held[i].parked != (w[i].Decision == Parked) {
				t.Fatalf("line %v: waiting %+v, model %+v", k, w, held)
			}
		}
		if _, waits := st.Waits(k); waits == held[0].parked {
			t.Fatalf("line %v: Waits says %t", k, waits)
		}
	}
	if waiting != len(m.held) || buffered != st.Buffered {
		t.Fatalf("%d wait, model %d; %d with a deadline, counted %d", waiting, len(m.held), buffered, st.Buffered)
	}
	for k, l := range st.Lines {
		at, begun := m.position(k)
		l := *l
		l.At.Clock, at.Clock = "", ""
		facts := m.line(k)
		if !begun || l.At != at || !slices.Equal(l.Skipped, m.spans(k)) {
			t.Fatalf("line %v: %+v, model at %+v with %v skipped", k, l, at, m.spans(k))
		}
		if f := facts[lastMove(facts)]; f.key != l.Key || f.filtered != l.Filtered {
			t.Fatalf("line %v: brought by %v filtered %t, model %v %t", k, l.Key, l.Filtered, f.key, f.filtered)
		}
		parked := len(st.Waiting[k]) > 0 && st.Waiting[k][0].Decision == Parked
		if (l.Parked != "") != parked || parked && l.Parked != ReasonGapExpired && l.Parked != ReasonOverflow {
			t.Fatalf("line %v is parked %q with %d waiting", k, l.Parked, len(st.Waiting[k]))
		}
	}
	for k := range m.events {
		if _, begun := m.position(k); begun && st.Lines[k] == nil {
			t.Fatalf("line %v has begun in the model only", k)
		}
	}
}

// conserved: every record has exactly one outcome of its own; what entered the buffer left it once or waits; every key
// runs at most once; quarantined, filtered and conflicting events are not remembered.
func conserved(t failer, all []said, records []Record, st *State) {
	t.Helper()
	type copyOf struct {
		key    schemas.EventKey
		offset int64
	}
	own := make([]int, len(records))
	inside := map[copyOf]int{}
	runs := map[schemas.EventKey]int{}
	for _, s := range all {
		c := copyOf{s.Key, s.Offset}
		switch {
		case s.Record >= 0:
			own[s.Record]++
			if s.Decision == Buffered || s.Decision == Parked {
				inside[c]++
			}
		case s.Decision == Buffered || inside[c] != 1:
			t.Fatalf("%+v came out of the buffer, where it was %d times", s, inside[c])
		case s.Decision != Parked:
			inside[c]--
		}
		if s.Decision.Runs() {
			if runs[s.Key]++; runs[s.Key] > 1 {
				t.Fatalf("%v runs twice", s.Key)
			}
		}
	}
	for i, n := range own {
		if n != 1 {
			t.Fatalf("record %d has %d outcomes", i, n)
		}
	}
	for _, w := range st.Waiting {
		for i := range w {
			inside[copyOf{w[i].Key, w[i].Offset}]--
		}
	}
	for c, n := range inside {
		if n != 0 {
			t.Fatalf("%v: %d more entered the buffer than left it or wait", c, n)
		}
	}
	for k := range runs {
		if !st.Seen[k].Decision.Runs() {
			t.Fatalf("%v ran and is remembered as %q", k, st.Seen[k].Decision)
		}
	}
}

// ordered: what is applied on a line never goes back, until the line begins anew (with a filtered event of another
// kind even, which only the kind shows).
func ordered(t failer, all []said, records []Record) {
	t.Helper()
	entity := map[schemas.EventKey]schemas.EntityKey{}
	for i := range records {
		entity[records[i].Key] = records[i].Entity
	}
	last := map[LineKey]schemas.Version{}
	for _, s := range all {
		if s.Decision != Applied || s.Reason == ReasonArrival {
			continue
		}
		k := LineKey{entity[s.Key], s.Version.Clock}
		if was, ok := last[k]; ok && s.Version.Kind == was.Kind && s.Reason != ReasonFirst && s.Version.Compare(was) < 0 {
			t.Fatalf("line %v went from %+v back to %+v", k, was, s)
		}
		last[k] = s.Version
	}
}

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
	case o.Record < 0 && o.Decision == Parked:
		l.waiting[k][i].Decision = Parked
	case o.Record < 0:
		l.waiting[k] = slices.Delete(slices.Clone(l.waiting[k]), i, i+1)
	case o.Decision == Buffered || o.Decision == Parked:
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
