package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

// A row that no index takes is quarantined alone, with its bytes. What else no table takes is in the suite.
func TestPoisonedRowIsBisectedAndQuarantined(t *testing.T) {
	t.Parallel()
	for name, entity := range map[string]string{"oversize key": incompressible(9000), "key of a wide rune": incompressible(2800) + "\u00e9\xc3"} {
		f := setup(t)
		c := f.claim(0)
		const n, bad = 30, 19
		var records []Record
		for i := range int64(n) {
			records = append(records, seq(i, fmt.Sprint("e", i), 1))
		}
		records[bad].Entity = schemas.EntityKey(entity)
		a := f.apply(c, records...)
		if d := cmp.Diff([]int{bad}, a.Quarantined); d != "" || len(a.Actions) != n-1 || c.Next.Offset != n {
			t.Errorf("%s: %d actions, the claim stands at %d, quarantined %s", name, len(a.Actions), c.Next.Offset, d)
		}
		got := one[string](f, `SELECT log_offset || ' ' || decision || '/' || reason || ' ' || (error <> '')::text || ' ' || (raw IS NOT NULL)::text FROM rejected_records`)
		if got != "19 quarantined/data_rejected true true" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Nothing that a record can say as a number or a time is out of a column's range.
func TestExtremesAreWritten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	low := record(0, "low", "e", schemas.Version{Kind: schemas.Monotonic, Epoch: 0, Value: math.MinInt64, Sub: math.MinInt32})
	low.ReceivedAt, low.AppendTime = time.Date(-292_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-6000, 1, 1, 0, 0, 0, 0, time.UTC)
	high := record(1, "high", "e", schemas.Version{Kind: schemas.Monotonic, Epoch: math.MaxInt64, Value: math.MaxInt64, Sub: math.MaxInt32})
	high.ReceivedAt, high.AppendTime = time.Date(292_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)
	ahead := seq(2, "s", math.MaxInt64)
	ahead.First = new(int64(math.MinInt64))
	if a := f.apply(c, low, high, ahead, seq(math.MaxInt64-1, "t", math.MinInt64)); len(a.Outcomes) != 4 || len(a.Quarantined) > 0 {
		t.Errorf("%v, quarantined %v", decisions(a), a.Quarantined)
	}
	if c = f.claim(0); c.Next.Offset != math.MaxInt64 {
		t.Errorf("next offset %d", c.Next.Offset)
	}
	if got := f.open(c); len(got) < 3 {
		t.Errorf("open %v", got)
	}
}

// incompressible text of n bytes: what compresses fits an index after all.
func incompressible(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(schemas.HashBody([]byte{byte(i), byte(i >> 8)}).String())
	}
	return b.String()
}

func TestUndecodableRecordIsKeptWithItsBytes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	r := Record{LeaderEpoch: 1, Error: "ce_id is missing\x00", Packed: func() []byte { return []byte{0, 1, 0xff} }}
	r.Offset, r.Broken = 0, gate.ReasonUndecodable
	a := f.apply(c, r, seq(1, "e", 1))
	if d := cmp.Diff([]string{"0:quarantined/undecodable", "1:applied/first"}, decisions(a)); d != "" || len(a.Quarantined) != 0 {
		t.Error(a.Quarantined, d)
	}
	if raw := one[[]byte](f, `SELECT raw FROM rejected_records WHERE error LIKE 'ce_id is missing%'`); string(raw) != "\x00\x01\xff" {
		t.Errorf("%x", raw)
	}
	items, err := f.list("", gate.Quarantined)
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	raw, p, err := f.bytes(items[0])
	if err != nil || string(raw) != "\x00\x01\xff" || p.Offset != 0 || p.Topic != "events.acme.github" {
		t.Error(raw, p, err)
	}
}

