package lane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a ledger in memory: rows by claim id (fence row) and lane_seq. It is the double of the lane tests; those of
// commands and statements run on Postgres, and it refuses both. What destinations report later is in memory_long_test.go.
type memory struct {
	mu      sync.Mutex
	rows    map[int32]map[int64]*row
	fenced  map[*ledger.Claim]bool
	opens   int
	gave    int               // rows, by Open
	records [][]ledger.Result // every group that was written
	// before runs before a Record is looked at; an error fails it, with nothing written.
	before func(ctx context.Context, results []ledger.Result) error
	onOpen func(after int64, limit int) error
	// Of what is processing, by attempt: what was reported and is not applied, and what came of what was.
	reported []ledger.OpenReport
	outcomes map[ledger.AttemptRef]string
	failLong error // of what is read of it
	reads    int   // of reports
	// The next report to be ended is not late any more, and is again the next time.
	leaveOpen bool
}

// row is an action with when its retry is due, by the double's clock.
type row struct {
	ledger.Action
	due     time.Time
	guarded bool
	// Of one that is processing: when its result is due, and when it last gave a sign of life.
	until, beat time.Time
}

func newMemory() *memory {
	return &memory{rows: map[int32]map[int64]*row{}, fenced: map[*ledger.Claim]bool{}, outcomes: map[ledger.AttemptRef]string{}}
}

func (m *memory) put(actions ...ledger.Action) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range actions {
		if m.rows[a.Claim] == nil {
			m.rows[a.Claim] = map[int64]*row{}
		}
		if a.Status == "" {
			a.Status = ledger.Pending
		}
		m.rows[a.Claim][a.LaneSeq] = &row{Action: a}
	}
}

// given is how many actions Open has given.
func (m *memory) given() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gave
}

func (m *memory) Open(ctx context.Context, c *ledger.Claim, after int64, limit int) ([]ledger.Action, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if limit < 1 {
		return nil, false, schemas.Errorf(schemas.Invalid, "read open actions", "limit %d", limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens++
	if m.onOpen != nil {
		if err := m.onOpen(after, limit); err != nil {
			return nil, false, err
		}
	}
	var out []ledger.Action
	defer func() { m.gave += len(out) }()
	for _, seq := range slices.Sorted(maps.Keys(m.rows[c.ID])) {
		r := m.rows[c.ID][seq]
		if seq <= after || !r.open() {
			continue
		}
		if len(out) == limit {
			return out, true, nil
		}
		a := r.Action
		a.NextIn = max(0, time.Until(r.due))
		if r.due.IsZero() {
			a.NextIn = 0
		}
		if a.Status == ledger.Processing {
			a.NextIn, a.Left, a.SilenceLeft = 0, max(0, time.Until(r.until)), r.silenceLeft()
		}
		out = append(out, a)
	}
	return out, false, nil
}

func (r *row) open() bool {
	return !r.Status.Closed() && !(r.Status == ledger.Dead && r.OnDead == ledger.Continue && !r.guarded)
}

// Record writes all results or none, and refuses what the ledger refuses. What is done stays done; that is no error.
func (m *memory) Record(ctx context.Context, results []ledger.Result) (map[int32]bool, error) {
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		if err := before(ctx, results); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ledgertest.CheckResults(results); err != nil {
		return nil, err
	}
	for _, res := range results {
		r := m.rows[res.Claim.ID][res.LaneSeq]
		switch {
		case r == nil:
			return nil, schemas.Errorf(schemas.Internal, "record results", "no action %d", res.LaneSeq)
		case m.fenced[res.Claim], done(r):
		case res.Status == ledger.Superseded && r.Attempts > 0 && res.Class != sink.Newer:
			return nil, schemas.Errorf(schemas.Internal, "record results", "action %d is superseded after %d attempts", res.LaneSeq, r.Attempts)
		}
	}
	fenced := map[int32]bool{}
	for _, res := range results {
		if m.fenced[res.Claim] {
			fenced[res.Claim.ID] = true
			continue
		}
		if r := m.rows[res.Claim.ID][res.LaneSeq]; !done(r) {
			r.record(res)
		}
		if res.Reported {
			m.endReport(ledger.AttemptRef{Fence: res.Claim.ID, LaneSeq: res.LaneSeq, Attempt: res.Attempt, Epoch: cmp.Or(res.Epoch, res.Claim.Epoch)}, "applied")
		}
	}
	m.records = append(m.records, slices.Clone(results))
	return fenced, nil
}

// done says that no result changes an action any more.
func done(r *row) bool {
	return slices.Contains([]ledger.Status{ledger.Done, ledger.Superseded, ledger.Skipped, ledger.Dropped, ledger.Denied}, r.Status)
}

func (r *row) record(res ledger.Result) {
	r.Status, r.guarded, r.CancelURL, r.Newer = res.Status, res.Guarded, res.CancelURL, false
	if res.Attempt > r.Attempts {
		r.Attempts, r.AttemptEpoch = res.Attempt, cmp.Or(res.Epoch, res.Claim.Epoch)
	}
	r.Spent = max(r.Spent, res.Spent)
	if r.Replay != nil && res.Attempt > 0 && res.Status != ledger.Processing {
		again := *r.Replay
		again.Tried, r.Replay = true, &again
	}
	if r.DoubtEnd.IsZero() {
		r.DoubtEnd = res.DoubtEnd
	}
	if r.FirstAt.IsZero() && res.Attempt > 0 {
		if r.FirstAt = time.Now().Add(-res.Latency); !res.Began.IsZero() {
			r.FirstAt = res.Began
		}
	}
	r.due = time.Now().Add(res.NextIn)
	r.until, r.beat, r.Silence = time.Now().Add(res.Left), time.Now(), res.Silence
	if res.Packed != nil && !r.HasCopy {
		r.Packed, r.HasCopy = slices.Clone(res.Packed), true
	}
}

func (m *memory) status(c *ledger.Claim, seq int64) ledger.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[c.ID][seq].Status
}

func (m *memory) action(c *ledger.Claim, seq int64) ledger.Action {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[c.ID][seq].Action
}

func (m *memory) count(c *ledger.Claim, s ledger.Status) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows[c.ID] {
		if r.Status == s {
			n++
		}
	}
	return n
}

