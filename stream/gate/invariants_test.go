package gate

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// sameState compares what the gate remembers with what the model can work out.
func sameState(t failer, m *model, st *State) {
	t.Helper()
	waiting, buffered, bytes := 0, 0, int64(0)
	for k, w := range st.Waiting {
		waiting += len(w)
		held := m.waiting(k)
		slices.SortFunc(held, func(a, b *heldEvent) int { return compareWaiting(st.Lines[k], &a.Record, &b.Record) })
		for i := range w {
			if w[i].Decision == Buffered {
				buffered++
				bytes += w[i].Size
			}
			if len(held) != len(w) || held[i].Key != w[i].Key || held[i].parked != (w[i].Decision == Parked) {
				t.Fatalf("line %v: waiting %+v, model %+v", k, w, held)
			}
			if asked := w[i].Stage == Backfilling; asked != (m.backfilling(k) && !held[i].parked) {
				t.Fatalf("line %v: %+v", k, w[i])
			}
		}
		if _, waits := st.Waits(k); waits == held[0].parked {
			t.Fatalf("line %v: Waits says %t", k, waits)
		}
	}
	if waiting != len(m.held) || buffered != st.Buffered || bytes != st.BufferedBytes {
		t.Fatalf("%d wait, model %d; %d of %d bytes with a deadline, counted %d of %d", waiting, len(m.held), buffered, bytes, st.Buffered, st.BufferedBytes)
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
func conserved(t failer, all []modelOutcome, records []Record, st *State) {
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
			if s.Decision == Buffered || s.Decision == Parked && !s.Held {
				inside[c]++
			}
		case s.Decision == Buffered || inside[c] != 1:
			t.Fatalf("%+v came out of the buffer, where it was %d times", s, inside[c])
		case s.Decision != Parked || s.Held:
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

// ordered: what is applied on a line never goes back, until the line begins again (with a filtered event of another
// kind even, which only the kind shows). Its epoch never does.
func ordered(t failer, all []modelOutcome, records []Record) {
	t.Helper()
	entity := map[schemas.EventKey]schemas.EntityKey{}
	for i := range records {
		entity[records[i].Key] = records[i].Entity
	}
	last := map[VersionLineKey]schemas.Version{}
	for _, s := range all {
		if s.Decision != Applied || s.Reason == ReasonArrival {
			continue
		}
		k := VersionLineKey{entity[s.Key], s.Version.Clock}
		if was, ok := last[k]; ok && s.Version.Kind == was.Kind && s.Reason != ReasonFirst && s.Version.Compare(was) < 0 {
			t.Fatalf("line %v went from %+v back to %+v", k, was, s)
		} else if ok && s.Version.Epoch < was.Epoch {
			t.Fatalf("line %v went from epoch %d to %+v", k, was.Epoch, s)
		}
		last[k] = s.Version
	}
}

// twinned: what equal drops, marks or holds has a twin by version that runs: before it with first and hold, behind it
// with last.
func twinned(t failer, all []modelOutcome, records []Record) {
	t.Helper()
	type version struct {
		entity schemas.EntityKey
		schemas.Version
	}
	entity := map[schemas.EventKey]schemas.EntityKey{}
	for i := range records {
		entity[records[i].Key] = records[i].Entity
	}
	ran := map[version]bool{}
	owed := map[version]modelOutcome{}
	for _, s := range all {
		v := version{entity[s.Key], s.Version}
		switch {
		case s.Decision == Applied:
			ran[v] = true
			delete(owed, v)
		case (s.Reason == ReasonEqualFirst || s.Reason == ReasonEqualHeld) && !ran[v]:
			t.Fatalf("%+v, and nothing of its version ran", s)
		case s.Reason == ReasonEqualLast:
			owed[v] = s
		}
	}
	for _, s := range owed {
		t.Fatalf("%+v, and nothing of its version runs after it", s)
	}
}

// checkHeld: what is held for an operator is parked, is remembered, and neither waits nor runs.
func checkHeld(t failer, all []modelOutcome, st *State) {
	t.Helper()
	held := map[schemas.EventKey]bool{}
	for _, s := range all {
		if s.Held != (s.Reason == ReasonOlderHeld || s.Reason == ReasonEqualHeld) || s.Held && s.Decision != Parked {
			t.Fatalf("%+v", s)
		}
		held[s.Key] = held[s.Key] || s.Held
		if held[s.Key] && s.Decision.Runs() {
			t.Fatalf("%+v runs, and an operator was to say so", s)
		}
	}
	for k := range held {
		if held[k] && st.Seen[k].Decision != Parked {
			t.Fatalf("%v is held and remembered as %q", k, st.Seen[k].Decision)
		}
	}
	for _, w := range st.Waiting {
		for i := range w {
			if held[w[i].Key] && !w[i].Filtered {
				t.Fatalf("%v is held and waits", w[i].Key)
			}
		}
	}
}

// givenUp: dead letters of gaps would have run, and nothing else says that they are dead.
func givenUp(t failer, all []modelOutcome) {
	t.Helper()
	for _, s := range all {
		if s.Dead != (s.Reason == ReasonGapDead) || s.Dead && !s.Decision.Runs() {
			t.Fatalf("%+v", s)
		}
	}
}

// capped: no more waits with a deadline than may.
func capped(t failer, p Policy, st *State) {
	t.Helper()
	over := func(n, most int64) bool { return most > 0 && n > most }
	if over(int64(st.Buffered), int64(p.MaxBuffered)) || over(st.BufferedBytes, p.MaxBytes) {
		t.Fatalf("%d events of %d bytes wait, under %+v", st.Buffered, st.BufferedBytes, p)
	}
	for k, w := range st.Waiting {
		if w[0].Decision == Buffered && (over(int64(len(w)), int64(p.MaxPerEntity)) || over(size(w), p.MaxBytesPerEntity)) {
			t.Fatalf("line %v: %d events of %d bytes wait, under %+v", k, len(w), size(w), p)
		}
	}
}
