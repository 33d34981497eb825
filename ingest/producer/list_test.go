package producer

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

func TestQuarantineAndList(t *testing.T) {
	t.Parallel()
	p, cluster := setup(t, nil)
	base := time.Date(2026, 7, 1, 0, 0, 0, 5, time.UTC)
	var want []Item
	for i := range 9 {
		d := ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Reason: "missing_field", Detail: "/id", Method: "POST", URL: "https://h/x?a=b", Secret: 2,
			Headers: []schemas.Header{{Name: "x-signature", Value: "sha256=\xff"}}, Body: bytes.Repeat([]byte{byte(i), 0xff}, i), Received: base.Add(time.Duration(i) * time.Hour)}
		if err := p.Quarantine(t.Context(), never, aside, &d); err != nil {
			t.Fatal(err)
		}
		want = append([]Item{{Bytes: len(d.Body), Delivery: d}}, want...)
	}
	opts := kgo.SeedBrokers(cluster.ListenAddrs()...)
	check := func(q Query, want []Item) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q.Topic = aside
		got, err := List(ctx, q, opts)
		if err != nil {
			t.Error(err)
			return
		}
		got, want = append([]Item{}, got...), append([]Item{}, want...)
		for i := range got {
			if got[i].Body != nil || got[i].Headers != nil {
				t.Errorf("%d of the list has a body or headers", i)
			}
			one, err := ReadOne(ctx, aside, got[i].Partition, got[i].Offset, opts)
			if err != nil {
				t.Error(err)
				return
			}
			got[i].Partition, got[i].Offset, got[i].Body, got[i].Headers = 0, 0, one.Body, one.Headers
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(Query{Limit: 100}, want)
	check(Query{Limit: 9}, want)
	check(Query{Limit: 3}, want[:3])
	var paged []time.Time
	for q := (Query{Topic: aside, Limit: 2, Before: map[int32]int64{}}); ; {
		page, err := List(t.Context(), q, opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, i := range page {
			paged, q.Before[i.Partition] = append(paged, i.Received), i.Offset
		}
	}
	if !slices.EqualFunc(paged, want, func(at time.Time, i Item) bool { return at.Equal(i.Received) }) {
		t.Errorf("in pages: %v", paged)
	}
	for _, limit := range []int{0, -1, MaxList + 1} {
		if _, err := List(t.Context(), Query{Topic: aside, Limit: limit}, opts); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if _, err := List(t.Context(), Query{Topic: "quarantine.acme.none", Limit: 1}, opts); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("no such topic: %v", err)
	}
	if got, err := List(t.Context(), Query{Topic: topic, Limit: 1}, opts); err != nil || len(got) != 0 {
		t.Errorf("an empty topic: %v, %v", got, err)
	}
	cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := List(ctx, Query{Topic: aside, Limit: 1}, opts); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("no broker: %v", err)
	}
}

// A stretch leaves what is asked for alone: of those that wait no marked ones, and no marks of deliveries that were read.
func TestListKeepsNothingThatIsDealtWith(t *testing.T) {
	t.Parallel()
	delivered := func(offset int64) *kgo.Record {
		r := (*Producer)(nil).QuarantineRecord(aside, &ingest.Delivery{Headers: []schemas.Header{{Name: "x-event-id", Value: "7"}}, Body: []byte("x")})
		r.Offset = offset
		return r
	}
	marks := func(offset, of int64) *kgo.Record {
		r := markRecord(of, Redriven{At: time.Unix(1_800_000_000+offset, 0), By: "me"})
		r.Offset = offset
		return r
	}
	for _, waiting := range []bool{false, true} {
		l := listing{Query: Query{Waiting: waiting}, marks: map[[2]int64]Redriven{}}
		for _, r := range []*kgo.Record{delivered(10), delivered(11), marks(12, 10), marks(13, 10), marks(14, 3)} {
			l.add(r)
		}
		want := []Item{{Offset: 10, Redriven: &Redriven{At: time.Unix(1_800_000_013, 0), By: "me"}}, {Offset: 11}}
		if waiting {
			want = want[1:]
		}
		if counts := l.endStretch(map[int32]span{0: {10, 15}}); counts[0] != len(want) || len(l.items) != len(want) || len(l.marks) != 1 {
			t.Fatalf("waiting: %v: counts %v of %+v, marks %v", waiting, counts, l.items, l.marks)
		}
		for n, i := range l.items {
			if i.Offset != want[n].Offset || i.Headers != nil || !cmp.Equal(i.Redriven, want[n].Redriven) {
				t.Errorf("waiting: %v, %d: %+v, want %+v", waiting, n, i, want[n])
			}
		}
		l.add(delivered(3))
		if counts := l.endStretch(map[int32]span{0: {0, 10}}); waiting && counts[0] != 1 || !waiting && (counts[0] != 3 || l.items[2].Redriven == nil) || len(l.marks) != 0 {
			t.Errorf("waiting: %v, the stretch before: counts %v of %+v, marks %v", waiting, counts, l.items, l.marks)
		}
	}
}

// Each list keeps its order, although its times go back and forth: its next item counts.
func TestMerge(t *testing.T) {
	t.Parallel()
	at := func(i *int) time.Time { return time.Unix(int64(*i), 0) }
	lists := [][]int{{5, 9, 1}, {}, {7, 6}}
	if got := Merge(lists, 4, at); !slices.Equal(got, []int{7, 6, 5, 9}) {
		t.Errorf("%v", got)
	}
	if got := Merge(lists, 9, at); !slices.Equal(got, []int{7, 6, 5, 9, 1}) {
		t.Errorf("%v", got)
	}
}
