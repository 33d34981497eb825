package lane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/sink"
)

// real is lanes on the real ledger, for what only that does: commands, statements in its transaction, what it refuses. That lanes on a ledger keep
// the promises is the simulation's to show, and that the one in memory there is what Postgres is the conformance suite's.
type real struct {
	*Lanes
	t        *testing.T
	l        *ledger.Ledger
	ns       *ledger.Namespace
	sink     *script
	log      *eventLog
	claim    *ledger.Claim
	offset   int64
	stop     func()
	result   chan string          // "<event> <class>" of each attempt
	fenced   chan *ledger.Claim   // those for which OnFenced was called
	shape    func(*schemas.Event) // of what is fed; nil: as it is
	schema   string
	inLedger bool                           // the sink is one whose actions are statements in the ledger's database
	retry    sink.RetryPolicy               // zero: quick
	wrap     func(*ledger.Namespace) Ledger // what the lanes see of it; nil: it
}

var topic = ledger.Partition{Topic: "events.acme.orders", TopicID: ledger.TopicID{7}}

var triage = ledger.Spec{
	Name: "acme.triage", Owner: "test",
	Actions: []ledger.ActionSpec{{Name: "run", Destination: destName, OnDead: ledger.Park}},
	Policy: gate.Policy{Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip,
		MaxPerEntity: 100, MaxBuffered: 1000},
}

func onPostgres(t *testing.T) *real {
	t.Helper()
	l, cfg := ledgertest.Open(t)
	ns, err := l.Namespace(t.Context(), triage)
	if err != nil {
		t.Fatal(err)
	}
	r := &real{
		t: t, l: l, ns: ns, sink: &script{begun: make(chan struct{}, 1)}, log: &eventLog{events: map[int64]*schemas.Event{}}, result: make(chan string, 10_000), fenced: make(chan *ledger.Claim, 100), schema: cfg.Schema,
	}
	r.start()
	return r
}

// start makes new lanes, claims and opens: a start of the process, or a restart.
func (r *real) start() {
	r.t.Helper()
	var to sink.Sink = r.sink
	if r.inLedger {
		to = inLedger{r.sink}
	}
	var seen Ledger = r.ns
	if r.wrap != nil {
		seen = r.wrap(r.ns)
	}
	if r.retry == (sink.RetryPolicy{}) {
		r.retry = sink.RetryPolicy{Min: time.Millisecond, Max: 20 * time.Millisecond}
	}
	l, err := New(Config{
		Subscription: "acme.triage", Ledger: seen, Payloads: r.log, Codec: jsonCodec, MaxOpen: 64, LaneWindow: 8, MaxInFlight: 16,
		Destinations: map[string]DestinationConfig{destName: {
			Sink: to, Timeout: time.Second, Concurrency: 16, Retry: r.retry,
		}},
		Alive:    func() bool { return true },
		OnFenced: func(c *ledger.Claim) { r.fenced <- c },
		Later:    func(ledger.AttemptRef, schemas.ActionID, trace.Place) sink.Later { return sink.Later{} },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Lanes = l
	checked(r.t, l)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended })
	r.t.Cleanup(r.stop)
	if r.claim, err = r.nextClaim(); err != nil {
		r.t.Fatal(err)
	}
	if err := l.Open(r.t.Context(), r.claim); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) nextClaim() (*ledger.Claim, error) {
	return r.ns.Claim(r.t.Context(), ledger.ClaimRequest{Partition: topic, Partitions: 1,
		Confirm: func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
			if stored != nil {
				return ledger.Start{Position: *stored}, nil
			}
			return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}}, nil
		},
	})
}

// feed applies one batch of events of these entities and adds its actions, one each.
func (r *real) feed(entities ...string) {
	r.t.Helper()
	items := r.apply(entities...)
	if len(items) != len(entities) {
		r.t.Fatalf("%d actions of %d events", len(items), len(entities))
	}
	r.Add(r.claim, items)
}

