package stream

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

func TestWhere(t *testing.T) {
	t.Parallel()
	id, other := ledger.TopicID{1}, ledger.TopicID{2}
	stored := func(at int64) *ledger.Position { return &ledger.Position{Offset: at, LeaderEpoch: 3} }
	marked := func(at, says int64, of ledger.TopicID) *commit {
		return &commit{at, marker{testGroup, 0, of, says}.String()}
	}
	end := func(at int64) *int64 { return &at }
	for _, tt := range []struct {
		name   string
		f      facts
		want   ledger.Start
		settle bool
		stop   StopReason
	}{
		{name: "first claim begins where the subscription does", f: facts{begin: 40},
			want: ledger.Start{Position: ledger.Position{Offset: 40, LeaderEpoch: -1}}},
		{name: "no commit is not a seek", f: facts{stored: stored(50)}, want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror behind the ledger", f: facts{stored: stored(50), commit: marked(45, 45, id)},
			want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror at the ledger", f: facts{stored: stored(50), commit: marked(50, 50, id)},
			want: ledger.Start{Position: *stored(50)}},
		{name: "our mirror ahead of the ledger", f: facts{stored: stored(50), commit: marked(51, 51, id)}, stop: StopHistory},
		{name: "our mirror, and the ledger knows nothing", f: facts{commit: marked(5, 5, id)}, stop: StopHistory},
		{name: "our mirror of another incarnation", f: facts{stored: stored(50), commit: marked(50, 50, other)}, stop: StopRecreated},
		{name: "seek back", f: facts{stored: stored(50), commit: &commit{offset: 20}}, settle: true,
			want: ledger.Start{Position: ledger.Position{Offset: 20, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 20}}},
		{name: "seek forward", f: facts{stored: stored(50), commit: &commit{offset: 70}}, settle: true,
			want: ledger.Start{Position: ledger.Position{Offset: 70, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 70}}},
		{name: "seek by a tool that keeps the metadata", f: facts{stored: stored(50), commit: marked(20, 50, id)}, settle: true,
			want: ledger.Start{Position: ledger.Position{Offset: 20, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 20}}},
		{name: "commit copied from another group", settle: true,
			f:    facts{stored: stored(50), commit: &commit{20, marker{"acme.other", 0, id, 20}.String()}},
			want: ledger.Start{Position: ledger.Position{Offset: 20, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 20}}},
		{name: "commit of another generation", settle: true,
			f:    facts{stored: stored(50), commit: &commit{20, marker{testGroup, 7, id, 20}.String()}},
			want: ledger.Start{Position: ledger.Position{Offset: 20, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 20}}},
		{name: "reset to where we are: nothing moved, but not our mirror", f: facts{stored: stored(50), commit: &commit{offset: 50}},
			settle: true, want: ledger.Start{Position: *stored(50)}},
		{name: "commit before the first claim", f: facts{begin: 40, commit: &commit{offset: 60}}, settle: true,
			want: ledger.Start{Position: ledger.Position{Offset: 60, LeaderEpoch: -1}}},
		{name: "at the log's start", f: facts{stored: stored(10)}, want: ledger.Start{Position: *stored(10)}},
		{name: "at the log's end", f: facts{stored: stored(100)}, want: ledger.Start{Position: *stored(100)}},
		{name: "below the log's start", f: facts{stored: stored(9)}, stop: StopBelowStart},
		{name: "above the log's end", f: facts{stored: stored(101)}, stop: StopAboveEnd},
		{name: "begin below the log's start", f: facts{begin: 9}, stop: StopBelowStart},
		{name: "seek below the log's start", f: facts{stored: stored(50), commit: &commit{offset: 9}}, stop: StopBelowStart},
		{name: "seek above the log's end", f: facts{stored: stored(50), commit: &commit{offset: 101}}, stop: StopAboveEnd},
		{name: "epoch ends at the position", f: facts{stored: stored(50), epochEnd: end(50)}, want: ledger.Start{Position: *stored(50)}},
		{name: "truncated and regrown", f: facts{stored: stored(50), epochEnd: end(49)}, stop: StopTruncated},
		{name: "truncated, but an operator moved on", f: facts{stored: stored(50), epochEnd: end(49), commit: &commit{offset: 30}},
			settle: true, want: ledger.Start{Position: ledger.Position{Offset: 30, LeaderEpoch: -1}, Seek: &ledger.Seek{From: 50, To: 30}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.f.namespace, tt.f.start, tt.f.end = testGroup, 10, 100
			tt.f.partition = ledger.Partition{Topic: testTopic, TopicID: id}
			got, settle, err := where(tt.f)
			if tt.stop != "" {
				e, ok := errors.AsType[*StopError](err)
				if !ok || e.Reason != tt.stop || !strings.Contains(e.Error(), wayOut) {
					t.Fatalf("got %v, want a stop for %s with the way out", err, tt.stop)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" || settle != tt.settle {
				t.Errorf("settle %v, want %v\n%s", settle, tt.settle, d)
			}
		})
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	p := ledger.Partition{Topic: testTopic}
	for _, tt := range []struct {
		err  error
		want StopReason
	}{
		{errors.New("reset by peer"), ""},
		{schemas.Errorf(schemas.Unavailable, "claim", "the database is away"), ""},
		{errNotMember, ""},
		{schemas.Errorf(schemas.Conflict, "claim", "13 partitions, recorded 12"), StopRefused},
		{fmt.Errorf("claim: %w", stop(p, StopTruncated, "cut")), StopTruncated},
	} {
		e, ok := stopped(p, tt.err)
		if ok != (tt.want != "") || ok && (e.Reason != tt.want || !errors.Is(tt.err, e.Err) && e.Err != tt.err) {
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