// Backends are killed in the midst of batches and results: everything is written, once. The fence's row, which all of it locks, tells the
// backends of this test from those of others.
func TestKilledBackends(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	killing := f.connect()
	fences, killed := f.cfg.Schema+".fences", 0
	kill := func(over chan struct{}) { // one or two, or none where it comes too late
		for until := killed + 2; killed < until; {
			var n int
			if err := killing.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT DISTINCT pid FROM pg_locks WHERE relation = $1::text::regclass AND pid <> pg_backend_pid()) l
				WHERE pg_terminate_backend(pid)`, fences).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			killed += n
			select {
			case <-over:
				return
			default:
			}
		}
	}
	const least, size = 10, 20
	batches := int64(0)
	for ; batches < least || killed < 10 && batches < 100*least; batches++ {
		over := make(chan struct{})
		var killer sync.WaitGroup
		killer.Go(func() { kill(over) })
		var records []Record
		for i := range int64(size) {
			records = append(records, seq(batches*size+i, "e", batches*size+i+1))
		}
		a := f.apply(c, records...)
		var results []Result
		for _, action := range a.Actions {
			results = append(results, Result{Claim: c, LaneSeq: action.LaneSeq, Status: Done, Attempt: 1})
		}
		if fenced, err := f.n.Record(t.Context(), results); err != nil || len(fenced) > 0 || len(results) != size {
			t.Fatal(len(results), fenced, err)
		}
		close(over)
		killer.Wait()
	}
	if t.Logf("%d backends killed in %d batches", killed, batches); killed < 10 {
		t.Errorf("only %d backends were killed", killed)
	}
	f.nextClaim(t)
	n := batches * size
	got := one[string](f, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT count(*) FROM `+states+` WHERE status = 'done'),
		(SELECT max(lane_seq) FROM events), (SELECT next_offset FROM progress), (SELECT value FROM version_lines))`)
	if want := fmt.Sprint(n, n, n, n, n); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// nextClaim claims again, which writes the line, where the pool may hold connections that were killed last: an owner, too, asks again.
func (f *fixture) nextClaim(t *testing.T) {
	t.Helper()
	var err error
	for range 10 {
		if _, err = f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)}); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// A deadlock is the server's to end; the batch that it chose goes again.
func TestDeadlockIsRetried(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.n.maxLag = 0 // the batch writes the lines
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	// The other transaction holds line b, the batch takes a and waits for b, then the other wants a.
	other, err := f.l.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SET LOCAL deadlock_timeout = '60s'; UPDATE version_lines SET filtered = filtered WHERE entity = 'b'`); err != nil {
		t.Fatal(err)
	}
	applied := make(chan error, 1)
	go func() {
		out, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(2, "a", 2), seq(3, "b", 2))})
		if err == nil && len(out[0].Actions) != 2 {
			err = errors.New("not two actions")
		}
		applied <- err
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(other.Conn().PgConn().PID()))
	if _, err := tx.Exec(t.Context(), `UPDATE version_lines SET filtered = filtered WHERE entity = 'a'`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	if got := one[int](f, `SELECT sum(actions) FROM events`); got != 4 {
		t.Errorf("%d actions", got)
	}
}

func TestApplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	p.Close() // no new connection gets through
	p.Cut.Store(&cut{Needle: []byte(fenceCheck.Name), Before: true})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("revoked"))
	defer cancel()
	if _, err := g.n.Apply(ctx, []Slice{slice(c, seq(0, "e", 1))}); schemas.KindOf(err) != schemas.Unavailable ||
		!strings.Contains(err.Error(), "revoked") || !strings.Contains(err.Error(), "connect to postgres at 127.0.0.1:") {
		t.Errorf("error %v", err)
	}
	if got := one[int](f, `SELECT next_offset FROM progress`); got != 0 {
		t.Errorf("next offset %d", got)
	}
}

// What the ledger finds wrong itself is trouble of its own, unless the server was silent.
func TestTroubleOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[pg.Trouble]error{
		oldWindows: errRotated, possibleDuplicate: fmt.Errorf("apply: %w", errPossibleDuplicate), tooLittle: errTooLittle, pg.Permanent: pg.Refuse(errors.New("ours")),
		pg.Slow: &pgconn.PgError{Code: "57014"}, pg.Lost: errors.New("read tcp: connection reset"),
	} {
		if got := troubleOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if got := troubleOf(&pgconn.PgError{Code: "42P01"}); got != oldWindows {
		t.Errorf("a window is gone: %d", got)
	}
}
