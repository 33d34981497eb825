package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

func TestZombieWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	zombie := f.claim(0)
	a := f.apply(zombie, seq(0, "e", 1))
	owner := f.claim(0)
	if !owner.Unclean || owner.Epoch != zombie.Epoch+1 || owner.Next.Offset != 1 {
		t.Fatalf("second claim %+v", owner)
	}
	if got := f.apply(zombie, seq(1, "e", 2)); !got.Fenced || got.Outcomes != nil || got.Actions != nil {
		t.Errorf("the zombie's batch: %+v", got)
	}
	fenced, err := f.n.Record(t.Context(), []Result{{Claim: zombie, LaneSeq: a.Actions[0].LaneSeq, Status: Failed, Attempt: 1, Error: "late"}})
	if err != nil || !fenced[zombie.ID] {
		t.Error(fenced, err)
	}
	if got, err := f.n.Expire(t.Context(), zombie); err != nil || !got.Fenced {
		t.Error(got, err)
	}
	if err := f.n.Release(t.Context(), zombie); err != nil {
		t.Error(err)
	}
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{zombie}); err != nil {
		t.Error(err)
	}
	got := one[string](f, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT status FROM `+states+`), (SELECT count(*) FROM attempts),
		(SELECT next_offset FROM progress), (SELECT processed_at FROM progress) < now() - interval '1 day', (SELECT released FROM fences))`)
	if got != "1 pending 0 1 t f" {
		t.Errorf("the zombie left: %s", got)
	}
}

func TestOneFencedSliceAmongSeveral(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a, b, c := f.claim(0), f.claim(1), f.claim(2)
	f.claim(1)
	out, err := f.n.Apply(t.Context(), []Slice{slice(a, seq(0, "a", 1)), slice(b, seq(0, "b", 1)), slice(c, seq(0, "c", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Fenced || !out[1].Fenced || out[2].Fenced {
		t.Error(out[0].Fenced, out[1].Fenced, out[2].Fenced)
	}
	if got := one[string](f, `SELECT string_agg(entity, ',' ORDER BY entity) FROM events`); got != "a,c" {
		t.Error(got)
	}
	fenced, err := f.n.Record(t.Context(), []Result{
		{Claim: a, LaneSeq: 1, Status: Done, Attempt: 1}, {Claim: c, LaneSeq: 1, Status: Done, Attempt: 1},
	})
	if err != nil || len(fenced) != 0 {
		t.Error(fenced, err)
	}
}

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

// waitForLock polls the database until a query counts somebody.
func (f *fixture) waitForLock(sql string, arg int32) {
	f.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if one[int](f, sql, arg) > 0 {
			return
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatal("nobody waits")
		case <-tick.C:
		}
	}
}

func TestConfirmErrorRollsBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.claim(0)
	illegal := errors.New("ILLEGAL_GENERATION")
	_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
		return Start{}, illegal
	}})
	if err != illegal {
		t.Errorf("error %v", err)
	}
	if got := f.apply(old, seq(0, "e", 1)); got.Fenced {
		t.Error("the claim that failed took the fence")
	}
}

func TestClaimRefusesWhatWouldResetSilently(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	to := func(start Start) func(context.Context, *Position) (Start, error) {
		return func(context.Context, *Position) (Start, error) { return start, nil }
	}
	recreated := partition(0)
	recreated.TopicID = TopicID{9}
	tests := map[string]struct {
		req  ClaimRequest
		kind schemas.Kind
	}{
		"recreated topic":         {ClaimRequest{Partition: recreated, Partitions: 8, Confirm: at(0)}, schemas.Conflict},
		"more partitions":         {ClaimRequest{Partition: partition(0), Partitions: 9, Confirm: at(0)}, schemas.Conflict},
		"moved without seek":      {ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: to(Start{Position: Position{Offset: 0}})}, schemas.Internal},
		"seek from elsewhere":     {ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: to(Start{Position: Position{Offset: 5}, Seek: &Seek{From: 3, To: 5}})}, schemas.Internal},
		"partition out of range":  {ClaimRequest{Partition: partition(8), Partitions: 8, Confirm: at(0)}, schemas.Invalid},
		"no confirm":              {ClaimRequest{Partition: partition(0), Partitions: 8}, schemas.Invalid},
		"negative start position": {ClaimRequest{Partition: partition(1), Partitions: 8, Confirm: at(-1)}, schemas.Internal},
	}
	for name, tt := range tests {
		_, err := f.n.Claim(t.Context(), tt.req)
		if schemas.KindOf(err) != tt.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := one[int](f, `SELECT epoch FROM fences WHERE partition = 0`); got != 1 {
		t.Errorf("epoch %d after refusals", got)
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
	status, err := f.l.Subscriptions(t.Context())
	if err != nil || len(status) != 1 || status[0].Seeks != 2 || status[0].Skipped != 7 {
		t.Fatalf("%+v %v", status, err)
	}
	for i, want := range []PastSeek{{From: 3, To: 10, Skipped: 7, Owner: "test"}, {From: 2, Owner: "test"}} {
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
	status, err = f.l.Subscriptions(t.Context())
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

func TestReleaseMakesTheNextClaimClean(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	if c.Unclean {
		t.Error("a first claim is unclean")
	}
	if err := f.n.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if c := f.claim(0); c.Unclean {
		t.Error("unclean after a release")
	}
}

// What an owner that did not release may have attempted goes from claim to claim, until one is released without it.
func TestDoubtGoesFromClaimToClaim(t *testing.T) {
	t.Parallel()
	f := setup(t)
	owner := f.claim(0)
	if owner.DoubtTo != 0 || !owner.DoubtAt.IsZero() {
		t.Errorf("a first claim: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
	}
	f.apply(owner, seq(0, "a", 1), seq(1, "b", 1))
	lost := owner
	owner = f.claim(0)
	near := func(at, want time.Time) bool { return at.Sub(want).Abs() < 30*time.Second }
	if !owner.Unclean || owner.DoubtTo != 3 || !near(owner.DoubtAt, time.Now()) {
		t.Fatalf("unclean: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
	}
	f.exec(`UPDATE fences SET doubt_at = doubt_at - interval '1 hour'`)
	at := time.Now().Add(-time.Hour)
	f.apply(owner, seq(2, "c", 1))
	f.release(lost) // it holds nothing any more
	for range 2 {
		f.release(owner)
		if owner = f.claim(0); owner.Unclean || owner.DoubtTo != 3 || !near(owner.DoubtAt, at) {
			t.Fatalf("released: unclean %v, below %d, at %v, not %v", owner.Unclean, owner.DoubtTo, owner.DoubtAt, at)
		}
	}
	owner = f.claim(0)
	if owner.DoubtTo != 4 || !near(owner.DoubtAt, time.Now()) {
		t.Errorf("unclean again: below %d, at %v", owner.DoubtTo, owner.DoubtAt)
	}
	owner.DoubtTo = 0
	f.release(owner)
	if owner = f.claim(0); owner.Unclean || owner.DoubtTo != 0 {
		t.Errorf("released without: unclean %v, below %d", owner.Unclean, owner.DoubtTo)
	}
}

func TestBeginFirstWins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if began, err := f.n.Began(t.Context()); !began.IsZero() || err != nil {
		t.Fatal(began, err)
	}
	first := map[Partition]int64{partition(0): 5, partition(1): 9}
	for _, offsets := range []map[Partition]int64{first, {partition(0): 77}} {
		got, err := f.n.Begin(t.Context(), offsets)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, got); d != "" {
			t.Error(d)
		}
	}
	if began, err := f.n.Began(t.Context()); began.IsZero() || err != nil {
		t.Error(began, err)
	}
}

// A topic that is taken up later has a beginning of its own, and it too is stored once.
func TestBeginOfATopicAddedLater(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first := partition(0)
	added := Partition{Topic: "events.acme.added", TopicID: TopicID{9}, Number: 0}
	want := map[Partition]int64{first: 5}
	for _, step := range []struct {
		offsets map[Partition]int64
		added   bool
	}{
		{map[Partition]int64{first: 5}, false},
		{nil, false},
		{map[Partition]int64{first: 1, added: 7}, true},
		{map[Partition]int64{added: 8}, true},
	} {
		if step.added {
			want[added] = 7
		}
		got, err := f.n.Begin(t.Context(), step.offsets)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

// Two claims of one fence in one group, the older one a zombie: what is the newer one's is written, and nothing else. The
// fence that both name is held.
func TestRecordTellsClaimsOfOneFenceApart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	zombie := f.claim(0)
	f.apply(zombie, seq(0, "a", 1), seq(1, "b", 1))
	owner := f.claim(0)
	for _, results := range [][]Result{
		{{Claim: zombie, LaneSeq: 1, Status: Dead, Attempt: 1}, {Claim: owner, LaneSeq: 2, Status: Done, Attempt: 1}},
		{{Claim: owner, LaneSeq: 2, Status: Done, Attempt: 1}, {Claim: zombie, LaneSeq: 1, Status: Dead, Attempt: 1}},
	} {
		if _, err := f.n.Record(t.Context(), results); err == nil {
			t.Error("two claims of one fence were taken")
		}
	}
	if got := one[string](f, `SELECT string_agg(status, ' ' ORDER BY lane_seq) FROM `+states); got != "pending pending" {
		t.Error(got)
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
