package ledger

import (
	"strings"
	"testing"
)

// The windows turn while a claim waits for the fence, and the owner before writes into the new one: the next owner knows
// where its actions are, or their completion would go nowhere and they would run again after the next restart.
func TestClaimKnowsTheWindowsOfItsLock(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.claim(0)
	f.apply(old, seq(0, "a", 1))
	inFlight := f.connect()
	tx, err := inFlight.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM fences WHERE id = $1 FOR KEY SHARE`, old.ID); err != nil {
		t.Fatal(err)
	}
	other := f.namespace() // another process
	claimed := make(chan *Claim, 1)
	go func() {
		c, err := other.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
		if err != nil {
			t.Error(err)
		}
		claimed <- c
	}()
	f.waitForLock(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%' AND $1 = ANY (pg_blocking_pids(pid))`, int32(inFlight.PgConn().PID()))
	f.turnWindow()
	f.apply(old, seq(1, "b", 1))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := <-claimed
	if c == nil {
		return
	}
	fenced, err := other.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}, {Claim: c, LaneSeq: 2, Status: Done, Attempt: 1}})
	if err != nil || len(fenced) != 0 {
		t.Fatal(fenced, err)
	}
	if got := one[string](f, `SELECT string_agg(status, ' ') FROM `+states); got != "done done" {
		t.Errorf("recorded as done, and the rows say %s", got)
	}
}

// A COMMIT is in doubt, the windows turn, and a result that is recorded meanwhile learns of it first: the actions of the
// batch are where the batch wrote them.
func TestWindowsTurnWhileACommitIsInDoubt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	w := &partitionBatch{Slice: slice(c, seq(0, "a", 1)), scratch: scratches.Get().(*scratch)}
	w.reset()
	if _, err := (batchWriter{f.n}).attempt(t.Context(), []*partitionBatch{w}); err != nil {
		t.Fatal(err)
	}
	c.spans, c.laneSeq = nil, 1 // as it was before
	c.revision.Add(-1)
	f.turnWindow()
	if err := f.n.loadWindows(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := batchWriter{f.n}.wasCommitted(t.Context(), []*partitionBatch{w})
	if err != nil || !done {
		t.Fatal(done, err)
	}
	if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](f, `SELECT string_agg(status, ' ') FROM `+states); strings.TrimSpace(got) != "done" {
		t.Errorf("recorded as done, and the row says %s", got)
	}
}