func (m *memory) resultsOf(seq int64) (out []ledger.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, group := range m.records {
		for _, r := range group {
			if r.LaneSeq == seq {
				out = append(out, r)
			}
		}
	}
	return out
}

// script is a sink that does what do says and keeps what it was called with.
type script struct {
	mu    sync.Mutex
	calls []sink.Action
	at    []time.Time
	kind  sink.Idempotency
	do    func(ctx context.Context, a sink.Action) (sink.Outcome, error)
	begun chan struct{} // capacity 1; has something when an attempt has begun since it was last looked at; nil: nobody waits for that
}

func (s *script) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	s.mu.Lock()
	s.calls = append(s.calls, a)
	s.at = append(s.at, time.Now())
	do := s.do
	s.mu.Unlock()
	select {
	case s.begun <- struct{}{}:
	default:
	}
	if do == nil {
		return sink.Outcome{Code: 200}, nil
	}
	return do(ctx, a)
}

// become has attempts end in another way from now on.
func (s *script) become(do func(ctx context.Context, a sink.Action) (sink.Outcome, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}
func (s *script) Close(context.Context) error { return nil }
func (s *script) Idempotency() sink.Idempotency {
	if s.kind == "" {
		return sink.Idempotent
	}
	return s.kind
}

// ids are the event ids in call order.
func (s *script) ids() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.calls {
		ids = append(ids, a.Event.ID)
	}
	return ids
}

func (s *script) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

// log is a payload store: events by offset, which the tests set to lane_seq.
type eventLog struct {
	mu     sync.Mutex
	events map[int64]*schemas.Event
	loads  int
	fail   func(p ledger.Pointer) error
}

func (g *eventLog) Load(_ context.Context, p ledger.Pointer) (*schemas.Event, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loads++
	if g.fail != nil {
		if err := g.fail(p); err != nil {
			return nil, err
		}
	}
	if e := g.events[p.Offset]; e != nil {
		return e, nil
	}
	return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: errors.New("below the log's start")}
}

var jsonCodec = Codec{
	Pack: func(e *schemas.Event) []byte {
		b, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		return b
	},
	Unpack: func(b []byte) (*schemas.Event, error) {
		e := new(schemas.Event)
		return e, json.Unmarshal(b, e)
	},
}