// apply applies one batch of events of these entities and gives its actions.
func (r *real) apply(entities ...string) []Item {
	r.t.Helper()
	s := ledger.Slice{Claim: r.claim, From: r.claim.Next.Offset}
	var events []*schemas.Event
	for _, name := range entities {
		e := &schemas.Event{
			ID: fmt.Sprintf("%s#%d", name, r.offset+1), Source: "/acme/orders", Type: "order", Entity: schemas.EntityKey(name),
			Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Snapshot, Data: []byte(`{}`),
		}
		if r.shape != nil {
			r.shape(e)
		}
		e.Hash = schemas.HashBody(e.Data)
		events = append(events, e)
		r.log.mu.Lock()
		r.log.events[r.offset] = e
		r.log.mu.Unlock()
		s.Records = append(s.Records, ledger.Record{
			Record: gate.Record{Offset: r.offset, AppendTime: time.Now(), Key: e.Key(), Hash: e.Hash, Entity: e.Entity,
				Version: e.Version, Payload: e.Payload},
			Source: e.Source, ID: e.ID, Type: e.Type, ReceivedAt: time.Now(), Packed: func() []byte { return nil },
		})
		r.offset++
	}
	s.Next = ledger.Position{Offset: r.offset, LeaderEpoch: -1}
	out, err := r.ns.Apply(r.t.Context(), []ledger.Slice{s})
	if err != nil {
		r.t.Fatal(err)
	}
	items := make([]Item, 0, len(entities))
	for _, a := range out[0].Actions {
		items = append(items, Item{Action: &a, Event: events[a.Record]})
	}
	return items
}

// open are the open actions as the ledger has them: "<event> <status> <attempts>".
func (r *real) openActions() (out []string) {
	r.t.Helper()
	actions, _, err := r.ns.Open(r.t.Context(), r.claim, 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range actions {
		out = append(out, fmt.Sprintf("%s %s %d", a.EventID, a.Status, a.Attempts))
	}
	return out
}

// closeClaim closes the claim, which waits for what is in flight, and so is the signal that results are recorded.
func (r *real) closeClaim() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.Close(ctx, r.claim); err != nil {
		r.t.Fatal(err)
	}
}

// until waits for n attempts.
func (r *real) until(n int) {
	r.t.Helper()
	for range n {
		select {
		case <-r.result:
		case <-time.After(patience):
			r.t.Fatal("attempts are missing")
		}
	}
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// untilCalled waits until n attempts for an entity have begun.
func (r *real) untilCalled(entity schemas.EntityKey, n int) {
	r.t.Helper()
	for limit := time.After(patience); len(calls(r, entity)) < n; {
		select {
		case <-r.sink.begun:
		case <-limit:
			r.t.Fatalf("attempts for %s: %v, want %d", entity, calls(r, entity), n)
		}
	}
}

func (r *real) ends(end func(a sink.Action) sink.Class) {
	r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
		class := end(a)
		r.result <- a.Event.ID + " " + string(class)
		if class == sink.ClassOK {
			return sink.Outcome{Code: 200, Response: []byte("ok\x00")}, nil
		}
		return sink.Outcome{Code: 500}, &sink.AttemptError{Class: class, Err: errors.New("bad \x00 text \xff")}
	}
}

func calls(r *real, entity schemas.EntityKey) (out []string) {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, a := range r.sink.calls {
		if a.Event.Entity == entity {
			out = append(out, fmt.Sprintf("%s/%d", a.Event.ID, a.Attempt))
		}
	}
	return out
}

