package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

func latest(s *Spec) { s.Latest = true }

// statusesOf are what the inbox says of every event and its actions: "<id> <status> <attempts>: <action status>...".
func statusesOf(f *fixture) (out []string) {
	f.t.Helper()
	items, err := f.list("", "")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, i := range items {
		item, err := f.item(i.EventID)
		if err != nil {
			f.t.Fatal(err)
		}
		line := fmt.Sprintf("%s %s %d:", i.EventID, i.Status, i.Attempts)
		for _, a := range item.Actions {
			line += fmt.Sprintf(" %s/%d", a.Status, a.Attempts)
			if ended := a.Status == Done || a.Status == Superseded; ended != (a.FinishedAt != nil) {
				f.t.Errorf("%s: finished at %v", line, a.FinishedAt)
			}
		}
		out = append([]string{line}, out...)
	}
	return out
}

// What is superseded has ended, without an attempt: with and without a row, whichever comes later, for the next owner too.
func TestSupersededHasEnded(t *testing.T) {
	t.Parallel()
	f := setup(t, latest, func(s *Spec) {
		s.Actions = append(s.Actions, ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: Continue})
	})
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 2), seq(2, "a", 3))
	if _, _, err := f.n.Copy(t.Context(), c, []Copy{{LaneSeq: 3, Packed: []byte("kept")}}); err != nil { // it has a row now
		t.Fatal(err)
	}
	done := Result{Claim: c, LaneSeq: 6, Status: Done, Attempt: 1, Code: 200}
	for range 2 { // the outcome of the first may have been unknown
		f.record(Result{Claim: c, LaneSeq: 1, Status: Superseded}, Result{Claim: c, LaneSeq: 2, Status: Superseded},
			Result{Claim: c, LaneSeq: 3, Status: Superseded}, done)
	}
	for range 2 {
		f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 3, Status: Failed, Attempt: 1})
		want := []string{"a-1 superseded 0: superseded/0 superseded/0", "a-2 processing 0: superseded/0 pending/0", "a-3 processing 1: pending/0 done/1"}
		if d := cmp.Diff(want, statusesOf(f)); d != "" {
			t.Error(d)
		}
		open, _, err := f.n.Open(t.Context(), c, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"4:a-2:tell", "5:a-3:run"}, lanes(open)); d != "" {
			t.Error(d)
		}
		c = f.claim(0)
	}
	if got := one[string](f, `SELECT concat_ws(' ', status, open, attempts, packed IS NULL, finished_at IS NULL) FROM actions WHERE lane_seq = 3`); got != "superseded f 0 t f" {
		t.Error(got)
	}
	if n := one[int](f, `SELECT count(*)::int FROM attempts WHERE lane_seq = 3 AND status = 'superseded'`); n != 0 {
		t.Errorf("%d attempts", n)
	}
	f.record(Result{Claim: c, LaneSeq: 4, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 5, Status: Done, Attempt: 1})
	if d := cmp.Diff("a-2 done 1: superseded/0 done/1", statusesOf(f)[1]); d != "" {
		t.Error(d)
	}
	items, err := f.list("superseded", "")
	if err != nil || len(items) != 1 || items[0].EventID != "a-1" {
		t.Errorf("%+v, %v", items, err)
	}
	if got := c.low(); got != 7 {
		t.Errorf("settled below %d", got)
	}
}

// payloads are the kinds of a claim's open actions, as they were given and as they are read back.
func payloads(actions []Action) (out []string) {
	for _, a := range actions {
		out = append(out, fmt.Sprintf("%s %s", a.EventID, a.Payload))
	}
	return out
}

// Of what is read back it is known whether it is a delta: numbers and words, out of the gap buffer, with and without a row.
func TestPayloadKindIsReadBack(t *testing.T) {
	t.Parallel()
	f := setup(t, latest)
	c := f.claim(0)
	delta := func(r Record) Record { r.Payload = schemas.Delta; return r }
	word := func(offset int64, id, word string) Record {
		return record(offset, id, "w", schemas.Version{Kind: schemas.Monotonic, Text: word})
	}
	filtered := seq(4, "x", 1)
	filtered.Filtered = true
	unknown := seq(0, "u", 1)
	unknown.Payload = ""
	got := payloads(f.apply(f.claim(1), unknown).Actions)
	if d := cmp.Diff([]string{"u-1 delta"}, got); d != "" {
		t.Error(d)
	}
	f.apply(c, seq(0, "a", 1), delta(seq(1, "b", 1)), word(2, "w-a", "a"), delta(word(3, "w-b", "b")), filtered, seq(5, "a", 1), delta(seq(6, "a", 3)), seq(7, "b", 3))
	got = payloads(f.apply(c, delta(seq(8, "a", 2)), seq(9, "b", 2)).Actions)
	if d := cmp.Diff([]string{"a-2 delta", "a-3 delta", "b-2 snapshot", "b-3 snapshot"}, got); d != "" {
		t.Error(d)
	}
	want := []string{"a-1 snapshot", "b-1 delta", "w-a snapshot", "w-b delta", "a-2 delta", "a-3 delta", "b-2 snapshot", "b-3 snapshot"}
	for range 2 {
		open, _, err := f.n.Open(t.Context(), c, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, payloads(open)); d != "" {
			t.Error(d)
		}
		c = f.claim(0)
	}
}

// What was decided while the backlog was not latest has no known kind, whatever the backlog is later.
func TestPayloadKindIsNotMadeUp(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "a", 1))
	f.n = f.namespace(latest)
	c := f.claim(0)
	f.apply(c, seq(1, "a", 2))
	f.n = f.namespace()
	c = f.claim(0)
	f.apply(c, seq(2, "a", 3))
	open, _, err := f.n.Open(t.Context(), c, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a-1 ", "a-2 snapshot", "a-3 "}, payloads(open)); d != "" {
		t.Error(d)
	}
}

// Batches of subscriptions that want the kinds of payloads and of those that do not follow each other in the same memory.
func TestPayloadKindsOfManyBatches(t *testing.T) {
	t.Parallel()
	f := setup(t, latest)
	plain := f.namespace(func(s *Spec) { s.Name = "acme.plain" })
	wants := f.n
	c := f.claim(0)
	f.n = plain
	d := f.claim(0)
	for i := range int64(20) {
		for n, claim := range map[*Namespace]*Claim{wants: c, plain: d} {
			f.n = n
			w := record(2*i+1, fmt.Sprint("w", i), "w", schemas.Version{Kind: schemas.Monotonic, Text: fmt.Sprintf("%03d", i)})
			if got := f.apply(claim, seq(2*i, "a", i+1), w).Actions; len(got) != 2 {
				t.Fatalf("batch %d: %v", i, lanes(got))
			}
		}
	}
}
