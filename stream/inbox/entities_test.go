package inbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// listed returns the entities of all pages, and that no page has more than it may.
func (f *fixture) entities(q EntityQuery) (list []ListedEntity) {
	f.t.Helper()
	for {
		page, next, err := f.Entities(f.t.Context(), q)
		if err != nil || len(page) > q.Limit || next != "" && len(page) < q.Limit {
			f.t.Fatalf("a page of %d, next %q: %v", len(page), next, err)
		}
		list = append(list, page...)
		if q.Cursor = next; next == "" {
			return list
		}
	}
}

func keysOf(list []ListedEntity) (keys []string) {
	for _, e := range list {
		keys = append(keys, fmt.Sprintf("%s.%s %d %s", e.Team, e.Subscription, e.Partition, e.Entity))
	}
	return keys
}

// Whatever the pages' size, each entity is listed once, with where it stands and what waits of it.
func TestEntitiesAreListed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "b", 1), seq(1, "a", 1), seq(2, "a", 4), seq(3, "a", 5), seq(4, "c", 7), seq(5, "b", 2))
	f.apply(f.claim(2), seq(0, "a", 3))
	other := f.namespace(func(s *ledger.Spec) { s.Name, s.Policy.Then, s.Policy.GapWait = "pay.charge", gate.ThenPark, time.Hour })
	far, err := other.Claim(t.Context(), ledger.ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Apply(t.Context(), []ledger.Slice{slice(far, seq(0, "z/1", 1), seq(1, "z/1", 3))}); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE buffer SET decision = 'parked', deadline = NULL WHERE entity = 'z/1'`)
	f.exec(`UPDATE buffer SET buffered_at = now() - interval '1 day' WHERE entity = 'a'`)
	all := []string{"acme.triage 0 a", "acme.triage 0 b", "acme.triage 0 c", "acme.triage 2 a", "pay.charge 0 z/1"}
	for limit := 1; limit < 7; limit++ {
		if got := keysOf(f.entities(EntityQuery{Limit: limit})); !slices.Equal(got, all) {
			t.Errorf("in pages of %d: %v", limit, got)
		}
	}
	for _, tt := range []struct {
		q    EntityQuery
		want []string
	}{
		{EntityQuery{Team: "pay"}, all[4:]},
		{EntityQuery{Team: "acme", Subscription: "triage"}, all[:4]},
		{EntityQuery{Subscription: "none"}, nil},
		{EntityQuery{Topics: []string{"events.acme.github"}}, all},
		{EntityQuery{Topics: []string{"events.acme.orders"}}, nil},
		{EntityQuery{Gaps: true}, []string{all[0], all[4]}},
		{EntityQuery{Gaps: true, Waits: gate.Buffered}, all[:1]},
		{EntityQuery{Gaps: true, Waits: gate.Parked}, all[4:]},
		{EntityQuery{Gaps: true, Since: time.Now().Add(-time.Hour)}, all[4:]},
		{EntityQuery{Gaps: true, Team: "none"}, nil},
	} {
		tt.q.Limit = 1
		if got := keysOf(f.entities(tt.q)); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.q, got, tt.want)
		}
	}
	gaps := f.entities(EntityQuery{Gaps: true, Limit: 9})
	if a := gaps[0]; a.Waiting != 2 || a.First.Until == nil || a.First.Held || len(a.Lines) != 1 || a.Lines[0].At.Value != 1 || !slices.Equal(a.Lines[0].Missing(0), []gate.Span{{From: 2, To: 3}}) {
		t.Errorf("%+v", a)
	}
	if z := gaps[1]; z.Waiting != 1 || z.First.Until != nil || z.First.Held || time.Since(z.First.Since) > time.Hour {
		t.Errorf("%+v", z)
	}
	if b := f.entities(EntityQuery{Limit: 9})[1]; b.Waiting != 0 || len(b.Lines) != 1 || b.Lines[0].At.Value != 2 {
		t.Errorf("%+v", b)
	}
	for _, cursor := range []string{"x", "MQ", "MSBhAA"} { // no base64; 1; 1 a NUL
		if _, _, err := f.Entities(t.Context(), EntityQuery{Limit: 1, Cursor: cursor}); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("cursor %s: %v", cursor, err)
		}
	}
}

// A page costs the same wherever it begins, and however many entities there are.
func TestEntitiesPageByKey(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for n := range int32(4) {
		f.apply(f.claim(n), seq(0, "m", 1))
	}
	f.exec(`INSERT INTO version_lines (fence, epoch, value, sub, filtered, event_key, kind, entity, clock)
		SELECT f.id, 0, 1, 0, false, md5(n::text)::uuid, 'sequence', 'e' || lpad(n::text, 9, '0'), 'issue' FROM fences f, generate_series(1, 20000) n`)
	f.exec(`ANALYZE version_lines, fences, buffer, subscriptions`)
	cost := func(fence int32, entity string) (blocks int) {
		sql, args := EntityQuery{Limit: 50}.sql(fence, entity)
		var plan []struct{ Plan map[string]any }
		if err := f.eye.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		return int(plan[0].Plan["Shared Hit Blocks"].(float64) + plan[0].Plan["Shared Read Blocks"].(float64))
	}
	var fences []int32
	if err := f.eye.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY id) FROM fences`).Scan(&fences); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		fence  int32
		entity string
	}{{0, ""}, {fences[0], "e000010000"}, {fences[3], "e000019900"}} {
		if n := cost(at.fence, at.entity); n > 60 {
			t.Errorf("behind %s of partition %d: %d blocks of 80,000 entities", at.entity, at.fence, n)
		}
	}
}