func TestPostgresUnsafeIsMarked(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.sink.kind = sink.Unsafe
	r.ends(func(a sink.Action) sink.Class {
		if got := r.openActions()[0]; got != a.Event.ID+" unknown 1" {
			t.Errorf("called while the ledger says %q", got)
		}
		if a.Event.Entity == "n" {
			return sink.ClassNetwork
		}
		return sink.ClassOK
	})
	r.feed("g")
	r.until(1)
	r.reopenClaim()
	same(t, "done", len(r.openActions()), 0)
	r.feed("n", "n")
	r.until(1)
	r.reopenClaim()
	same(t, "unknown is parked", r.openActions(), []string{"n#2 unknown 1", "n#3 pending 0"})
	r.feed("n")
	r.closeClaim()
	same(t, "never retried by itself", len(calls(r, "n")), 1)
	for event, want := range map[string]string{"g#1": "1 done  200 ok\x00", "n#2": "1 unknown network 500 "} {
		item, err := inbox.New(r.l).Item(t.Context(), "acme", "triage", "/acme/orders", event)
		if err != nil || len(item.Actions) != 1 {
			t.Fatal(item, err)
		}
		var kept []string
		for _, h := range item.Actions[0].History {
			kept = append(kept, fmt.Sprint(h.Attempt, " ", h.Status, " ", h.Class, " ", h.Code, " ", string(h.Response)))
		}
		same(t, "attempts of "+event, kept, []string{want})
	}
}

// reopenClaim closes the claim, gives it back and takes it again.
func (r *real) reopenClaim() {
	r.t.Helper()
	r.closeClaim()
	if err := r.ns.Release(r.t.Context(), r.claim); err != nil {
		r.t.Fatal(err)
	}
	r.stop()
	r.start()
}

// TestPostgresRefusesResults: results that the database refuses for what is in them are tried again, each alone, and keep none of the
// others waiting, those that come later included. Once the database takes them, their entities go on.
func TestPostgresRefusesResults(t *testing.T) {
	t.Parallel()
	r, record := onPostgres(t), make(chan int, 1000)
	r.stop()
	r.wrap = func(ns *ledger.Namespace) Ledger { return &counted{ns, record} }
	r.start()
	db, err := pgx.Connect(t.Context(), os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	alter := func(what string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), "ALTER TABLE "+r.schema+".actions "+what); err != nil {
			t.Fatal(err)
		}
	}
	alter("ADD CONSTRAINT poison CHECK (error NOT LIKE '%poison%')")
	var poisoned atomic.Int64
	r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
		if strings.HasPrefix(string(a.Event.Entity), "poison") && a.Attempt == 1 {
			poisoned.Add(1)
			return sink.Outcome{Code: 500}, &sink.AttemptError{Class: sink.ClassBusy, Err: errors.New("poison")}
		}
		r.result <- a.Event.ID
		return sink.Outcome{Code: 200}, nil
	}
	const poison = 20
	var entities []string
	for e := range 60 {
		entities = append(entities, fmt.Sprint("e", e))
		if e < poison {
			entities = append(entities, fmt.Sprint("poison", e), fmt.Sprint("poison", e))
		}
	}
	r.feed(entities...)
	r.until(60)
	recorded := func(n int) {
		t.Helper()
		for timeout := time.After(patience); n > 0; {
			select {
			case some := <-record:
				n -= some
			case <-timeout:
				t.Fatalf("%d results are not recorded", n)
			}
		}
	}
	recorded(60)
	for range 3 { // none of these waits for the poison, which is not taken before the end
		r.feed("e1", "e2", "e3")
		r.until(3)
		recorded(3)
	}
	if poisoned.Load() != poison {
		t.Errorf("poison was attempted %d times, before its results were recorded", poisoned.Load())
	}
	alter("DROP CONSTRAINT poison")
	r.until(2 * poison)
}

// counted says how many results each Record has written.
type counted struct {
	*ledger.Namespace
	record chan<- int
}

func (c *counted) Record(ctx context.Context, results []ledger.Result) (map[int32]bool, error) {
	fenced, err := c.Namespace.Record(ctx, results)
	if err == nil {
		c.record <- len(results)
	}
	return fenced, err
}
