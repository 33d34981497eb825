package ledger

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// For the conformance suite.
var TestLanes = lanes

// TestDatabase is an empty ledger on Postgres, for tests from outside of this package.
type TestDatabase struct {
	cfg Config
	l   *Ledger
	eye *pgx.Conn
}

// NewTestDatabase makes one in a schema of its own.
func NewTestDatabase(t testing.TB) *TestDatabase {
	cfg := schemaFor(t)
	return &TestDatabase{cfg: cfg, l: open(t, cfg), eye: (&fixture{t: t, cfg: cfg}).connect()}
}

// TestProcess is a process that reaches the database through a proxy of its own.
type TestProcess struct {
	*Namespace
	proxy  *proxy
	db     *TestDatabase
	claims []*Claim
}

// Start starts a process.
func (d *TestDatabase) Start(t testing.TB, spec Spec) *TestProcess {
	p := &TestProcess{db: d}
	var f *fixture
	p.proxy, f = throughProxy(t, &fixture{t: t, cfg: d.cfg}, func(s *Spec) { *s = spec })
	p.Namespace = f.n
	return p
}

// Claim is Namespace.Claim; its claims age with what is stored.
func (p *TestProcess) Claim(ctx context.Context, req ClaimRequest) (*Claim, error) {
	c, err := p.Namespace.Claim(ctx, req)
	if c != nil {
		p.claims = append(p.claims, c)
	}
	return c, err
}

// Lose cuts the connection at the next COMMIT.
func (p *TestProcess) Lose(written bool, meanwhile func()) (over func() bool) {
	c := &cut{Commit: true, Before: !written, Then: meanwhile}
	before := p.proxy.Cuts.Load()
	p.proxy.Cut.Store(c)
	return func() bool {
		p.proxy.Cut.CompareAndSwap(c, nil)
		return p.proxy.Cuts.Load() > before
	}
}

// Waits waits until one of the process's own sessions waits for a lock.
func (p *TestProcess) Waits(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(waitPatience); ; {
		var n int
		err := p.db.eye.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE client_port = ANY ($1) AND wait_event_type = 'Lock'`, p.proxy.Ports()).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		select {
		case <-limit:
			t.Fatal("nobody waits")
		case <-tick.C:
		}
	}
}

// Entered waits until the database knows a member.
func (d *TestDatabase) Entered(t testing.TB, member string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(waitPatience); ; {
		var there bool
		if err := d.eye.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM members WHERE member = $1)`, member).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there {
			return
		}
		select {
		case <-limit:
			t.Fatalf("member %s is not entered", member)
		case <-tick.C:
		}
	}
}

// Keep sets how far behind rows of version lines may be, and how many keys the process remembers: nobody sees either.
func (p *TestProcess) Keep(lag int64, keys, askAllFor int) {
	p.maxLag, p.recent = lag, newRecentKeys(keys, askAllFor)
}

// TurnWindow closes the current window of each subscription, and opens another one.
func (d *TestDatabase) TurnWindow(t testing.TB) {
	t.Helper()
	_, err := d.eye.Exec(t.Context(), `UPDATE windows SET opened_at = opened_at - interval '1000 days' WHERE state = 'current'`)
	if err == nil {
		_, err = d.l.Sweep(t.Context(), SweepConfig{Horizon: time.Hour, Done: math.MaxInt64, Dead: math.MaxInt64})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Kill ends the process.
func (p *TestProcess) Kill() { p.proxy.Kill() }

// Age makes everything that is stored older, and what its claims know of the database's clock.
func (p *TestProcess) Age(d time.Duration) {
	for _, c := range p.claims {
		if c.overdueAt != 0 {
			c.overdueAt -= d.Microseconds()
		}
	}
}

// Age makes everything that is stored so much older.
func (d *TestDatabase) Age(t testing.TB, by time.Duration) {
	t.Helper()
	for _, sql := range []string{
		`UPDATE buffer SET deadline = deadline - $1::interval, buffered_at = buffered_at - $1::interval`,
		`UPDATE events SET decided_at = decided_at - $1::interval`,
		`UPDATE actions SET created_at = created_at - $1::interval, next_at = next_at - $1::interval, first_at = first_at - $1::interval, doubt_end = doubt_end - $1::interval,
			replayed_at = replayed_at - $1::interval, result_by = result_by - $1::interval, beat_at = beat_at - $1::interval`,
		`UPDATE attempts SET ended_at = ended_at - $1::interval`,
		`UPDATE fences SET doubt_at = doubt_at - $1::interval`,
		`UPDATE backfills SET asked_at = asked_at - $1::interval`,
		`UPDATE second_keys SET decided_at = decided_at - $1::interval`,
	} {
		if _, err := d.eye.Exec(t.Context(), sql, by); err != nil {
			t.Fatal(err)
		}
	}
}

// Ask asks about an event that waits or is held.
func (d *TestDatabase) Ask(ctx context.Context, source, id string, kind CommandKind, by, reason string) (int64, error) {
	var fence int32
	var offset int64
	key := schemas.NewEventKey(source, id)
	err := d.eye.QueryRow(ctx, `SELECT fence, log_offset FROM buffer WHERE event_key = $1`, [16]byte(key)).Scan(&fence, &offset)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // of what is not there the inbox itself is to say so
		return 0, err
	}
	return TestInbox.Ask(ctx, d.l, TestInbox.Place(fence, offset, key), kind, by, reason)
}

// AskAction asks about an action.
func (d *TestDatabase) AskAction(ctx context.Context, id schemas.ActionID, kind CommandKind, detail CommandDetail, by, reason string) (int64, error) {
	return TestInbox.AskAction(ctx, d.l, id, kind, detail, by, reason)
}

// AskSeek asks that a partition goes on at another offset.
func (d *TestDatabase) AskSeek(ctx context.Context, fence int32, topic TopicID, to int64, by, reason string) (int64, error) {
	ids, err := d.l.AskSeeks(ctx, []SeekAsk{{Fence: fence, TopicID: topic, From: -1, To: to}}, by, reason)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// SeekOutcome says what became of the last seek request of a fence.
func (d *TestDatabase) SeekOutcome(ctx context.Context, fence int32) (outcome string, from int64) {
	err := d.eye.QueryRow(ctx, `SELECT coalesce(outcome, ''), coalesce(from_offset, 0) FROM seek_requests WHERE fence = $1 ORDER BY id DESC LIMIT 1`, fence).
		Scan(&outcome, &from)
	if err != nil {
		return err.Error(), 0
	}
	return outcome, from
}

// Report is what a destination says later of an attempt.
func (d *TestDatabase) Report(ctx context.Context, r Report) error {
	_, err := TestInbox.Report(ctx, d.l, r)
	return err
}

// Accept is Ledger.Accept.
func (d *TestDatabase) Accept(ctx context.Context, f StopFilter, a Acceptance, dryRun bool) ([]Stop, error) {
	return d.l.Accept(ctx, f, a, dryRun)
}