// rig is lanes on doubles.
type rig struct {
	*Lanes
	mem    *memory
	log    *eventLog
	sink   *script
	claim  *ledger.Claim
	seq    int64
	spoilt bool // the test has broken what it holds
	stop   func()
}

const destName = "acme/agent"

func claimOf(id int32) *ledger.Claim {
	return &ledger.Claim{ID: id, Epoch: 3, Partition: ledger.Partition{Topic: "events.acme.orders", Number: id}}
}

// setup makes lanes with one destination, runs them and opens claim 1 once begin is called.
func setup(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := &rig{mem: newMemory(), log: &eventLog{events: map[int64]*schemas.Event{}}, sink: &script{}, claim: claimOf(1)}
	return r.relaunch(t, change)
}

// relaunch makes new lanes on the same ledger, log and sink: a restart.
func (r *rig) relaunch(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	cfg := Config{
		Subscription: "acme.triage", Ledger: r.mem, Payloads: r.log, Codec: jsonCodec, MaxInFlight: 8, Linger: -1,
		Destinations: map[string]DestinationConfig{destName: {Sink: r.sink, Timeout: 5 * time.Second, Concurrency: 8}},
		Alive:        func() bool { return true },
		Logger:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError + 4})),
	}
	if change != nil {
		change(&cfg)
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Lanes = l
	checked(t, l)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		if err := r.forgotten(); err != nil && !r.spoilt {
			t.Error(err)
		}
		cancel()
		<-done
	})
	t.Cleanup(r.stop)
	return r
}

// forgotten returns an error if an action is open in the ledger, though loaded, and in no lane.
func (r *rig) forgotten() error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	for c, p := range r.s.q.partitions {
		for seq, row := range r.mem.rows[c.ID] {
			if !p.ending() && row.open() && seq <= p.loadedTo && !p.knows(row.Entity, seq) {
				return fmt.Errorf("action %d, which is %s, is loaded and in no lane", seq, row.Status)
			}
		}
	}
	return nil
}

// unclean makes the rig's claim one whose owner before did not release.
func (r *rig) unclean() {
	r.claim.Unclean, r.claim.DoubtTo, r.claim.DoubtAt = true, r.seq+1, time.Now()
}

// claimed is the next claim, as the ledger gives it.
func (r *rig) claimed(released bool) {
	before := r.claim
	r.claim = claimOf(1)
	r.claim.Epoch = before.Epoch + 1
	r.claim.DoubtTo, r.claim.DoubtAt = before.DoubtTo, before.DoubtAt
	if !released {
		r.unclean()
	}
}

func (r *rig) begin(t testing.TB) {
	t.Helper()
	if err := r.Open(context.Background(), r.claim); err != nil {
		t.Fatal(err)
	}
}

// make makes the next action of an entity and puts it into ledger and log.
func (r *rig) make(entity string, change func(*ledger.Action)) Item {
	r.seq++
	id := fmt.Sprintf("%s#%d", entity, r.seq)
	e := &schemas.Event{ID: id, Source: "/acme/orders", Entity: schemas.EntityKey(entity), Data: []byte(`{"n":1}`)}
	a := ledger.Action{
		Claim: r.claim.ID, LaneSeq: r.seq, ID: schemas.NewActionID("acme.triage", 0, e.Source, id, "run"), Name: "run",
		Destination: destName, OnDead: ledger.Park, Entity: e.Entity, EventID: id, Source: e.Source,
		Status: ledger.Pending, Pointer: ledger.Pointer{Offset: r.seq},
	}
	if change != nil {
		change(&a)
	}
	r.mem.put(a)
	r.log.mu.Lock()
	r.log.events[r.seq] = e
	r.log.mu.Unlock()
	return Item{Action: &a, Event: e}
}

// add makes actions for entities and adds them as one batch.
func (r *rig) add(entities ...string) {
	items := make([]Item, 0, len(entities))
	for _, e := range entities {
		items = append(items, r.make(e, nil))
	}
	r.Add(r.claim, items)
}

func failWith(class sink.Class) func(context.Context, sink.Action) (sink.Outcome, error) {
	return func(context.Context, sink.Action) (sink.Outcome, error) {
		return sink.Outcome{Code: 500}, &sink.AttemptError{Class: class, Err: errors.New("scripted")}
	}
}
