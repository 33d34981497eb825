package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schemaFor makes a migrated schema of the test's own.
func schemaFor(t testing.TB) Config {
	t.Helper()
	url, name := pgtest.Migrated(t)
	return Config{URL: schemas.NewSecret(url), Schema: name, MaxConns: 6}
}

// emptySchema names a schema that does not exist, and drops it after the test.
func emptySchema(t testing.TB) Config {
	t.Helper()
	url, name := pgtest.Schema(t)
	return Config{URL: schemas.NewSecret(url), Schema: name, MaxConns: 6}
}

var admin = pgtest.Exec

// fixture is a ledger with one namespace and helpers around it.
type fixture struct {
	t   testing.TB
	cfg Config
	l   *Ledger
	n   *Namespace
	c   *Claim // of who asks for approvals; nil: nobody has yet
}

// connect is a connection of the test's own to its schema.
func (f *fixture) connect() *pgx.Conn {
	return pgtest.Connect(f.t, f.cfg.URL.Reveal(), f.cfg.Schema)
}

func policy() gate.Policy {
	return gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, GapWait: time.Hour, Then: gate.ThenSkip}
}

func oneAction() []ActionSpec {
	return []ActionSpec{{Name: "run", Destination: "acme/coder", OnDead: Park}}
}

func setup(t testing.TB, change ...func(*Spec)) *fixture {
	t.Helper()
	cfg := schemaFor(t)
	f := &fixture{t: t, cfg: cfg, l: open(t, cfg)}
	f.n = f.namespace(change...)
	return f
}

func open(t testing.TB, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (f *fixture) namespace(change ...func(*Spec)) *Namespace {
	f.t.Helper()
	spec := Spec{Name: "acme.triage", Owner: "test", Actions: oneAction(), Policy: policy(), Window: 24 * time.Hour}
	for _, c := range change {
		c(&spec)
	}
	n, err := f.l.Namespace(f.t.Context(), spec)
	if err != nil {
		f.t.Fatal(err)
	}
	n.forgetPage = 7
	n.recent = newRecentKeys(8, 1) // soon forgotten, soon trusted: late repeats are met on the way that is rarely gone
	return n
}

func partition(n int32) Partition {
	return Partition{Topic: "events.acme.github", TopicID: TopicID{1}, Number: n}
}

// at is a Confirm that starts where the ledger stands, else at offset.
func at(offset int64) func(context.Context, *Position) (Start, error) {
	return func(_ context.Context, stored *Position) (Start, error) {
		if stored != nil {
			return Start{Position: *stored}, nil
		}
		return Start{Position: Position{Offset: offset, LeaderEpoch: -1}}, nil
	}
}

func (f *fixture) claim(number int32) *Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(number), Partitions: 8, Confirm: at(0)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// seq is a record of kind sequence.
func seq(offset int64, entity string, value int64) Record {
	id := fmt.Sprintf("%s-%d", entity, value)
	return record(offset, id, entity, schemas.Version{Kind: schemas.Sequence, Value: value})
}

func record(offset int64, id, entity string, v schemas.Version) Record {
	r := Record{
		LeaderEpoch: 3, Source: "/acme/github", ID: id, Type: "com.github.issues.labeled", ReceivedAt: time.Unix(1_700_000_000, 0).UTC(),
		Packed: func() []byte { return []byte("packed " + id) },
	}
	r.Offset, r.AppendTime, r.Key = offset, time.Unix(1_700_000_001, 0).UTC(), schemas.NewEventKey(r.Source, id)
	r.Hash, r.Entity, r.Version, r.Payload = schemas.HashBody([]byte(id)), schemas.EntityKey(entity), v, schemas.Snapshot
	return r
}

// slice is a slice of one claim up to behind its last record.
func slice(c *Claim, records ...Record) Slice {
	next := c.Next
	if n := len(records); n > 0 {
		next = Position{Offset: records[n-1].Offset + 1, LeaderEpoch: records[n-1].LeaderEpoch}
	}
	return Slice{Claim: c, From: c.Next.Offset, Records: records, Next: next}
}

func (f *fixture) apply(c *Claim, records ...Record) Applied {
	f.t.Helper()
	out, err := f.n.Apply(f.t.Context(), []Slice{slice(c, records...)})
	if err != nil {
		f.t.Fatal(err)
	}
	return out[0]
}

// decisions of an Applied, as "0:applied/first", "-1:applied/released".
func decisions(a Applied) []string {
	var out []string
	for _, o := range a.Outcomes {
		out = append(out, fmt.Sprintf("%d:%s/%s", o.Record, o.Decision, o.Reason))
	}
	return out
}

// lanes of actions, as "1:id".
func lanes(actions []Action) []string {
	var out []string
	for _, a := range actions {
		out = append(out, fmt.Sprintf("%d:%s:%s", a.LaneSeq, a.EventID, a.Name))
	}
	return out
}

// one reads a single value.
func one[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	var v T
	if err := f.l.read.QueryRow(f.t.Context(), sql, args...).Scan(&v); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// states is every action with its status, as operators see it: its row, its completion or neither.
var states = `(SELECT e.fence, e.lane_seq + n.i AS lane_seq, coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' ELSE 'done' END) AS status
	FROM events e CROSS JOIN LATERAL ` + OfAll(ActionStates) + ` WHERE e.lane_seq IS NOT NULL) AS s`
