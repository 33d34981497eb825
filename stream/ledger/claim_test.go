package ledger

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A claim waits for the batch in flight.
func TestClaimWaitsForBatch(t *testing.T) {
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
	confirming, claimed := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(_ context.Context, p *Position) (Start, error) {
			close(confirming)
			return Start{Position: *p}, nil
		}})
		claimed <- err
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%' AND $1 = ANY (pg_blocking_pids(pid))`, int32(inFlight.PgConn().PID()))
	select {
	case <-confirming:
		t.Fatal("the claim confirmed while a batch held the fence")
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
}

// waitPatience is how long a test waits for somebody to wait for a lock.
const waitPatience = time.Minute

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

// What the suite cannot say: a claim that does not know where the ledger stands, or of which revision, is refused by the row itself.
func TestProgressNeverGoesBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(7, "e", 2))
	for _, tt := range []struct {
		what           string
		revision, from int64
	}{{"with an old revision", -1, 3}, {"before the stored offset", 0, 3}, {"ahead of the stored offset", 0, 20}} {
		stale := Claim{ID: c.ID, Partition: c.Partition, Epoch: c.Epoch, Token: c.Token, Next: Position{Offset: tt.from}}
		stale.cache, stale.laneSeq = newLineCache(0), 1
		stale.revision.Store(c.revision.Load() + tt.revision)
		out, err := f.n.Apply(t.Context(), []Slice{slice(&stale, seq(tt.from, "e", 5))})
		if err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if gap, ok := errors.AsType[*ContinuityError](out[0].Refused); !ok || gap.Stored != 8 || gap.From != tt.from {
			t.Errorf("%s: refused for %v", tt.what, out[0].Refused)
		}
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

// A partition that stands still is claimed every few seconds, for ever: no claim but a fence's first one uses up an id.
func TestClaimsUseUpNoIDs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.claim(0)
	ids := func() int64 {
		return one[int64](f, `SELECT last_value FROM fences_id_seq`)
	}
	before := ids()
	for range 10 {
		f.standing(0) // of a claim that fails
		f.claim(0)
	}
	if got := ids(); got != before {
		t.Errorf("%d ids are used up", got-before)
	}
	if c := f.claim(1); one[int64](f, `SELECT id FROM fences WHERE partition = 1`) != int64(c.ID) {
		t.Errorf("the new fence is %d", c.ID)
	}
}
