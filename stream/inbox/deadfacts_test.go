package inbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What alerts ask of dead letters: how many have died three times, and since when the oldest waits; of those without dead letters nothing.
func TestDeadFacts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	facts := func() []DeadFacts {
		t.Helper()
		var tally Tally
		if err := f.CountAttention(t.Context(), &tally); err != nil || tally.FactsFailed != nil {
			t.Fatal(err, tally.FactsFailed)
		}
		return tally.Dead()
	}
	if found := facts(); found != nil {
		t.Errorf("of no dead letters: %+v", found)
	}
	c := f.claim(0)
	a := f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.die(c, a.Actions[0].LaneSeq, "a-1", 1)
	f.die(c, a.Actions[1].LaneSeq, "b-1", 1)
	f.turnWindow() // those of a closed window count, too
	old := time.Now().Add(-50 * time.Hour).UTC().Truncate(time.Second)
	f.exec(`UPDATE actions SET deaths = 2, finished_at = $1 WHERE lane_seq = $2`, old, a.Actions[1].LaneSeq)
	want := []DeadFacts{{Team: "acme", Subscription: "triage", Repeated: 1, Oldest: old}}
	if d := cmp.Diff(want, facts()); d != "" {
		t.Error(d)
	}
}
