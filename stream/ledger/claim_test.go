package ledger

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A claim waits for the batch in flight, and a batch that comes while a claim is being confirmed is fenced by it.
func TestClaimWaitsForBatchAndBatchForClaim(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.claim(0)
	inFlight := f.connect()
	tx, err := inFlight.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM fences WHERE id = $1 FOR KEY SHARE`, old.ID); err != nil {
		t.Fatal(err)
	}
	confirming, finish := make(chan struct{}), make(chan struct{})
	claimed := make(chan error, 1)
	go func() {
		_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(ctx context.Context, p *Position) (Start, error) {
			close(confirming)
			<-finish
			return Start{Position: *p}, nil
		}})
		claimed <- err
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%' AND $1 = ANY (pg_blocking_pids(pid))`, int32(inFlight.PgConn().PID()))
	claiming := one[int32](f, `SELECT pid FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, int32(inFlight.PgConn().PID()))
	select {
	case <-confirming:
		t.Fatal("the claim confirmed while a batch held the fence")
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-confirming
	applied := make(chan Applied, 1)
	go func() {
		out, err := f.n.Apply(t.Context(), []Slice{slice(old, seq(0, "e", 1))})
		if err != nil {
			t.Error(err)
			out = []Applied{{}}
		}
		applied <- out[0]
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fenceCheck%' AND $1 = ANY (pg_blocking_pids(pid))`, claiming)
	select {
	case a := <-applied:
		t.Fatalf("the batch did not wait for the claim: %+v", a)
	default:
	}
	close(finish)
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
	if got := <-applied; !got.Fenced {
		t.Errorf("the batch that came late: %+v", got)
	}
}

// waitPatience is how long a test waits for somebody to wait for a lock.
const waitPatience = 30 * time.Second

// waitForLock polls the database until a query counts somebody, or one of the others is closed.
func (f *fixture) waitForLock(sql string, arg int32, or ...chan struct{}) {
	f.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(waitPatience); ; {
		if one[int](f, sql, arg) > 0 {
			return
		}
		for _, other := range or {
			select {
			case <-other:
				return
			default:
			}
		}
		select {
		case <-limit:
			f.t.Fatal("nobody waits")
		case <-tick.C:
		}
	}
}

func TestSeekIsRecordedAndRewindSkipsWhatIsDone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1), seq(1, "e", 2))
	c := f.seek(2, 0)
	if got := f.apply(c, seq(0, "e", 1), seq(1, "e", 2), seq(2, "e", 3)); len(got.Actions) != 1 || got.Actions[0].LaneSeq != 3 {
		t.Errorf("after a rewind %v %v", decisions(got), lanes(got.Actions))
	}
	c = f.seek(3, 10)
	if c.Next.Offset != 10 || c.Seek == nil {
		t.Errorf("%+v", c.Next)
	}
	status, err := f.partitions()
	if err != nil || len(status) != 1 || status[0].Seeks != 2 || status[0].Skipped != 7 {
		t.Fatalf("%+v %v", status, err)
	}
	for i, want := range []seenSeek{{From: 3, To: 10, Skipped: 7, Owner: "test"}, {From: 2, Owner: "test"}} {
		got := status[0].LastSeeks[i]
		if found := time.Since(got.FoundAt); found < -time.Minute || found > 10*time.Minute {
			t.Errorf("found %s ago", found)
		}
		got.FoundAt = time.Time{}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for i := range int64(5) {
		f.seek(10+i, 11+i)
	}
	status, err = f.partitions()
	if err != nil || status[0].Seeks != 7 || len(status[0].LastSeeks) != 5 || status[0].LastSeeks[0].To != 15 {
		t.Errorf("%+v %v", status, err)
	}
}

// startAt is a Confirm that moves by an operator's seek.
func startAt(from, to int64) func(context.Context, *Position) (Start, error) {
	return func(context.Context, *Position) (Start, error) {
		return Start{Position: Position{Offset: to, LeaderEpoch: -1}, Seek: &Seek{From: from, To: to}}, nil
	}
}

func TestProgressNeverGoesBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(7, "e", 2)) // offsets have holes
	refused := func(what string, s Slice, stored, from int64) {
		t.Helper()
		out, err := f.n.Apply(t.Context(), []Slice{s})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		gap, ok := errors.AsType[*ContinuityError](out[0].Refused)
		if !ok || gap.Stored != stored || gap.From != from || gap.Partition != s.Claim.Partition {
			t.Errorf("%s: refused for %v", what, out[0].Refused)
		}
	}
	refused("behind the claim's own position", Slice{Claim: c, From: 7, Records: []Record{seq(7, "e", 2)}, Next: Position{Offset: 8}}, 8, 7)
	refused("a gap", Slice{Claim: c, From: 9, Records: []Record{seq(9, "e", 3)}, Next: Position{Offset: 10}}, 8, 9)
	refused("records that do not ascend", Slice{Claim: c, From: 8, Records: []Record{seq(9, "e", 3), seq(8, "e", 4)}, Next: Position{Offset: 10}}, 8, 8)
	refused("a next offset within", Slice{Claim: c, From: 8, Records: []Record{seq(8, "e", 3)}, Next: Position{Offset: 8}}, 8, 8)
	stale := Claim{ID: c.ID, Partition: c.Partition, Epoch: c.Epoch, Token: c.Token, Next: Position{Offset: 3}}
	stale.cache, stale.laneSeq = newLineCache(0), 1
	stale.revision = c.revision - 1
	refused("with an old revision", Slice{Claim: &stale, From: 3, Records: []Record{seq(3, "e", 5)}, Next: Position{Offset: 4}}, 8, 3)
	stale.revision = c.revision
	refused("before the stored offset", Slice{Claim: &stale, From: 3, Records: []Record{seq(3, "e", 5)}, Next: Position{Offset: 4}}, 8, 3)
	stale.Next.Offset = 20
	refused("ahead of the stored offset", Slice{Claim: &stale, From: 20, Records: []Record{seq(20, "e", 5)}, Next: Position{Offset: 21}}, 8, 20)
	f.apply(c, seq(100, "e", 3))
	if out, err := f.n.Apply(t.Context(), []Slice{{Claim: c, From: 101, Next: Position{Offset: 200}}}); err != nil || len(out[0].Outcomes) != 0 {
		t.Error(out, err) // control records only
	}
	if got := one[int](f, `SELECT next_offset FROM progress`); got != 200 {
		t.Errorf("next offset %d", got)
	}
}

// A batch locks progress by fence, whatever the order of its slices, as results do that move the mark of their claims:
// in the order of arrival the two would meet head on.
func TestBatchLocksProgressInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	low, high := f.claim(0), f.claim(1)
	conn := f.connect()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM progress WHERE fence = $1 FOR UPDATE`, low.ID); err != nil {
		t.Fatal(err)
	}
	applied := make(chan []Applied, 1)
	go func() {
		out, err := f.n.Apply(t.Context(), []Slice{slice(high, seq(0, "b", 1)), slice(low, seq(0, "a", 1))})
		if err != nil {
			t.Error(err)
		}
		applied <- out
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(conn.PgConn().PID()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM progress WHERE fence = $1 FOR UPDATE NOWAIT`, high.ID); err != nil {
		t.Errorf("the batch locked the higher fence's progress first: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := <-applied; len(out) != 2 || out[0].Claim != high || out[1].Claim != low {
		t.Errorf("%+v", out)
	}
}
