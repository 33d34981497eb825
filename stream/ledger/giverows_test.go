package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
)

// marked is a claim with given actions, of which all are settled but those named.
func marked(given int64, spans []laneSpan, open ...int64) *Claim {
	c := &Claim{ID: 1}
	c.spans, c.laneSeq = spans, given
	c.marks = marks.New(1, given)
	for s := int64(1); s < given; s++ {
		if _, isOpen := slices.BinarySearch(open, s); !isOpen {
			c.marks.MarkRecorded(s)
		}
	}
	c.marks.Advance()
	return c
}

func (w *resultWrite) lanesRecorded() (lanes []int64) {
	for _, l := range w.recorded {
		lanes = append(lanes, l.laneSeq)
	}
	return lanes
}

// Who keeps the mark more than a million behind, or in a window that is not written any more, gets a row; nobody else does.
func TestRowsForWhatKeepsTheMark(t *testing.T) {
	t.Parallel()
	one := []laneSpan{{1, 7}}
	for name, tt := range map[string]struct {
		given int64
		spans []laneSpan
		open  []int64
		want  []int64
	}{
		"near":                        {2000, one, []int64{5, 6}, nil},
		"too far behind":              {maxSpan + 100, one, []int64{5, 60, 99, 100, 101, 2000}, []int64{5, 60, 99}},
		"in the window before":        {2000, []laneSpan{{1, 7}, {500, 8}}, []int64{3, 499, 500, 1000}, []int64{3, 499}},
		"only in the window that is":  {2000, []laneSpan{{1, 7}, {500, 8}}, []int64{500, 1000}, nil},
		"both, the newer bound holds": {maxSpan + 100, []laneSpan{{1, 7}, {500, 8}}, []int64{80, 400, 600}, []int64{80, 400}},
	} {
		c := marked(tt.given, tt.spans, tt.open...)
		w := &resultWrite{windows: map[int32]*windowResults{}}
		if found := w.giveRows(c); found != len(tt.want) || !slices.Equal(w.lanesRecorded(), tt.want) {
			t.Errorf("%s: %d, %v, want %v", name, found, w.lanesRecorded(), tt.want)
		}
	}
	var many []int64
	for s := int64(1); s <= 600; s++ {
		many = append(many, s)
	}
	c := marked(2000, []laneSpan{{1, 7}, {1000, 8}}, many...)
	c.marks.WayOf(1, true) // is being recorded
	c.marks.WayOf(2, true)
	c.marks.Unknown(2) // may have been
	w := &resultWrite{windows: map[int32]*windowResults{}, recorded: []laneRef{{c, 3}}}
	if found := w.giveRows(c); found != maxGivenRows-3 || w.recorded[1].laneSeq != 4 || w.windows[7].inserts.n() != maxGivenRows-3 {
		t.Errorf("%d of many, the first is %v", found, w.lanesRecorded()[:2])
	}
}

// More stragglers than one write takes: an idle partition gives rows to all of them, the mark leaves their window, the next
// owner runs them in order, and once they are done nobody keeps the window.
func TestRowsForWhatKeepsAnIdlePartitionsMark(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	const n = maxGivenRows + 300
	var records []Record
	for i := range int64(n) {
		records = append(records, seq(i, fmt.Sprintf("e%d", i%7), i/7+1))
	}
	f.apply(c, records...)
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: n, Status: Done, Attempt: 1})
	f.turnWindow()
	later := seq(n, "later", 1)
	later.AppendTime = time.Now()
	f.apply(c, later)
	idle := func() {
		t.Helper()
		if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	idle()
	if got := one[int64](f, `SELECT lane_low FROM progress`); got != n+1 {
		t.Errorf("the mark is at %d", got)
	}
	if got := one[int](f, `SELECT count(*) FROM actions WHERE status = 'pending' AND open AND attempts = 0`); got != n-2 {
		t.Errorf("%d have a row", got)
	}
	idle() // and again: nothing is left to do
	c = f.claim(0)
	open, more, err := f.n.Open(t.Context(), c, 0, 10*n)
	if err != nil || more || len(open) != n-1 {
		t.Fatalf("%d open, %v", len(open), err)
	}
	var results []Result
	for i, a := range open {
		if want := int64(i + 2); a.LaneSeq != want && (i != len(open)-1 || a.LaneSeq != n+1) {
			t.Fatalf("action %d is %d", i, a.LaneSeq)
		}
		if a.LaneSeq <= n && a.EventID != records[a.LaneSeq-1].ID {
			t.Fatalf("action %d is of %s", a.LaneSeq, a.EventID)
		}
		results = append(results, Result{Claim: c, LaneSeq: a.LaneSeq, Status: Done, Attempt: 1})
	}
	f.ageWindows(200 * time.Hour)
	if s := f.sweep(); s.Dropped != nil {
		t.Fatal("dropped with all that is open in it")
	}
	f.record(results...)
	idle()
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Errorf("dropped %v", s.Dropped)
	}
}

// A partition to which nothing comes after its window was closed has no span of a newer one, so that closedBelow bounds nothing. Its open actions
// keep that window with a row or without; once they are done nothing does.
func TestIdlePartitionDoesNotKeepItsLastWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1))
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	idle := func() (dropped []int32) {
		t.Helper()
		if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.n.Tidy(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return f.sweep().Dropped
	}
	if dropped := idle(); len(dropped) > 0 {
		t.Fatalf("dropped %v with what is open in it", dropped)
	}
	f.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
	if dropped := idle(); len(dropped) != 1 {
		t.Errorf("dropped %v", dropped)
	}
}
