package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ageWindows makes closed windows old by the given time.
func (f *fixture) ageWindows(by time.Duration) {
	f.t.Helper()
	if _, err := f.l.hot.Exec(f.t.Context(), `UPDATE windows SET opened_at = opened_at - $1::interval, closed_at = closed_at - $1::interval WHERE state = 'closed'`, by); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) sweep() Swept {
	f.t.Helper()
	s, err := f.l.Sweep(f.t.Context(), SweepConfig{Horizon: time.Hour, Done: time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// Batches, results and rotations at once: everything once, and every window's rows where its claim thinks they are.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	f := setup(t)
	done := make(chan error, 2)
	for p := range int32(2) {
		c := f.claim(p)
		go func() {
			for b := range int64(60) {
				records := []Record{seq(2*b, "e"+string('0'+p), 2*b+1), seq(2*b+1, "e"+string('0'+p), 2*b+2)}
				out, err := f.n.Apply(t.Context(), []Slice{slice(c, records...)})
				if err == nil {
					var results []Result
					for _, a := range out[0].Actions {
						results = append(results, Result{Claim: c, LaneSeq: a.LaneSeq, Status: Done, Attempt: 1})
					}
					_, err = f.n.Record(t.Context(), results)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 6 {
		f.turnWindow()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	got := one[string](f, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT count(DISTINCT event_key) FROM events), (SELECT count(*) FROM `+states+` WHERE status = 'done'))`)
	if d := cmp.Diff("240 240 240", got); d != "" {
		t.Error(d)
	}
}

// The partitions of a topic that was created again, or left for a copy, read nothing any more: they keep no window. Who wants
// to return to a topic whose copy is read is refused, and keeps none either.
func TestTopicsThatAreLeftKeepNoWindow(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*fixture) Partition{
		"created again": func(f *fixture) Partition {
			f.exec(`UPDATE topics SET topic_id = $1`, [16]byte{9}) // as the claim does that rests on the acceptance
			return Partition{Topic: partition(0).Topic, TopicID: TopicID{9}}
		},
		"handed over": func(f *fixture) Partition {
			h := f.handOver()
			if _, err := f.l.HandOver(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			return h.To
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c := f.claimed(partition(0), 3, 0)
			f.apply(c, seq(0, "e", 1))
			f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
			f.turnWindow()
			if err := f.n.CaughtUp(t.Context(), time.Now().Add(-time.Hour), []*Claim{c}); err != nil { // its mark
				t.Fatal(err)
			}
			to := leave(f)
			f.ageWindows(200 * time.Hour)
			f.exec(`UPDATE progress SET processed_at = now() - interval '300 hours'`)
			var claims []*Claim
			for to.Number = range int32(3) {
				claims = append(claims, f.claimed(to, 3, 0))
			}
			if err := f.n.CaughtUp(t.Context(), time.Now(), claims[:2]); err != nil {
				t.Fatal(err)
			}
			if s := f.sweep(); s.Dropped != nil {
				t.Fatal("dropped although a partition of the new topic has not been read")
			}
			if name == "handed over" {
				f.refused(partition(0), "has gone over to") // and keeps nothing by that
			}
			if err := f.n.CaughtUp(t.Context(), time.Now(), claims); err != nil {
				t.Fatal(err)
			}
			if s := f.sweep(); len(s.Dropped) != 1 {
				t.Errorf("dropped %v", s.Dropped)
			}
		})
	}
}

// An event waited in one window and ran in the next; what waits beside it keeps the first, the second is dropped. What ran
// has not come back with that.
func TestStatusOfWhatRanInADroppedWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "z", 1), seq(3, "z", 3))
	f.turnWindow()
	f.apply(c, seq(4, "e", 2))
	var results []Result
	for lane := range int64(4) {
		results = append(results, Result{Claim: c, LaneSeq: lane + 1, Status: Done, Attempt: 1})
	}
	f.record(results...)
	f.turnWindow()
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	f.ageWindows(200 * time.Hour)
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Fatalf("dropped %v", s.Dropped)
	}
	item, err := f.item("e-3")
	if err != nil || item.Status != "done" {
		t.Errorf("%q %v", item.Status, err)
	}
	items, err := f.list("received", "")
	if err != nil || len(items) != 0 {
		t.Errorf("%+v %v", items, err)
	}
	if open := f.open(f.claim(0)); len(open) != 0 {
		t.Error(open)
	}
}

// Whoever says that partitions are read to their end may have a clock that is wrong: no window goes for a time that has not come.
func TestTimesToComeDropNoWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	ahead := seq(0, "e", 1)
	ahead.AppendTime = time.Now().Add(1000 * time.Hour) // of a broker, or a producer's
	a := f.apply(c, ahead)
	f.record(Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, Status: Done, Attempt: 1})
	f.turnWindow()
	f.exec(`UPDATE subscriptions SET dedupe = '1 second'`)
	f.exec(`UPDATE windows SET closed_at = closed_at - interval '59 minutes' WHERE state = 'closed'`) // an hour is the horizon
	caughtUp := func(at time.Time) {
		t.Helper()
		if err := f.n.CaughtUp(t.Context(), at, []*Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp(time.Now().Add(time.Hour))
	if one[bool](f, `SELECT processed_at > now() FROM progress`) {
		t.Error("processed up to a time to come")
	}
	// By the time that the horizon is past, nothing says that the partition has been read since.
	f.exec(`UPDATE windows SET closed_at = closed_at - interval '2 minutes' WHERE state = 'closed'`)
	f.exec(`UPDATE progress SET processed_at = processed_at - interval '2 minutes'`)
	if s := f.sweep(); s.Dropped != nil {
		t.Fatalf("dropped %v", s.Dropped)
	}
	now, err := f.n.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	caughtUp(now)
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Errorf("dropped %v", s.Dropped)
	}
}

// What fails of one subscription is said of that one, which is left out for a while when it fails again and again; the others are swept.
// Once it works again nothing is held against it.
func TestSubscriptionsAreSweptOnTheirOwn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	other := f.namespace(func(s *Spec) { s.Name = "acme.other" })
	spoil := func() {
		f.exec(`UPDATE windows SET opened_at = opened_at - interval '48 hours' WHERE state = 'current'`) // all are to turn
		f.exec(`CREATE FUNCTION spoilt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.subscription = ` + fmt.Sprint(f.n.id) + ` THEN RAISE insufficient_privilege; END IF; RETURN NEW; END $$`)
		f.exec(`CREATE TRIGGER spoilt BEFORE UPDATE ON windows FOR EACH ROW EXECUTE FUNCTION spoilt()`) // and one cannot
	}
	sweeps := func(n int) (failed int) {
		for range n {
			s, err := f.l.Sweep(t.Context(), SweepConfig{})
			if err == nil {
				continue
			}
			if failed++; !strings.Contains(err.Error(), "subscription acme.triage: ") || strings.Contains(err.Error(), "acme.other") {
				t.Error(err)
			}
			if failed == 1 && len(s.Opened) != 1 {
				t.Errorf("opened %v", s.Opened)
			}
		}
		return failed
	}
	spoil()
	if failed := sweeps(7); failed != 3 { // the first, the second, not the third, the fourth, and not the three behind it
		t.Errorf("tried %d times in seven sweeps", failed)
	}
	if n := one[int](f, `SELECT count(*) FROM windows WHERE subscription = $1`, other.id); n != 3 {
		t.Errorf("the other has %d windows", n)
	}
	f.exec(`DROP FUNCTION spoilt() CASCADE`)
	// It is left out of at most fifteen in a row.
	if failed := sweeps(16); failed > 0 || one[int](f, `SELECT count(*) FROM windows WHERE subscription = $1`, f.n.id) != 3 {
		t.Errorf("failed %d times once it may", failed)
	}
	spoil()
	if failed := sweeps(2); failed != 2 {
		t.Errorf("tried %d times in two sweeps, after it had worked", failed)
	}
}

// What has locked the current window for long holds up the next one, and nothing else of the sweep. An autovacuum goes away once somebody has waited for
// deadlock_timeout, as the session here does, and the rotation waits for that.
func TestRotationOutlastsAnAutovacuum(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	a := f.apply(c, seq(0, "e", 1))
	f.record(Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, Status: Done, Attempt: 1})
	f.turnWindow()
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	f.ageWindows(200 * time.Hour)
	f.exec(`UPDATE windows SET opened_at = opened_at - interval '48 hours' WHERE state = 'current'`)
	vacuum, locks := f.connect(), `BEGIN; LOCK TABLE `+one[string](f, `SELECT 'events_w' || id FROM windows WHERE state = 'current'`)+` IN SHARE UPDATE EXCLUSIVE MODE`
	vacuums := func(sql string) {
		t.Helper()
		if _, err := vacuum.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	vacuums(locks)
	if s := f.sweep(); s.Opened != nil || len(s.Dropped) != 1 {
		t.Fatalf("opened %v, dropped %v", s.Opened, s.Dropped)
	}
	for opened := false; !opened; { // more than once only where this test is late to see that somebody waits
		swept := make(chan struct{})
		go func() {
			defer close(swept)
			s, err := f.l.Sweep(t.Context(), SweepConfig{})
			if err != nil {
				t.Error(err)
			}
			opened = err != nil || len(s.Opened) == 1
		}()
		f.waitForLock(`SELECT count(*) FROM pg_locks WHERE waitstart < clock_timestamp() - interval '1 second' AND $1 = ANY (pg_blocking_pids(pid))`, int32(vacuum.PgConn().PID()), swept)
		vacuums(`COMMIT`)
		if <-swept; !opened {
			vacuums(locks)
		}
	}
}

// A window that somebody reads for long is not dropped, and nobody is made to wait for that.
func TestDropQueuesNobodyBehindAReader(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	a := f.apply(c, seq(0, "e", 1))
	f.record(Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	now, err := f.n.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.apply(c, seq(1, "e", 2)) // the windows have turned for it, and every statement is prepared
	if err := f.n.CaughtUp(t.Context(), now, []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	reader := f.connect()
	if _, err := reader.Exec(t.Context(), `BEGIN; SELECT count(*) FROM events`); err != nil { // of all windows
		t.Fatal(err)
	}
	swept := make(chan Swept, 1)
	go func() {
		s, err := f.l.Sweep(t.Context(), SweepConfig{Horizon: time.Hour, Done: time.Hour})
		if err != nil {
			t.Error(err)
		}
		swept <- s
	}()
	var longest time.Duration
	for next, ended := int64(2), false; !ended; next++ {
		began := time.Now()
		f.apply(c, seq(next, "e", next+1))
		if _, err := f.list("", ""); err != nil { // which asks for all windows, and always meets a DROP that waits
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		select {
		case s := <-swept:
			if ended = true; len(s.Dropped) != 0 {
				t.Errorf("dropped %v", s.Dropped)
			}
		default:
		}
	}
	if t.Logf("the longest batch and question took %s", longest); longest > 15*time.Second { // a DROP that waits for its lock gives up after 25 s
		t.Errorf("somebody waited %s", longest)
	}
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Errorf("once nobody reads: dropped %v", s.Dropped)
	}
}
