package postgressink

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// ledgerOf gives an InLedger actions of a real ledger in the target's database, as lanes do.
type ledgerOf struct {
	sink.Sink
	ns    *ledger.Namespace
	claim *ledger.Claim
	lane  atomic.Int64
}

// newLedger makes a namespace of a ledger beside the target's schema, with open actions.
func newLedger(t testing.TB, l *ledger.Ledger, d *target, statement string, values ...any) *ledgerOf {
	t.Helper()
	s, err := NewInLedger(strings.ReplaceAll(statement, "S.", d.schema+"."), params(t, values...))
	if err != nil {
		t.Fatal(err)
	}
	j := &ledgerOf{Sink: s}
	j.ns, err = l.Namespace(t.Context(), ledger.Spec{
		Name: "acme." + strings.ReplaceAll(d.schema, "_", "-"), Owner: "test", Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/agent", OnDead: ledger.Park}},
		Policy: gate.Policy{Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip},
	})
	if err != nil {
		t.Fatal(err)
	}
	j.claim, err = j.ns.Claim(t.Context(), ledger.ClaimRequest{
		Partition: ledger.Partition{Topic: "events.acme.orders", TopicID: ledger.TopicID{1}}, Partitions: 1,
		Confirm: func(context.Context, *ledger.Position) (ledger.Start, error) {
			return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := ledger.Slice{Claim: j.claim, Next: ledger.Position{Offset: 100}}
	for i := range int64(100) {
		e := sinktest.Action(int(i)).Event
		r := ledger.Record{Source: e.Source, ID: e.ID, Type: e.Type, ReceivedAt: e.RecordedTime}
		r.Offset, r.AppendTime, r.Key, r.Hash = i, time.Now(), e.Key(), schemas.HashBody(e.Data)
		r.Entity, r.Version, r.Payload = e.Entity, schemas.Version{Kind: schemas.None}, schemas.Snapshot
		batch.Records = append(batch.Records, r)
	}
	if _, err := j.ns.Apply(t.Context(), []ledger.Slice{batch}); err != nil {
		t.Fatal(err)
	}
	return j
}

// Do runs the next open action.
func (j *ledgerOf) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	return j.at(ctx, a, j.lane.Add(1))
}

func (j *ledgerOf) at(ctx context.Context, a sink.Action, lane int64) (sink.Outcome, error) {
	a.Commit = func(ctx context.Context, s sink.Statement) (string, error) {
		return j.ns.Commit(ctx, ledger.Result{Claim: j.claim, LaneSeq: lane, Status: ledger.Done, Attempt: a.Attempt}, s)
	}
	return j.Sink.Do(ctx, a)
}

func (j *ledgerOf) open(t *testing.T) int {
	t.Helper()
	actions, _, err := j.ns.Open(t.Context(), j.claim, 0, 200)
	if err != nil {
		t.Fatal(err)
	}
	return len(actions)
}

func TestInLedger(t *testing.T) {
	t.Parallel()
	l, _ := ledgertest.Open(t)
	sinktest.Run(t, sinktest.Harness{Make: func(t testing.TB, _ sinktest.Target) sink.Sink {
		return newLedger(t, l, newTarget(t), `INSERT INTO S.effects (event) VALUES ($1)`, "{{event.id}}")
	}})
	t.Run("acts with the completion", func(t *testing.T) { actsWithTheCompletion(t, l) })
	t.Run("errors", func(t *testing.T) { failsAsStatementsDo(t, l) })
}

func actsWithTheCompletion(t *testing.T, l *ledger.Ledger) {
	t.Parallel()
	d := newTarget(t)
	j := newLedger(t, l, d, `INSERT INTO S.effects (event, rev, note) VALUES ($1, $2, $3)`, inserted...)
	a := sinktest.Action(7)
	for i, want := range []string{"INSERT 0 1", "done by an earlier attempt"} {
		a.Attempt = i + 1
		out, err := j.at(t.Context(), a, 1)
		if err != nil || string(out.Response) != want {
			t.Fatalf("attempt %d: %q, %v", i+1, out.Response, err)
		}
	}
	if d.effects(a) != 1 || j.open(t) != 99 {
		t.Errorf("%d effects, %d open", d.effects(a), j.open(t))
	}
	if j.Idempotency() != sink.Fenced {
		t.Error(j.Idempotency())
	}
}

// The same statements fail in the same ways, and none of them takes the ledger's transaction of another action along.
func failsAsStatementsDo(t *testing.T, l *ledger.Ledger) {
	t.Parallel()
	d := newTarget(t)
	readyForStates(d)
	role := d.role() // that may do less than the ledger's
	j := newLedger(t, l, d, `SELECT 1`)
	for _, tt := range states {
		statement := strings.NewReplacer("INTO ", "INTO "+d.schema+".", "FROM locked", "FROM "+d.schema+".locked").Replace(tt.statement)
		if tt.class == sink.ClassDenied {
			statement = `DO $$ BEGIN SET LOCAL ROLE ` + role + `; PERFORM pg_read_file('/etc/hostname'); END $$`
		}
		s, err := NewInLedger(d.signed(statement), params(t, tt.values...))
		if err != nil {
			t.Fatal(err)
		}
		j.Sink = s
		out, err := j.at(d.timeFor(tt.class), sinktest.Action(1), 1)
		wordsAreTheAnswer(t, tt.name, out, err)
		if got := sink.ClassOf(err); got != tt.class {
			t.Errorf("%s: class %q, want %q: %v", tt.name, got, tt.class, err)
		}
		if j.open(t) != 100 {
			t.Errorf("%s: an action is done", tt.name)
		}
	}
	if _, err := j.ns.Record(t.Context(), []ledger.Result{{Claim: j.claim, LaneSeq: 2, Status: ledger.Done, Attempt: 1}}); err != nil || j.open(t) != 99 {
		t.Errorf("the result of another action: %v", err)
	}
}

func TestInLedgerWithoutALedger(t *testing.T) {
	t.Parallel()
	s, err := NewInLedger("SELECT 1", params(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassBug || !sink.Untouched(err) {
		t.Error(err)
	}
}
