package gate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// histories is how many a run plays, always the same, which come to every row of the decision table: about 300,000 decisions.
const histories = 500

// TestMain asks rapid for them, a tenth with -short, unless the command line says how many, or from which seed: 1700 are a million decisions.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	if n := histories; !asked {
		if testing.Short() {
			n /= 10
		}
		must(flag.Set("rapid.checks", fmt.Sprint(n)))
		must(flag.Set("rapid.seed", "1"))
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
	decisions := 0
	reached := map[pair]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := decodeHistory(rapid.SliceOfN(rapid.Byte(), headSize+400*opSize, headSize+800*opSize).Draw(t, "history"))
		for _, s := range check(t, h) {
			reached[pair{s.Decision, s.Reason}]++
			decisions++
		}
	})
	t.Logf("%d decisions compared", decisions)
	if t.Failed() || testing.Short() || flag.Lookup("rapid.checks").Value.String() != fmt.Sprint(histories) {
		return
	}
	for _, row := range documented(t) {
		person := row.Reason == ReasonRedriven || row.Reason == ReasonDiscarded || row.Reason == ReasonReprocess // whose word is in no history
		if reached[row] == 0 && !person {
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
func check(t failer, h history) []modelOutcome {
	t.Helper()
	m := newModel(h)
	records := h.records()

	whole := NewState()
	compare(t, "in large batches", m.outcomes, play(t, h, records, 1<<30, direct(whole)))
	cut := NewState()
	compare(t, "cut at random", m.outcomes, play(t, h, records, int(h.cuts&7)+1, direct(cut)))
	if !reflect.DeepEqual(whole, cut) {
		t.Fatalf("the cuts show in the state:\n%s", cmp.Diff(whole, cut))
	}
	if !slices.Equal(whole.Requests, m.requests) {
		t.Fatalf("asked for:\n%s", cmp.Diff(m.requests, whole.Requests))
	}
	keeper := newKeeper()
	compare(t, "from a ledger", m.outcomes, play(t, h, records, int(h.cuts>>3&7)+1, keeper.call))
	keeper.compare(t, whole)

	sameState(t, m, whole)
	conserved(t, m.outcomes, records, whole)
	ordered(t, m.outcomes, records)
	twinned(t, m.outcomes, records)
	checkHeld(t, m.outcomes, whole)
	givenUp(t, m.outcomes)
	if !slices.ContainsFunc(h.steps, func(s step) bool { return s.policy != nil }) {
		capped(t, h.policy, whole)
	}
	return m.outcomes
}

// caller makes one call of the gate: a batch, or lines whose wait ends, by itself or as an operator asks.
type caller func(t failer, s step, p Policy) []Outcome

func direct(st *State) caller {
	return func(_ failer, s step, p Policy) []Outcome {
		switch {
		case s.expire != nil:
			return Expire(st, s.expire, p)
		case s.release != nil:
			return Release(st, s.release, p)
		}
		return Decide(st, s.records, p)
	}
}

// play cuts a history into batches of at most n records, of random sizes, and gives the outcomes with the records'
// places in the history.
func play(t failer, h history, records []Record, n int, call caller) (all []modelOutcome) {
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
			for _, o := range call(t, in(batch...), p) {
				all = append(all, modelOutcomeOf(t, o, batch, next))
			}
			next += size
		}
	}
	for _, s := range h.steps {
		switch {
		case s.policy != nil:
			flush()
			p = *s.policy
		case s.records == nil:
			flush()
			for _, o := range call(t, s, p) {
				all = append(all, modelOutcomeOf(t, o, nil, 0))
			}
		default:
			from++
		}
	}
	flush()
	return all
}

func modelOutcomeOf(t failer, o Outcome, batch []Record, base int) modelOutcome {
	if (o.Record < 0) != (o.Released != nil) {
		t.Fatalf("outcome with record %d and released %v", o.Record, o.Released)
	}
	s := modelOutcome{Record: -1, Decision: o.Decision, Reason: o.Reason, Version: o.Version, Held: o.Held, Dead: o.Dead}
	if o.Record < 0 {
		s.Key, s.Offset = o.Released.Key, o.Released.Offset
		return s
	}
	r := &batch[o.Record]
	s.Record, s.Key, s.Offset = base+o.Record, r.Key, r.Offset
	return s
}

func (h history) records() (all []Record) {
	for _, s := range h.steps {
		all = append(all, s.records...)
	}
	return all
}

func compare(t failer, how string, want, got []modelOutcome) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s: outcome %d differs\nbefore: %+v\nmodel:  %+v\ngate:   %+v", how, i,
				want[max(0, min(i, len(want))-3):min(i, len(want))], want[min(i, len(want)):min(i+3, len(want))], got[min(i, len(got)):min(i+3, len(got))])
		}
	}
}
