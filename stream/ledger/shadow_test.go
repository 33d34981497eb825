package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/stream/gate"
)

// A shadow runs and writes nothing of the events: it says what would run, and how that differs from what ran, in counts that add up over its
// steps and in a list that is bounded.
func TestShadowSaysWhatWouldRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	filtered := func(r Record) Record { r.Filtered = true; return r }
	f.apply(c, seq(0, "e", 1), delta(seq(1, "e", 2)), seq(2, "e", 3), filtered(seq(3, "new", 1)), seq(4, "gone", 1), seq(5, "e", 1), seq(6, "old", 1), seq(7, "old", 3))
	c = f.seek(8, 50)
	id := f.replayingAs(ReplayShadow)
	look := func(c *Claim, from, to int64, records ...Record) Applied {
		t.Helper()
		known, err := f.n.Known(t.Context(), c.ID, records, false)
		if err != nil {
			t.Fatal(err)
		}
		return f.replay(c, ReplaySlice{Replay: id, From: from, Next: to, Records: records, Known: known})
	}
	before := one[string](f, `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT count(*) FROM rejected_records) || ' ' || (SELECT next_lane_seq || ' ' || next_offset FROM progress)`)
	a := look(c, 0, 5, seq(0, "e", 1), delta(seq(1, "e", 2)), seq(2, "e", 3), seq(3, "new", 1), filtered(seq(4, "gone", 1)))
	if len(a.Outcomes)+len(a.Actions) > 0 || a.Refused != nil {
		t.Errorf("%+v", a)
	}
	c = f.claim(0)
	look(c, 5, 10, seq(6, "old", 1), seq(7, "old", 3), record(8, "never-decided", "e", seq(0, "e", 2).Version), seq(9, "left", 1))
	if after := one[string](f, `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT count(*) FROM rejected_records) || ' ' || (SELECT next_lane_seq || ' ' || next_offset FROM progress)`); after != before {
		t.Errorf("it was %s, and is %s", before, after)
	}
	if got := f.part(id); got != "10 done 0 applied 4 late 1 stale 2 waits 1 rejected 1" {
		t.Error(got)
	}
	counts := f.texts(`SELECT concat_ws(' ', was, would, differs, sum(events)) FROM replay_shadows GROUP BY was, would, differs ORDER BY 1`)
	want := []string{"applied applied  2", "applied filtered gone 1", "applied late  1", "applied stale  1", "buffered buffered  1", "filtered applied new 1", "undecided applied new 1", "undecided stale  1"}
	if d := cmp.Diff(want, counts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"3 new-1 new", "4 gone-1 gone", "9 left-1 new"}, f.texts(`SELECT concat_ws(' ', log_offset, event_id, differs) FROM replay_differences ORDER BY log_offset`)); d != "" {
		t.Error(d)
	}
}

// Where the actions are others than those that ran, each event that would run differs; the first are listed. One that a newer version has
// overtaken since does not run, with these actions or others.
func TestShadowOfOtherActions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	all := []Record{seq(0, "e1", 0)} // e1 has another version below
	for i := int64(1); i < 3*MaxDifferences/2; i++ {
		all = append(all, seq(i, fmt.Sprintf("e%d", i), 1))
	}
	f.apply(c, all...)
	f.n = f.namespace(func(s *Spec) { s.Actions[0].Destination = "acme/other" })
	c = f.claim(0)
	id := f.replayingAs(ReplayShadow)
	f.exec(`UPDATE replay_parts SET to_offset = 1000`)
	for from := int64(0); from < int64(len(all)); from += 50 {
		known, err := f.n.Known(t.Context(), c.ID, all[from:from+50], false)
		if err != nil {
			t.Fatal(err)
		}
		f.replay(c, ReplaySlice{Replay: id, From: from, Next: from + 50, Records: all[from : from+50], Known: known})
	}
	counts := f.texts(`SELECT concat_ws(' ', was, would, differs, events) FROM replay_shadows ORDER BY 1`)
	if d := cmp.Diff([]string{"applied applied other 149", "applied stale  1"}, counts); d != "" {
		t.Error(d)
	}
	if got := one[string](f, `SELECT count(*) || ' ' || max(log_offset) || ' ' || bool_and(was_plan <> plan) FROM replay_differences`); got != "100 100 true" {
		t.Error(got)
	}
}

// What a shadow says of events that were stale is what a replay that runs again does with them: they are left out unless they are asked for
// by name, and then run where older ones are to.
func TestShadowOfWhatWasStale(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stale, evenStale bool
		want             string
	}{
		"not asked for":            {false, true, "applied 0 late 0 stale 1"},
		"asked for":                {true, false, "applied 0 late 0 stale 1"},
		"asked for, and to run":    {true, true, "applied 0 late 1 stale 0"},
		"neither asked nor to run": {false, false, "applied 0 late 0 stale 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c := f.claim(0)
			f.apply(c, seq(0, "e", 1), seq(1, "e", 2), record(2, "older", "e", seq(0, "e", 1).Version))
			step := ReplaySlice{From: 0, Next: 3, Records: []Record{record(2, "older", "e", seq(0, "e", 1).Version)}, EvenStale: tt.evenStale, Stale: tt.stale}
			known, err := f.n.Known(t.Context(), c.ID, step.Records, false)
			if err != nil || known[0] != (Known{Decision: gate.Stale, Done: true, First: 2}) {
				t.Fatal(known, err)
			}
			counts := func(mode ReplayMode) string {
				step.Replay = f.replayingAs(mode)
				f.replay(c, step)
				f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled' WHERE ended_at IS NULL`)
				return one[string](f, `SELECT concat_ws(' ', 'applied', applied, 'late', late, 'stale', stale) FROM replay_parts WHERE replay = $1`, step.Replay)
			}
			step.Known = known
			if got := counts(ReplayShadow); got != tt.want {
				t.Errorf("the shadow says %s, want %s", got, tt.want)
			}
			if step.Known, step.Reprocess = nil, true; !tt.stale {
				return // the loop hands on no such record
			}
			if got := counts(ReplayReprocess); got != tt.want {
				t.Errorf("run again it is %s, want %s", got, tt.want)
			}
		})
	}
}

// However many types a range has, a shadow writes a bounded number of rows, and each event counts.
func TestShadowCountsTypesBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	id := f.replayingAs(ReplayShadow)
	f.exec(`UPDATE replay_parts SET to_offset = 10000`)
	const step, all = 90, 5 * 90
	look := func(from int64) {
		var records []Record
		for i := range int64(step) {
			r := seq(from+i, fmt.Sprintf("e%d", from+i), 1)
			r.Type = fmt.Sprintf("com.example.t%03d", (from+i)%all)
			records = append(records, r)
		}
		known, err := f.n.Known(t.Context(), c.ID, records, false)
		if err != nil {
			t.Fatal(err)
		}
		f.replay(c, ReplaySlice{Replay: id, From: from, Next: from + step, Records: records, Known: known})
	}
	for from := int64(0); from < 2*all; from += step {
		look(from)
	}
	if got := one[string](f, `SELECT count(*) || ' ' || sum(events) || ' ' || sum(events) FILTER (WHERE type = '') || ' ' || min(events) FILTER (WHERE type <> '') FROM replay_shadows`); got != "201 900 500 2" {
		t.Error(got)
	}
}
