package owner

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

func TestWhere(t *testing.T) {
	t.Parallel()
	id, other := ledger.TopicID{1}, ledger.TopicID{2}
	here := ledger.Partition{Topic: testTopic, TopicID: id}
	stored := func(at int64) *ledger.Position { return &ledger.Position{Offset: at, LeaderEpoch: 3} }
	marked := func(at, says int64, of ledger.TopicID) *commit {
		return &commit{at, marker{testGroup, 0, of, says}.String()}
	}
	end := func(at int64) *int64 { return &at }
	at := func(offset int64) ledger.Start {
		return ledger.Start{Position: ledger.Position{Offset: offset, LeaderEpoch: -1}}
	}
	moved := func(from, to int64) ledger.Start {
		st := at(to)
		st.Seek = &ledger.Seek{From: from, To: to}
		return st
	}
	// stands is a stop that was reported; with an acceptance it covers what is found under the same name.
	stands := func(kind StopReason, from, to, resume int64) ledger.Standing {
		return ledger.Standing{Stop: &ledger.Stop{ID: 7, Partition: here, Kind: string(kind), From: from, To: to, Resume: resume}}
	}
	accepted := func(kind StopReason, from, to, resume int64) ledger.Standing {
		s := stands(kind, from, to, resume)
		s.Stop.Accepted = &ledger.Acceptance{By: "ann"}
		return s
	}
	by7 := func(st ledger.Start) ledger.Start { st.Accepted = 7; return st }
	asks := func(to int64) ledger.Standing {
		return ledger.Standing{SeekRequest: &ledger.SeekRequest{ID: 9, To: to, By: "ann", Reason: "again"}}
	}
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	forgot := ledger.Standing{Remembers: day}
	type report struct {
		kind             StopReason
		from, to, resume int64
	}
	for _, tt := range []struct {
		name        string
		f           facts
		want        ledger.Start
		mirrorFirst bool
		stop        *report
	}{
		{name: "first claim begins where the subscription does", f: facts{begin: 40}, want: at(40)},
		{name: "no commit is not a seek", f: facts{stored: stored(50)}, want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror behind the ledger", f: facts{stored: stored(50), commit: marked(45, 45, id)},
			want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror at the ledger", f: facts{stored: stored(50), commit: marked(50, 50, id)},
			want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror ahead of the ledger", f: facts{stored: stored(50), commit: marked(51, 51, id)},
			stop: &report{StopHistory, 50, 51, 50}},
		{name: "our mirror ahead of a ledger that went back and knows it", want: ledger.Start{Position: *stored(50)},
			f: facts{stored: stored(50), standing: ledger.Standing{High: 60}, commit: marked(60, 60, id)}},
		{name: "our mirror, and the ledger knows nothing", f: facts{begin: 90, commit: marked(20, 20, id)}, stop: &report{StopHistory, 20, 20, 20}},
		{name: "our mirror of another incarnation", f: facts{commit: marked(50, 50, other)}, stop: &report{StopRecreated, 50, 0, 0}},
		{name: "our mirror of another incarnation that was accepted before", want: ledger.Start{Position: *stored(50)},
			f: facts{stored: stored(50), commit: marked(50, 50, other)}},
		{name: "seek back", f: facts{stored: stored(50), commit: &commit{offset: 20}}, mirrorFirst: true, want: moved(50, 20)},
		{name: "seek forward", f: facts{stored: stored(50), commit: &commit{offset: 70}}, mirrorFirst: true, want: moved(50, 70)},
		{name: "seek by a tool that keeps the metadata", f: facts{stored: stored(50), commit: marked(20, 50, id)}, mirrorFirst: true, want: moved(50, 20)},
		{name: "commit copied from another group", mirrorFirst: true, want: moved(50, 20),
			f: facts{stored: stored(50), commit: &commit{20, marker{"acme.other", 0, id, 20}.String()}}},
		{name: "commit of another generation", mirrorFirst: true, want: moved(50, 20),
			f: facts{stored: stored(50), commit: &commit{20, marker{testGroup, 7, id, 20}.String()}}},
		{name: "reset to where we are: nothing moved, but not our mirror", f: facts{stored: stored(50), commit: &commit{offset: 50}},
			mirrorFirst: true, want: ledger.Start{Position: *stored(50)}},
		{name: "commit before the first claim", f: facts{begin: 40, commit: &commit{offset: 60}}, mirrorFirst: true, want: at(60)},
		{name: "at the log's start", f: facts{stored: stored(10)}, want: ledger.Start{Position: *stored(10)}},
		{name: "at the log's end", f: facts{stored: stored(100)}, want: ledger.Start{Position: *stored(100)}},
		{name: "below the log's start", f: facts{stored: stored(9)}, stop: &report{StopBelowStart, 9, 10, 10}},
		{name: "above the log's end", f: facts{stored: stored(101)}, stop: &report{StopAboveEnd, 100, 101, 100}},
		{name: "above the log's end, which new records hide", f: facts{stored: stored(101), epochEnd: end(95)}, stop: &report{StopAboveEnd, 95, 101, 95}},
		{name: "begin below the log's start", f: facts{begin: 9}, stop: &report{StopBelowStart, 9, 10, 10}},
		{name: "seek below the log's start", f: facts{stored: stored(50), commit: &commit{offset: 9}}, stop: &report{StopBelowStart, 9, 10, 10}},
		{name: "seek above the log's end", f: facts{stored: stored(50), commit: &commit{offset: 101}}, stop: &report{StopAboveEnd, 100, 101, 100}},
		{name: "epoch ends at the position", f: facts{stored: stored(50), epochEnd: end(50)}, want: ledger.Start{Position: *stored(50)}},
		{name: "truncated and regrown", f: facts{stored: stored(50), epochEnd: end(49)}, stop: &report{StopTruncated, 49, 50, 49}},
		{name: "truncated, but an operator moved on", f: facts{stored: stored(50), epochEnd: end(49), commit: &commit{offset: 30}},
			mirrorFirst: true, want: moved(50, 30)},

		{name: "back to what dedupe remembers", mirrorFirst: true, want: moved(50, 20),
			f: facts{stored: stored(50), standing: forgot, commit: &commit{offset: 20}, seekAppendedAt: day.Add(beginSkew)}},
		{name: "back to before it", stop: &report{StopForgotten, 20, 50, 20},
			f: facts{stored: stored(50), standing: forgot, commit: &commit{offset: 20}, seekAppendedAt: day.Add(beginSkew - 1)}},
		{name: "back to a record without a time", stop: &report{StopForgotten, 20, 50, 20},
			f: facts{stored: stored(50), standing: forgot, commit: &commit{offset: 20}}},
		{name: "back to before the log and dedupe", stop: &report{StopForgotten, 5, 50, 10},
			f: facts{stored: stored(50), standing: forgot, commit: &commit{offset: 5}, seekAppendedAt: day}},
		{name: "back over a ledger that has forgotten nothing", mirrorFirst: true, want: moved(50, 20),
			f: facts{stored: stored(50), commit: &commit{offset: 20}, seekAppendedAt: day}},
		{name: "forward needs no memory", mirrorFirst: true, want: moved(50, 70),
			f: facts{stored: stored(50), standing: forgot, commit: &commit{offset: 70}}},

		{name: "accepted: below the start", f: facts{stored: stored(9), standing: accepted(StopBelowStart, 9, 10, 10)}, want: by7(moved(9, 10))},
		{name: "accepted: below the start on the first claim", f: facts{begin: 9, standing: accepted(StopBelowStart, 9, 10, 10)}, want: by7(at(10))},
		{name: "accepted, and more was deleted since", f: facts{stored: stored(8), standing: accepted(StopBelowStart, 8, 9, 9)},
			stop: &report{StopBelowStart, 8, 10, 10}},
		{name: "accepted: above the end", f: facts{stored: stored(101), commit: marked(101, 101, id), standing: accepted(StopAboveEnd, 100, 101, 100)},
			mirrorFirst: true, want: by7(moved(101, 100))},
		{name: "accepted: above the end, which has grown since", f: facts{stored: stored(99), standing: accepted(StopAboveEnd, 60, 99, 60)},
			want: by7(moved(99, 60))},
		{name: "above the end stands after the log has grown over it", f: facts{stored: stored(99), standing: stands(StopAboveEnd, 60, 99, 60)},
			stop: &report{StopAboveEnd, 60, 99, 60}},
		{name: "above the end stands while the log grows", f: facts{stored: stored(120), standing: stands(StopAboveEnd, 60, 120, 60)},
			stop: &report{StopAboveEnd, 60, 120, 60}},
		{name: "above the end, and the log is shorter still", f: facts{stored: stored(120), standing: accepted(StopAboveEnd, 110, 120, 110)},
			stop: &report{StopAboveEnd, 100, 120, 100}},
		{name: "above the end, and its epoch ends lower", f: facts{stored: stored(80), epochEnd: end(40), standing: accepted(StopAboveEnd, 60, 80, 60)},
			stop: &report{StopTruncated, 40, 80, 40}},
		{name: "above the end, and an operator moved on", f: facts{stored: stored(80), standing: stands(StopAboveEnd, 60, 80, 60), commit: &commit{offset: 30}},
			mirrorFirst: true, want: moved(80, 30)},
		{name: "accepted: truncated", f: facts{stored: stored(50), epochEnd: end(49), standing: accepted(StopTruncated, 49, 50, 49)},
			want: by7(moved(50, 49))},
		{name: "accepted: truncated, and the log's start has passed the cut", f: facts{stored: stored(50), epochEnd: end(5), standing: accepted(StopTruncated, 5, 50, 5)},
			want: by7(moved(50, 10))},
		{name: "accepted: lost history runs again from the ledger", f: facts{stored: stored(50), commit: marked(70, 70, id), standing: accepted(StopHistory, 50, 70, 50)},
			mirrorFirst: true, want: by7(ledger.Start{Position: *stored(50)})},
		{name: "accepted: lost history, of which the log's start is gone", f: facts{stored: stored(5), commit: marked(70, 70, id), standing: accepted(StopHistory, 5, 70, 5)},
			mirrorFirst: true, want: by7(moved(5, 10))},
		{name: "lost history stands when its commit expires", f: facts{stored: stored(50), standing: stands(StopHistory, 50, 70, 50)},
			stop: &report{StopHistory, 50, 70, 50}},
		{name: "lost history, and an operator set the group", f: facts{stored: stored(50), commit: &commit{offset: 50}, standing: stands(StopHistory, 50, 70, 50)},
			mirrorFirst: true, want: ledger.Start{Position: *stored(50)}},
		{name: "lost history deleted from the log as well", f: facts{stored: stored(5), commit: marked(7, 7, id)}, stop: &report{StopBelowStart, 5, 10, 10}},
		{name: "accepted: a ledger that knows nothing goes on at the mirror", f: facts{begin: 90, commit: marked(20, 20, id), standing: accepted(StopHistory, 20, 20, 20)},
			mirrorFirst: true, want: by7(at(20))},
		{name: "accepted: another topic under the name", f: facts{commit: marked(50, 50, other), standing: ledger.Standing{TopicAdopted: true,
			Stop: accepted(StopRecreated, 44, 0, 0).Stop}, begin: 10}, want: by7(at(10))},
		{name: "another topic under the name, accepted before this partition had reported it", f: facts{commit: marked(50, 50, other),
			standing: ledger.Standing{TopicAdopted: true, Stop: stands(StopRecreated, 44, 0, 0).Stop}, begin: 10}, want: at(10)},
		{name: "accepted: back to before dedupe's memory", mirrorFirst: true, want: by7(moved(50, 20)), f: facts{stored: stored(50), commit: &commit{offset: 20},
			standing: ledger.Standing{Remembers: day, Stop: accepted(StopForgotten, 20, 50, 20).Stop}}},
		{name: "accepted one seek, and there is another", stop: &report{StopForgotten, 19, 50, 19}, f: facts{stored: stored(50), commit: &commit{offset: 19},
			standing: ledger.Standing{Remembers: day, Stop: accepted(StopForgotten, 20, 50, 20).Stop}}},
		{name: "accepted, and the seek was taken back", f: facts{stored: stored(50), commit: marked(50, 50, id),
			standing: ledger.Standing{Remembers: day, Stop: accepted(StopForgotten, 20, 50, 20).Stop}}, want: ledger.Start{Position: *stored(50)}},

		{name: "asked: back", f: facts{stored: stored(50), commit: marked(50, 50, id), standing: asks(20)}, mirrorFirst: true, want: moved(50, 20)},
		{name: "asked: forward, to the end", f: facts{stored: stored(50), standing: asks(100)}, mirrorFirst: true, want: moved(50, 100)},
		{name: "asked: to the log's start", f: facts{stored: stored(50), standing: asks(10)}, mirrorFirst: true, want: moved(50, 10)},
		{name: "asked: to where it is", f: facts{stored: stored(50), standing: asks(50)}, mirrorFirst: true, want: ledger.Start{Position: *stored(50)}},
		{name: "asked in the ledger counts before a commit by a tool", f: facts{stored: stored(50), commit: &commit{offset: 30}, standing: asks(20)},
			mirrorFirst: true, want: moved(50, 20)},
		{name: "asked: below the log's start", f: facts{stored: stored(50), standing: asks(9)}, stop: &report{StopBelowStart, 9, 10, 10}},
		{name: "asked: above the log's end", f: facts{stored: stored(50), standing: asks(101)}, stop: &report{StopAboveEnd, 100, 101, 100}},
		{name: "asked on the first claim", f: facts{begin: 40, standing: asks(60)}, mirrorFirst: true, want: at(60)},
		{name: "asked: back to before dedupe's memory", f: facts{stored: stored(50), seekAppendedAt: day, standing: ledger.Standing{Remembers: day, SeekRequest: asks(20).SeekRequest}},
			stop: &report{StopForgotten, 20, 50, 20}},
		{name: "asked: back to what dedupe remembers", f: facts{stored: stored(50), seekAppendedAt: day.Add(beginSkew), standing: ledger.Standing{Remembers: day, SeekRequest: asks(20).SeekRequest}},
			mirrorFirst: true, want: moved(50, 20)},
		{name: "asked: away from a deletion", f: facts{stored: stored(9), standing: asks(60)}, mirrorFirst: true, want: moved(9, 60)},
		{name: "asked: away from a deletion that was accepted", f: facts{stored: stored(9), standing: ledger.Standing{Stop: accepted(StopBelowStart, 9, 10, 10).Stop, SeekRequest: asks(60).SeekRequest}},
			mirrorFirst: true, want: moved(9, 60)},
		{name: "asked: away from where the log was cut", f: facts{stored: stored(50), epochEnd: end(49),
			standing: ledger.Standing{Stop: stands(StopTruncated, 49, 50, 49).Stop, SeekRequest: asks(30).SeekRequest}}, mirrorFirst: true, want: moved(50, 30)},
		{name: "asked: to where it is, and the log was cut there", f: facts{stored: stored(50), epochEnd: end(49), standing: asks(50)}, stop: &report{StopTruncated, 49, 50, 49}},
		{name: "asked: back, and the ledger is behind the mirror", f: facts{stored: stored(50), commit: marked(60, 60, id), standing: asks(20)}, stop: &report{StopHistory, 50, 60, 50}},
		{name: "asked: back, and that the ledger is behind the mirror could not be stored", stop: &report{StopHistory, 50, 60, 50}, f: facts{stored: stored(50), commit: marked(60, 60, id),
			standing: ledger.Standing{Stop: &ledger.Stop{Partition: here, Kind: string(StopHistory), From: 50, To: 60, Resume: 50}, SeekRequest: asks(20).SeekRequest}}},
		{name: "asked: back, and the ledger is behind the mirror, as was reported", mirrorFirst: true, want: moved(50, 20), f: facts{stored: stored(50), commit: marked(60, 60, id),
			standing: ledger.Standing{Stop: stands(StopHistory, 50, 60, 50).Stop, SeekRequest: asks(20).SeekRequest}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.f.namespace, tt.f.start, tt.f.end = testGroup, 10, 100
			tt.f.partition = here
			got, mirrorFirst, err := decideStart(tt.f)
			if tt.stop != nil {
				e, ok := errors.AsType[*StopError](err)
				if !ok || e.Stop == nil {
					t.Fatalf("got %+v, %v, want a stop for %s", got, err, tt.stop.kind)
				}
				if d := (report{e.Reason, e.Stop.From, e.Stop.To, e.Stop.Resume}); d != *tt.stop {
					t.Errorf("got %+v, want %+v", d, *tt.stop)
				}
				if !strings.Contains(e.Error(), "forebay subscriptions accept") || strings.Contains(e.Error(), seekOut) == (e.Reason == StopRecreated) {
					t.Errorf("the way out is not told: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" || mirrorFirst != tt.mirrorFirst {
				t.Errorf("mirrorFirst %v, want %v\n%s", mirrorFirst, tt.mirrorFirst, d)
			}
		})
	}
}

// Whatever is found and accepted, a start lies inside the log, moves only with a seek that says so, and is stopped at
// most as often as there is something new to accept.
func TestWhereAcceptsItsWayOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		offset := func(name string) int64 { return rapid.Int64Range(0, 30).Draw(t, name) }
		f := facts{namespace: testGroup, partition: ledger.Partition{Topic: testTopic, TopicID: ledger.TopicID{1}}, begin: offset("begin")}
		f.start = offset("start")
		f.end = f.start + offset("length")
		if rapid.Bool().Draw(t, "known") {
			f.stored = &ledger.Position{Offset: offset("stored"), LeaderEpoch: 1}
			f.standing.High = f.stored.Offset + rapid.Int64Range(0, 3).Draw(t, "high")
			if rapid.Bool().Draw(t, "epoch known") {
				end := min(offset("epoch end"), f.end)
				f.epochEnd = &end
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "commit") {
		case 1:
			f.commit = &commit{offset: offset("sought")}
		case 2, 3:
			m := marker{testGroup, 0, ledger.TopicID{byte(rapid.IntRange(1, 2).Draw(t, "incarnation"))}, offset("mirrored")}
			f.commit = &commit{m.offset, m.String()}
		}
		if rapid.Bool().Draw(t, "forgotten") {
			f.standing.Remembers = time.Unix(1000, 0)
		}
		for range 3 {
			st, _, err := decideStart(f)
			if err == nil {
				at := st.Position.Offset
				if at < f.start || at > f.end {
					t.Fatalf("starts at %d outside of [%d, %d]", at, f.start, f.end)
				}
				if f.stored != nil && (st.Seek == nil) != (at == f.stored.Offset) || f.stored == nil && st.Seek != nil {
					t.Fatalf("from %+v to %+v", f.stored, st)
				}
				return
			}
			e, ok := errors.AsType[*StopError](err)
			if !ok {
				t.Fatal(err)
			}
			if e.Stop.Same(f.standing.Stop) {
				t.Fatalf("stopped again for what was accepted: %v", err)
			}
			e.Stop.ID, e.Stop.Accepted = 7, &ledger.Acceptance{By: "ann"}
			f.standing.Stop = e.Stop
			f.standing.TopicAdopted = f.standing.TopicAdopted || e.Reason == StopRecreated
			if grown := rapid.Int64Range(0, 5).Draw(t, "grown"); e.Reason != StopAboveEnd {
				f.end += grown
			}
		}
		t.Fatalf("never goes on: %+v", f)
	})
}

func TestStopped(t *testing.T) {
	t.Parallel()
	p := ledger.Partition{Topic: testTopic}
	grown := &ledger.TopicError{Topic: testTopic, Partitions: 13, KnownPartitions: 12}
	for _, tt := range []struct {
		err  error
		want StopReason
		says string
	}{
		{errors.New("reset by peer"), "", ""},
		{schemas.Errorf(schemas.Unavailable, "claim", "the database is away"), "", ""},
		{errNotMember, "", ""},
		{schemas.Errorf(schemas.Conflict, "claim", "no"), StopRefused, "claim: no"},
		{&schemas.Error{Kind: schemas.Conflict, Err: grown}, StopPartitions, "forebay topics rekey events.acme.orders --partitions 13"},
		{&schemas.Error{Kind: schemas.Conflict, Err: &ledger.TopicError{Topic: testTopic, Known: ledger.TopicID{1}, Next: 5}}, StopRecreated,
			"from offset 5 on that were not read are lost, and so is all that was in topics of that name in between; nobody can count them"},
	} {
		e, ok := asStop(testGroup, p, tt.err)
		if ok != (tt.want != "") || ok && (e.Reason != tt.want || !strings.Contains(e.Error(), tt.says)) {
			t.Errorf("stopped(%v) = %v, %v", tt.err, e, ok)
		}
	}
}

func TestMarkerRoundTrip(t *testing.T) {
	t.Parallel()
	for _, m := range []marker{
		{"acme.triage", 0, ledger.TopicID{0xab, 15: 0xcd}, 0},
		{"a.b", math.MaxInt32, ledger.TopicID{}, math.MaxInt64},
		{"a.b", -1, ledger.TopicID{}, 7},
	} {
		if got, ok := parseMarker(m.String()); !ok || got != m {
			t.Errorf("%v came back as %v, %v", m, got, ok)
		}
	}
}

func FuzzMarker(f *testing.F) {
	f.Add(marker{"acme.triage", 3, ledger.TopicID{1, 2, 3}, 42}.String())
	f.Add("")
	f.Add("fb1:a.b:0:00000000000000000000000000000000:+1")
	f.Add("fb1:a.b:00:00000000000000000000000000000000:1")
	f.Add("fb1:a.b:0:AB000000000000000000000000000000:1")
	f.Add("fb1::0:00000000000000000000000000000000:1")
	f.Add("fb1:a.b:0:00:1")
	f.Add("fb2:a.b:0:00000000000000000000000000000000:1")
	f.Add("fb1:a.b:0:00000000000000000000000000000000:-1")
	f.Fuzz(func(t *testing.T, s string) {
		m, ok := parseMarker(s)
		if ok && m.String() != s {
			t.Errorf("%q was read as %q", s, m)
		}
		if !ok && strings.HasPrefix(s, "fb1:a.b:0:00000000000000000000000000000000:1") && len(s) == len("fb1:a.b:0:00000000000000000000000000000000:1") {
			t.Errorf("%q was not read", s)
		}
	})
}
