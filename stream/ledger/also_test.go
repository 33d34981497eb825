package ledger

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
)

func also(r Record, key byte) Record {
	r.Also = gate.Also{key}
	return r
}

// TestSecondKeysOfTwoProcesses: of two events with one second key that two processes decide at the same moment, each in a partition of its own,
// one runs and the other is a duplicate; nobody sees an error, whatever the order of the keys in their batches.
func TestSecondKeysOfTwoProcesses(t *testing.T) {
	t.Parallel()
	also10m := func(s *Spec) { s.Policy.Also = 10 * time.Minute }
	f := setup(t, also10m)
	g := f.reopen(func(*Config) {}, also10m)
	claims := [2]*Claim{f.claimed(partition(0), 3, 0), g.claimed(partition(1), 3, 0)}
	const rounds, each = 30, 4
	for round := range int64(rounds) {
		var both sync.WaitGroup
		var ran, repeated [2]int
		for i, p := range []*fixture{f, g} {
			both.Go(func() {
				var records []Record
				for k := range int64(each) {
					key := k
					if i == 1 {
						key = each - 1 - k
					}
					r := also(seq(round*each+k, fmt.Sprintf("p%d-%d-%d", i, round, k), 1), 0)
					r.Also = gate.Also{1, byte(round), byte(key)}
					records = append(records, r)
				}
				out, err := p.n.Apply(t.Context(), []Slice{slice(claims[i], records...)})
				if err != nil || out[0].Refused != nil || out[0].Fenced {
					t.Error(err, out)
					return
				}
				ran[i] = len(out[0].Actions)
				for _, o := range out[0].Outcomes {
					if o.Decision == gate.Duplicate && o.Reason == gate.ReasonKey {
						repeated[i]++
					}
				}
			})
		}
		both.Wait()
		if ran[0]+ran[1] != each || repeated[0]+repeated[1] != each {
			t.Fatalf("round %d: ran %v, repeated %v", round, ran, repeated)
		}
	}
	if n := one[int64](f, `SELECT count(*) FROM events WHERE decision = 'duplicate' AND reason = 'key' AND lane_seq IS NULL`); n != rounds*each {
		t.Errorf("%d rows of duplicates", n)
	}
}

// TestSecondKeysAreSwept: a row goes with the sweep once its time and that of rewinds has passed, and not before.
func TestSecondKeysAreSwept(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Also = time.Minute })
	f.apply(f.claimed(partition(0), 3, 0), also(seq(0, "a", 1), 1), also(seq(1, "b", 1), 2))
	sweep := func() int64 {
		t.Helper()
		if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
			t.Fatal(err)
		}
		return one[int64](f, `SELECT count(*) FROM second_keys`)
	}
	if n := sweep(); n != 2 {
		t.Errorf("%d of 2 are left", n)
	}
	admin(t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; UPDATE second_keys SET gone_at = gone_at - interval '7 days 1 minute' WHERE event_key = (SELECT event_key FROM events WHERE entity = 'a')`)
	if n := sweep(); n != 1 {
		t.Errorf("%d are left, not 1", n)
	}
}

// TestSecondKeysAreNotReprocessed: what another event has said before never ran, so that a replay that runs again what ran leaves it out.
func TestSecondKeysAreNotReprocessed(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Also = 10 * time.Minute })
	c := f.claimed(partition(0), 1, 0)
	records := []Record{also(seq(0, "mention", 1), 1), also(seq(1, "message", 1), 1)}
	f.apply(c, records...)
	known, err := f.n.Known(t.Context(), c.ID, records, false)
	if err != nil || !known[0].Runs(ReplayReprocess) || known[1].Runs(ReplayReprocess) || known[0].Runs(ReplayFill) || known[1].Runs(ReplayFill) {
		t.Errorf("%+v %v", known, err)
	}
}
