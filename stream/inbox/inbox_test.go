package inbox

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

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

var (
	partition = ledgertest.Partition
	seq       = ledgertest.Seq
	record    = ledgertest.Record
	slice     = ledgertest.Slice
	decisions = ledgertest.Decisions
	actionID  = ledgertest.ActionID
)

func (f *fixture) claim(number int32) *ledger.Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ledger.ClaimRequest{Partition: partition(number), Partitions: 8, Confirm: ledgertest.Stay})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) apply(c *ledger.Claim, records ...ledger.Record) ledger.Applied {
	f.t.Helper()
	out, err := f.n.Apply(f.t.Context(), []ledger.Slice{slice(c, records...)})
	if err != nil {
		f.t.Fatal(err)
	}
	return out[0]
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
