package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is the inbox of a ledger with one namespace, and helpers around it.
type fixture struct {
	*Inbox
	t   testing.TB
	cfg ledger.Config
	l   *ledger.Ledger
	n   *ledger.Namespace
	eye *pgx.Conn // the test's own
}

func setup(t testing.TB, change ...func(*ledger.Spec)) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.l, f.cfg = ledgertest.Open(t)
	f.Inbox, f.n, f.eye = New(f.l), f.namespace(change...), f.connect()
	return f
}

func (f *fixture) namespace(change ...func(*ledger.Spec)) *ledger.Namespace {
	f.t.Helper()
	spec := ledger.Spec{Name: "acme.triage", Owner: "test", Window: 24 * time.Hour,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/coder", OnDead: ledger.Park}},
		Policy:  gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, GapWait: time.Hour, Then: gate.ThenSkip}}
	for _, c := range change {
		c(&spec)
	}
	n, err := f.l.Namespace(f.t.Context(), spec)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) connect() *pgx.Conn {
	return pgtest.Connect(f.t, f.cfg.URL.Reveal(), f.cfg.Schema)
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.eye.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// one reads a single value.
func one[T any](f *fixture, sql string, args ...any) (v T) {
	f.t.Helper()
	if err := f.eye.QueryRow(f.t.Context(), sql, args...).Scan(&v); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// soaking is make soak: sizes and seeds that take longer, or differ from run to run.
var soaking = os.Getenv("FOREBAY_SOAK") != ""

// random is always the same sequence, but for make soak.
func random(t *testing.T) *rand.Rand {
	seed := uint64(1)
	if soaking {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func partition(n int32) ledger.Partition {
	return ledger.Partition{Topic: "events.acme.github", TopicID: ledger.TopicID{1}, Number: n}
}

// at is a Confirm that starts where the ledger stands, else at offset.
func at(offset int64) func(context.Context, *ledger.Position) (ledger.Start, error) {
	return func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		if stored != nil {
			return ledger.Start{Position: *stored}, nil
		}
		return ledger.Start{Position: ledger.Position{Offset: offset, LeaderEpoch: -1}}, nil
	}
}

func (f *fixture) claim(number int32) *ledger.Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ledger.ClaimRequest{Partition: partition(number), Partitions: 8, Confirm: at(0)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// seq is a record of kind sequence.
func seq(offset int64, entity string, value int64) ledger.Record {
	return record(offset, fmt.Sprintf("%s-%d", entity, value), entity, schemas.Version{Kind: schemas.Sequence, Value: value})
}

func record(offset int64, id, entity string, v schemas.Version) ledger.Record {
	r := ledger.Record{
		LeaderEpoch: 3, Source: "/acme/github", ID: id, Type: "com.github.issues.labeled", ReceivedAt: time.Unix(1_700_000_000, 0).UTC(),
		Packed: func() []byte { return []byte("packed " + id) },
	}
	r.Offset, r.AppendTime, r.Key = offset, time.Unix(1_700_000_001, 0).UTC(), schemas.NewEventKey(r.Source, id)
	r.Hash, r.Entity, r.Version, r.Payload = schemas.HashBody([]byte(id)), schemas.EntityKey(entity), v, schemas.Snapshot
	return r
}

// slice is a slice of one claim up to behind its last record.
func slice(c *ledger.Claim, records ...ledger.Record) ledger.Slice {
	next := c.Next
	if n := len(records); n > 0 {
		next = ledger.Position{Offset: records[n-1].Offset + 1, LeaderEpoch: records[n-1].LeaderEpoch}
	}
	return ledger.Slice{Claim: c, From: c.Next.Offset, Records: records, Next: next}
}

func (f *fixture) apply(c *ledger.Claim, records ...ledger.Record) ledger.Applied {
	f.t.Helper()
	out, err := f.n.Apply(f.t.Context(), []ledger.Slice{slice(c, records...)})
	if err != nil {
		f.t.Fatal(err)
	}
	return out[0]
}

// decisions of an Applied, as "0:applied/first".
func decisions(a ledger.Applied) (out []string) {
	for _, o := range a.Outcomes {
		out = append(out, fmt.Sprintf("%d:%s/%s", o.Record, o.Decision, o.Reason))
	}
	return out
}

func (f *fixture) record(results ...ledger.Result) {
	f.t.Helper()
	if fenced, err := f.n.Record(f.t.Context(), results); err != nil || len(fenced) > 0 {
		f.t.Fatal(fenced, err)
	}
}

// turnWindow makes the current window old enough and sweeps.
func (f *fixture) turnWindow() {
	f.t.Helper()
	f.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`)
	swept, err := f.l.Sweep(f.t.Context(), ledger.SweepConfig{})
	if err != nil || len(swept.Opened) != 1 {
		f.t.Fatal(swept, err)
	}
}

// actionID is the id of an event's action run.
func actionID(event string) schemas.ActionID {
	return schemas.NewActionID("acme.triage", 0, "/acme/github", event, "run")
}

// die makes an action a dead letter.
func (f *fixture) die(c *ledger.Claim, laneSeq int64, event string, attempt int) {
	f.t.Helper()
	f.record(ledger.Result{Claim: c, LaneSeq: laneSeq, ID: actionID(event), Status: ledger.Dead, Attempt: attempt, Code: 400, Class: "rejected",
		Error: "no such repository", Packed: []byte("packed " + event)})
}

// askAction asks something of an action.
func (f *fixture) askAction(event string, kind ledger.CommandKind, d ledger.CommandDetail) int64 {
	f.t.Helper()
	id, err := f.AskAction(f.t.Context(), actionID(event), kind, d, "jo", "the repository is back")
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// applyLaneCommands has the owner apply everything that is asked about actions.
func (f *fixture) applyLaneCommands(c *ledger.Claim) {
	f.t.Helper()
	asked, err := f.n.Commands(f.t.Context(), []*ledger.Claim{c}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, cmd := range asked {
		if _, err := f.n.ApplyLaneCommand(f.t.Context(), c, cmd); err != nil {
			f.t.Fatal(err)
		}
	}
}
