package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

// One poisoned row among a thousand is quarantined with its bytes, everything around it is applied, in order.
func TestPoisonedRowIsBisectedAndQuarantined(t *testing.T) {
	t.Parallel()
	poison := map[string]func(*Record){
		"NUL in a text":      func(r *Record) { r.Type = "a\x00b" },
		"invalid UTF-8":      func(r *Record) { r.ID = "\xff\xfe" },
		"empty id":           func(r *Record) { r.ID = "" },
		"oversize key":       func(r *Record) { r.Entity = schemas.EntityKey(incompressible(9000)) },
		"NUL in a clock":     func(r *Record) { r.Version.Clock = "c\x00" },
		"key of a wide rune": func(r *Record) { r.Entity = schemas.EntityKey(incompressible(2800) + "\u00e9\xc3") },
	}
	const n, bad = 1000, 633
	for name, spoil := range poison {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c, d := f.claim(0), f.claim(1)
			var records []Record
			for i := range int64(n) {
				records = append(records, seq(i, "e", i+1))
			}
			records[bad].Entity = "alone"
			records[bad].Version = schemas.Version{Kind: schemas.Sequence, Value: 1}
			spoil(&records[bad])
			for i := range records[bad+1:] {
				records[bad+1+i].Version.Value--
			}
			out, err := f.n.Apply(t.Context(), []Slice{slice(d, seq(0, "d", 1)), slice(c, records...)})
			if err != nil {
				t.Fatal(err)
			}
			a := out[1]
			if d := cmp.Diff([]int{bad}, a.Quarantined); d != "" {
				t.Error(d)
			}
			if len(a.Outcomes) != n || len(a.Actions) != n-1 || len(out[0].Actions) != 1 {
				t.Fatalf("%d outcomes, %d and %d actions", len(a.Outcomes), len(a.Actions), len(out[0].Actions))
			}
			for i, o := range a.Outcomes {
				if o.Record != i || (o.Decision == gate.Quarantined) != (i == bad) {
					t.Errorf("outcome %d: %+v", i, o)
				}
			}
			for i, action := range a.Actions {
				if action.LaneSeq != int64(i+1) || records[action.Record].ID != action.EventID {
					t.Errorf("action %d: lane_seq %d of record %d", i, action.LaneSeq, action.Record)
				}
			}
			got := one[string](f, `SELECT log_offset || ' ' || decision || '/' || reason || ' ' || (error <> '')::text || ' ' || (raw IS NOT NULL)::text FROM rejected_records`)
			if got != "633 quarantined/data_rejected true true" {
				t.Error(got)
			}
			if next := one[int](f, `SELECT max(next_offset) FROM progress`); next != n {
				t.Errorf("next offset %d", next)
			}
		})
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

// Backends are killed all the time while batches and results go on, in the middle of what they do and between: everything is
// written, once. The fence's row, which all of it locks, tells the backends of this test from those of others.
func TestKilledBackends(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	killing := f.connect()
	fences := f.cfg.Schema + ".fences"
	var killed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var n int64
			err := killing.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT DISTINCT pid FROM pg_locks WHERE relation = $1::text::regclass AND pid <> pg_backend_pid()) l
				WHERE pg_terminate_backend(pid)`, fences).Scan(&n)
			if err != nil {
				t.Error(err)
				return
			}
			killed.Add(n)
			wait := tick.C
			if killed.Load()%5 == 4 { // now and then it looks the other way, or nothing would ever be done
				wait = time.After(50 * time.Millisecond)
			}
			select {
			case <-ctx.Done():
			case <-wait:
			}
		}
	})
	const least, size = 60, 20
	batches := int64(0)
	for ; batches < least || killed.Load() < 10 && batches < 100*least; batches++ {
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
	}
	stop()
	killer.Wait()
	if t.Logf("%d backends killed in %d batches", killed.Load(), batches); killed.Load() < 10 {
		t.Errorf("only %d backends were killed", killed.Load())
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
		oldWindows: errRotated, possibleDuplicate: fmt.Errorf("apply: %w", errPossibleDuplicate), pg.Permanent: pg.Refuse(errors.New("ours")),
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
