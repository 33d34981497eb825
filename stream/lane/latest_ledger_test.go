package lane

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// latestOnPostgres is lanes with backlog: latest on the real ledger.
func latestOnPostgres(t *testing.T) (*real, *ledger.Ledger) {
	t.Helper()
	r := onPostgres(t)
	r.stop()
	l, err := ledger.Open(t.Context(), ledger.Config{URL: schemas.NewSecret(os.Getenv("TEST_DATABASE_URL")), Schema: r.schema, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	r.ns, err = l.Namespace(t.Context(), ledger.Spec{
		Name: "acme.newest", Owner: "test", Latest: true,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: destName, OnDead: ledger.Park}},
		Policy: gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply,
			MaxPerEntity: 100, MaxBuffered: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.latest = true
	r.start()
	return r, l
}

// versions applies events of an entity, snapshots of the values, or deltas where they are negative, and hands their
// actions to the lanes.
func (r *real) versions(entity string, values ...int64) {
	r.t.Helper()
	s := ledger.Slice{Claim: r.claim, From: r.claim.Next.Offset}
	var events []*schemas.Event
	for _, v := range values {
		e := &schemas.Event{
			ID: fmt.Sprintf("%s#%d", entity, r.offset+1), Source: "/acme/orders", Type: "order", Entity: schemas.EntityKey(entity),
			Version: schemas.Version{Kind: schemas.Monotonic, Value: max(v, -v)}, Payload: schemas.Snapshot, Data: []byte(`{}`),
		}
		if v < 0 {
			e.Payload = schemas.Delta
		}
		e.Hash = schemas.HashBody(e.Data)
		events = append(events, e)
		r.log.mu.Lock()
		r.log.events[r.offset] = e
		r.log.mu.Unlock()
		s.Records = append(s.Records, ledger.Record{
			Record: gate.Record{Offset: r.offset, AppendTime: time.Now(), Key: e.Key(), Hash: e.Hash, Entity: e.Entity, Version: e.Version, Payload: e.Payload},
			Source: e.Source, ID: e.ID, Type: e.Type, ReceivedAt: time.Now(), Packed: func() []byte { return nil },
		})
		r.offset++
	}
	s.Next = ledger.Position{Offset: r.offset, LeaderEpoch: -1}
	out, err := r.ns.Apply(r.t.Context(), []ledger.Slice{s})
	if err != nil {
		r.t.Fatal(err)
	}
	var items []Item
	for _, a := range out[0].Actions {
		items = append(items, Item{Action: &a, Event: events[a.Record]})
	}
	r.Add(r.claim, items)
}

// drained waits until nothing is open.
func (r *real) drained() {
	r.t.Helper()
	for limit := time.Now().Add(patience); len(r.openActions()) > 0; {
		if time.Now().After(limit) {
			r.t.Fatalf("actions stay open: %v", r.openActions())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// An agent that is away while more versions come than the window holds gets the deltas and the newest state of each entity, over a clean
// restart and a crash.
func TestPostgresLatest(t *testing.T) {
	t.Parallel()
	r, l := latestOnPostgres(t)
	hold, called := make(chan struct{}), make(chan struct{}, 20)
	r.ends(func(a sink.Action) sink.Class {
		if a.Event.Entity == "wall" {
			called <- struct{}{}
			<-hold
		}
		return sink.ClassOK
	})
	r.versions("wall", 1)
	<-called // it is under way when the others come
	for v := range int64(15) {
		r.versions("wall", v+2)
	}
	close(hold)
	r.until(2)
	r.drained()
	same(t, "the wall", calls(r, "wall"), []string{"wall#1/1", "wall#16/1"})

	r.closeClaim()
	if err := r.ns.Release(t.Context(), r.claim); err != nil {
		t.Fatal(err)
	}
	r.stop()
	fill := func(entity string, n int64) {
		var err error
		if r.claim, err = r.nextClaim(); err != nil {
			t.Fatal(err)
		}
		for v := range n { // nobody runs them: r's lanes have been stopped
			r.versions(entity, v+1)
		}
		r.versions(entity, -(n + 1), n+2, n+3)
	}
	fill("a", 80)
	if err := r.ns.Release(t.Context(), r.claim); err != nil {
		t.Fatal(err)
	}
	r.start()
	same(t, "a clean claim", r.claim.Unclean, false)
	r.until(2)
	r.drained()
	same(t, "a delta and the newest state", calls(r, "a"), []string{"a#97/1", "a#99/1"})

	r.closeClaim()
	r.stop()
	fill("b", 80)
	r.start() // the claim of fill was not given back
	same(t, "an unclean claim", r.claim.Unclean, true)
	r.until(3)
	r.drained()
	same(t, "what may have been tried, a delta and the newest state", calls(r, "b"), []string{"b#100/1", "b#180/1", "b#182/1"})

	page, err := inbox.New(l).List(t.Context(), inbox.Query{Status: "superseded", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if want := 14 + 81 + 80; len(page.Items) != want {
		t.Errorf("%d superseded events in the inbox, not %d", len(page.Items), want)
	}
}
