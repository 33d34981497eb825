package lane

import (
	"fmt"
	"sync"
	"testing"
	"time"

	stored "github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
)

// eventually waits for what the database and the lanes come to agree on.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		if time.Since(began) > patience {
			t.Fatalf("not so after %s: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *real) statusOf(ref ledger.AttemptRef) ledger.Status {
	r.t.Helper()
	s, err := stored.New(r.l).ActionState(r.t.Context(), ref)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Status
}

// The owner is killed with work out, a result and heartbeats come in meanwhile, and the next owner goes on with them: from the
// times that Postgres has, with nothing twice.
func TestPostgresLongWorkOverARestart(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.stop()
	r.long = LongPolicy{Deadline: time.Hour, Heartbeat: 5 * time.Second}
	r.start()
	r.sink.do = take
	fence, epoch := r.claim.ID, r.claim.Epoch
	ref := func(seq int64) ledger.AttemptRef {
		return ledger.AttemptRef{Fence: fence, LaneSeq: seq, Attempt: 1, Epoch: epoch}
	}
	var beats sync.WaitGroup
	ended := make(chan struct{})
	defer func() { close(ended); beats.Wait() }()
	for i, name := range []string{"reported", "silent", "beating"} { // one after the other, so that lane_seq is known
		r.feed(name)
		eventually(t, name+" is processing", func() bool {
			return len(r.openActions()) == i+1 && r.statusOf(ref(int64(i+1))) == ledger.Processing
		})
	}
	beats.Go(func() {
		for {
			if _, err := stored.New(r.l).Beat(t.Context(), ref(3)); err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ended:
				return
			}
		}
	})
	r.feed("reported", "silent", "beating") // behind them
	r.stop()                                // without a word: the fence is not released
	if state, err := stored.New(r.l).Report(t.Context(), ledger.Report{AttemptRef: ref(1), Status: ledger.Done, Code: 200}); err != nil || state != stored.Recorded {
		t.Fatal(state, err)
	}
	r.start()
	same(t, "the claim is unclean", r.claim.Unclean, true)
	eventually(t, "what was silent is attempted again, and what was behind the reported one ran", func() bool {
		return len(calls(r, "silent")) >= 2 && len(calls(r, "reported")) >= 2
	})
	same(t, "calls", fmt.Sprint(calls(r, "reported")[:2], calls(r, "silent")[:2]), "[reported#1/1 reported#4/1] [silent#2/1 silent#2/2]")
	same(t, "reported", r.statusOf(ref(1)), ledger.Done)
	same(t, "beating", r.statusOf(ref(3)), ledger.Processing)
	same(t, "beating is called once", fmt.Sprint(calls(r, "beating")), "[beating#3/1]")
	checkOrderOf(t, r)
}
