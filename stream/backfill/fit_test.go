package backfill

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// at is an event of a sequence; kinds are by sign: a negative value is a delta of its amount.
func at(values ...int64) (events []*schemas.Event) {
	for _, v := range values {
		e := &schemas.Event{Payload: schemas.Snapshot, Version: schemas.Version{Kind: schemas.Sequence, Value: v}}
		if v < 0 {
			e.Payload, e.Version.Value = schemas.Delta, -v
		}
		events = append(events, e)
	}
	return events
}

func values(events []*schemas.Event) (out []int64) {
	for _, e := range events {
		v := e.Version.Value
		if e.Payload == schemas.Delta {
			v = -v
		}
		out = append(out, v)
	}
	return out
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		from, to int64
		in, want []int64
		outside  int
	}{
		{"the fillers, in order", 3, 5, []int64{5, 3, 4}, []int64{3, 4, 5}, 0},
		{"nothing below", 3, 5, []int64{1, 2, 3, 4, 5}, []int64{3, 4, 5}, 2},
		{"nothing above when covered", 3, 4, []int64{3, 4, 5, 6}, []int64{3, 4}, 2},
		{"the newest snapshot in place of what is not there", 3, 4, []int64{7, 6}, []int64{7}, 1},
		{"and beside what is", 3, 5, []int64{4, 9, 8}, []int64{4, 9}, 1},
		{"a snapshot of the last place has what is missing", 3, 5, []int64{5, 9, 8}, []int64{5}, 2},
		{"a delta has not", 3, 5, []int64{-5, 9, 8}, []int64{-5, 9}, 1},
		{"a delta above supersedes nothing", 3, 4, []int64{-3, -6}, []int64{-3}, 1},
		{"deltas in the range", 3, 4, []int64{-4, -3, -2}, []int64{-3, -4}, 1},
		{"only older", 3, 4, []int64{1, 2}, nil, 2},
		{"two of one place", 3, 3, []int64{3, 3, 4}, []int64{3, 3}, 1},
		{"no range", 1, 0, []int64{9, 2, 7}, []int64{2, 7, 9}, 0},
		{"first value 0", 0, 0, []int64{0, 1}, []int64{0}, 1},
		{"the whole line", 0, 1<<63 - 1, []int64{5}, []int64{5}, 0},
		{"nothing", 3, 4, nil, nil, 0},
	} {
		got, outside := fit(&Request{Kind: schemas.Sequence, From: test.from, To: test.to}, at(test.in...))
		if !cmp.Equal(values(got), test.want) || outside != test.outside {
			t.Errorf("%s: %v and %d outside, want %v and %d", test.name, values(got), outside, test.want, test.outside)
		}
	}
}

// Whatever the answer: all of the range is there, nothing below, at most one above and that the newest snapshot, and
// only where a place is open; what is counted adds up.
func TestFitProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, 6).Draw(t, "from")
		q := &Request{Kind: schemas.Sequence, From: from, To: from + rapid.Int64Range(0, 5).Draw(t, "more")}
		in := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 14), rapid.Int64Range(-14, -1)), 0, 12).Draw(t, "in")
		got, outside := fit(q, at(in...))
		if len(got)+outside != len(in) {
			t.Fatalf("%d and %d of %d", len(got), outside, len(in))
		}
		inside, above, newest := map[int64]int{}, []int64{}, int64(-1)
		for _, e := range at(in...) {
			if v := e.Version.Value; q.From <= v && v <= q.To {
				inside[v]++
			} else if v > q.To && e.Payload == schemas.Snapshot {
				newest = max(newest, v)
			}
		}
		open := int64(len(inside)) < q.To-q.From+1
		for _, e := range at(in...) {
			open = open && !(e.Version.Value == q.To && e.Payload == schemas.Snapshot)
		}
		last := int64(-1)
		for _, e := range got {
			v := e.Version.Value
			if v < last || v < q.From {
				t.Fatalf("%v: out of order or below", values(got))
			}
			if last = v; v > q.To {
				above = append(above, v)
			}
			inside[v]--
		}
		want := []int64{}
		if open && newest >= 0 {
			want = append(want, newest)
			inside[newest]++
		}
		if !cmp.Equal(above, want) {
			t.Fatalf("%v above the range, want %v", above, want)
		}
		for v, n := range inside {
			if n != 0 {
				t.Fatalf("place %d is off by %d", v, n)
			}
		}
	})
}

func TestUnique(t *testing.T) {
	t.Parallel()
	in := at(1, 2, 3)
	in[0].ID, in[1].ID, in[2].ID = "a", "b", "a"
	if got := values(unique(in)); !cmp.Equal(got, []int64{1, 2}) {
		t.Errorf("%v", got)
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	hash := schemas.HashBody([]byte("x"))
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		e    schemas.Event
		want string
	}{
		{schemas.Event{Entity: "42", Version: schemas.Version{Kind: schemas.Sequence, Value: 7}}, "backfill:42:00000000000000000007"},
		{schemas.Event{Entity: "1/2", Version: schemas.Version{Kind: schemas.Monotonic, Text: "01H", Clock: "c"}}, "backfill:1/2#c:=01H"},
		{schemas.Event{Entity: "42", Hash: hash, Version: schemas.Version{Kind: schemas.Timestamp, Clock: "pull_request", Value: when.UnixNano()}},
			"backfill:42#pull_request:2026-01-02T03:04:05.000000000Z:" + hash.String()},
		{schemas.Event{Entity: "42", Hash: hash, Version: schemas.Version{Kind: schemas.None}}, "backfill:42::" + hash.String()},
	} {
		if got := newID(&test.e); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	long := schemas.Event{Entity: schemas.EntityKey(strings.Repeat("e", schemas.MaxEntity)), Version: schemas.Version{Kind: schemas.Sequence, Value: 7}}
	other := long
	other.Entity = long.Entity[:len(long.Entity)-1] + "f"
	if a, b := newID(&long), newID(&other); len(a) > schemas.MaxID || a == b || a != newID(&long) {
		t.Errorf("ids of long entities: %q and %q", a, b)
	}
}

// Two states of one line never share an id, nor do two clocks or two entities.
func TestNewIDProperty(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab:/#@")))
		e := schemas.Event{Entity: schemas.NewEntityKey(text.Draw(t, "entity"), "x"),
			Version: schemas.Version{Kind: schemas.Sequence, Clock: rapid.StringMatching("[a-b]{0,2}").Draw(t, "clock"), Value: rapid.Int64Range(0, 3).Draw(t, "value")}}
		state := fmt.Sprint(e.Entity, " ", e.Version.Clock, " ", e.Version.Value)
		id := newID(&e)
		if other, ok := seen[id]; ok && other != state {
			t.Fatalf("%s and %s share %s", other, state, id)
		}
		seen[id] = state
	})
}
