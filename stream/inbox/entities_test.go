package inbox

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
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
	far, err := other.Claim(t.Context(), ledger.ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: ledgertest.Stay})
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
		{EntityQuery{Gaps: true, Waits: gate.Buffered, Since: time.Now().Add(-time.Hour)}, nil},
		{EntityQuery{Gaps: true, Waits: gate.Parked, Since: time.Now().Add(-time.Hour)}, all[4:]},
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

// TestEntitiesReadNoMoreThanAPage: beside hundreds of partitions, the windows of other subscriptions and an entity of which very many events
// are parked, each page costs what is on it, with all of its statements.
func TestEntitiesReadNoMoreThanAPage(t *testing.T) {
	t.Parallel()
	const partitions, parked = 400, 20_000
	f := setup(t)
	f.apply(f.claim(0), seq(0, "m", 1), seq(1, "m", 3))
	for n := range 8 {
		f.namespace(func(s *ledger.Spec) { s.Name = fmt.Sprint("acme.other-", n) })
	}
	f.exec(`INSERT INTO fences (subscription, topic, topic_id, partition) SELECT f.subscription, f.topic, f.topic_id, n FROM fences f, generate_series(1, $1::int - 1) n`, partitions)
	f.exec(`INSERT INTO progress (fence, next_offset, leader_epoch, high_offset) SELECT f.id, 9, 3, 9 FROM fences f WHERE f.partition > 0`)
	fences := one[[]int32](f, `SELECT array_agg(id ORDER BY partition) FROM fences`)
	f.exec(`INSERT INTO version_lines (fence, epoch, value, sub, filtered, event_key, kind, entity, clock)
		SELECT f.id, 0, 1, 0, false, md5(n::text)::uuid, 'sequence', 'e' || lpad(n::text, 9, '0'), 'issue' FROM fences f, generate_series(1, 100) n`)
	wait := func(fences []int32, entity string, events int, change string) { // as the one does that waits
		f.exec(`INSERT INTO buffer SELECT r.* FROM buffer b, unnest($1::int[]) x, generate_series(1, $3::int) n,
			jsonb_populate_record(b, jsonb_build_object('fence', x, 'log_offset', 1000 + n, 'entity', $2::text, 'clock', 'issue', 'value', 10 + n) || $4::jsonb) r WHERE b.entity = 'm'`, fences, entity, events, change)
	}
	wait(fences[1:], "e000000050", 1, `{"log_offset": 5}`)
	wait(fences[1:2], "e000000070", parked, `{"decision": "parked", "deadline": null}`)
	f.exec(`ANALYZE buffer, version_lines, fences, progress`)
	count := &counting{pool: f.slow, t: t}
	f.slow = count
	behind := func(fence int32, entity string) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", fence, entity))
	}
	for _, a := range []struct {
		name        string
		q           EntityQuery
		most        int // blocks
		first, last string
	}{
		{"entities, the first", EntityQuery{Limit: 50}, 900, "0 e000000001", "0 e000000050"},
		{"entities of the middle", EntityQuery{Limit: 50, Cursor: behind(fences[200], "e000000090")}, 900, "200 e000000091", "201 e000000040"},
		{"the last entities", EntityQuery{Limit: 50, Cursor: behind(fences[partitions-1], "e000000060")}, 900, "399 e000000061", "399 e000000100"},
		{"entities with the one", EntityQuery{Limit: 50, Cursor: behind(fences[1], "e000000060")}, 900, "1 e000000061", "2 e000000010"},
		{"gaps, the first", EntityQuery{Gaps: true, Limit: 50}, 1500, "0 m", "48 e000000050"},
		{"gaps of the middle", EntityQuery{Gaps: true, Limit: 50, Cursor: behind(fences[200], "")}, 1500, "200 e000000050", "249 e000000050"},
		{"the last gaps", EntityQuery{Gaps: true, Limit: 50, Cursor: behind(fences[partitions-9], "")}, 400, "391 e000000050", "399 e000000050"},
		{"the one", EntityQuery{Gaps: true, Limit: 1, Cursor: behind(fences[1], "e000000050")}, 200, "1 e000000070", "1 e000000070"},
		{"behind the one", EntityQuery{Gaps: true, Limit: 1, Cursor: behind(fences[1], "e000000070")}, 100, "2 e000000050", "2 e000000050"},
		{"parked", EntityQuery{Gaps: true, Waits: gate.Parked, Limit: 1, Cursor: behind(fences[1], "")}, 2000, "1 e000000070", "1 e000000070"},
		{"buffered", EntityQuery{Gaps: true, Waits: gate.Buffered, Limit: 2, Cursor: behind(fences[1], "")}, 100, "1 e000000050", "2 e000000050"},
	} {
		count.blocks, count.plans = 0, nil
		list, _, err := f.Entities(t.Context(), a.q)
		t.Logf("%s: %d entities, %d blocks in %d statements", a.name, len(list), count.blocks, len(count.plans))
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %d entities: %v", a.name, len(list), err)
		}
		at := func(e *ListedEntity) string { return fmt.Sprintf("%d %s", e.Partition, e.Entity) }
		if first, last := at(&list[0]), at(&list[len(list)-1]); first != a.first || last != a.last || count.blocks > a.most {
			t.Errorf("%s: %s to %s, %d blocks read\n%s", a.name, first, last, count.blocks, strings.Join(count.plans, "\n"))
		}
		for i := range list {
			e := &list[i]
			exact, atLeast := e.Counts()
			if len(e.Lines) != 1 {
				t.Errorf("%s: %s has lines %v", a.name, at(e), e.Lines)
				continue
			}
			waiting := e.Lines[0].Waiting
			switch {
			case e.Partition == 1 && e.Entity == "e000000070":
				if exact != nil || atLeast == nil || *atLeast != waitingReads || len(waiting) != waitingReads || waiting[0] != 11 || waiting[waitingReads-1] != 10+waitingReads || e.First.Until != nil {
					t.Errorf("%s: %v %v of %s wait, values %v", a.name, exact, atLeast, at(e), waiting)
				}
			case exact == nil || int(*exact) != len(waiting) || a.q.Gaps && *exact != 1:
				t.Errorf("%s: %v %v of %s wait, values %v", a.name, exact, atLeast, at(e), waiting)
			}
		}
	}
}
