package inbox

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// plan stores a plan of the first 40 offsets of partitions, which is counted.
func (f *fixture) plan(claims ...*ledger.Claim) *Replay {
	f.t.Helper()
	r := &Replay{Subscription: "acme.triage", Mode: ledger.ReplayFill, Config: "digest", Rate: 10, MaxErrors: 3, PlannedBy: "jo"}
	for _, c := range claims {
		r.Bounds = append(r.Bounds, ReplayBounds{Fence: c.ID, Topic: c.Partition.Topic, TopicID: TopicIDText(c.Partition.TopicID), Partition: c.Partition.Number, Partitions: 8, To: 40, Counted: 40})
	}
	id, err := f.SaveReplay(f.t.Context(), r)
	if err == nil {
		r.ID = id
		err = f.CountReplay(f.t.Context(), r, r.Bounds, true)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) start(r *Replay) {
	f.t.Helper()
	if err := f.StartReplay(f.t.Context(), r, "jo", "it was left out", 0); err != nil {
		f.t.Fatal(err)
	}
}

// waitForBlocked waits until somebody waits for a lock of a connection.
func (f *fixture) waitForBlocked(by *pgx.Conn) {
	f.t.Helper()
	for one[int](f, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(by.PgConn().PID())) == 0 {
		if _, err := f.eye.Exec(f.t.Context(), `SELECT pg_sleep(0.01)`); err != nil {
			f.t.Fatal(err)
		}
	}
}

// A cancellation waits for the step that is under way, which locks its part first and may write what refers to the replay last. Neither waits for the other.
func TestCancelWaitsForTheStepUnderWay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.plan(f.claim(0))
	f.start(r)
	owner := f.connect()
	step, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer step.Rollback(context.WithoutCancel(t.Context()))
	// The step is the one that a deadlock would end.
	if _, err := step.Exec(t.Context(), `SET LOCAL deadlock_timeout = '50ms'; SELECT next_offset FROM replay_parts WHERE ended_at IS NULL FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan error, 1)
	go func() { cancelled <- f.CancelReplay(t.Context(), r.ID, "jo", "not that one") }()
	f.waitForBlocked(owner)
	if _, err := step.Exec(t.Context(), `SELECT FROM replays FOR KEY SHARE`); err != nil {
		t.Errorf("the step is ended by the cancellation: %v", err)
	}
	if err := step.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if got, err := f.Replay(t.Context(), r.ID); err != nil || got.State() != ReplayCancelled || got.Parts[0].Failure == nil || *got.Parts[0].Failure != "cancelled" {
		t.Errorf("%+v %v", got, err)
	}
	if err := f.CancelReplay(t.Context(), r.ID, "jo", "again"); schemas.KindOf(err) != schemas.Conflict {
		t.Error(err)
	}
	if err := f.CancelReplay(t.Context(), r.ID+1, "jo", "another"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
}

// A cancellation that Postgres ends for a deadlock is tried again.
func TestCancelThatADeadlockEndsIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.plan(f.claim(0))
	f.start(r)
	other := f.connect()
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SET LOCAL deadlock_timeout = '60s'; SELECT 1 FROM replay_parts FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	cancelled := make(chan error, 1)
	go func() { cancelled <- f.CancelReplay(ctx, r.ID, "jo", "not that one") }()
	f.waitForBlocked(other)
	if _, err := tx.Exec(ctx, `SELECT 1 FROM replays FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
}

// A team's replays are found behind as many of others as a list has.
func TestReplaysOfATeam(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	own := f.plan(c)
	f.namespace(func(s *ledger.Spec) { s.Name = "pay.charge" })
	for range 2 {
		if _, err := f.SaveReplay(t.Context(), &Replay{Subscription: "pay.charge", Bounds: []ReplayBounds{}, Mode: ledger.ReplayFill, Config: "digest", Rate: 10, MaxErrors: 3, PlannedBy: "jo"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		team, subscription string
		want               int
	}{{"acme", "", 1}, {"", "acme.triage", 1}, {"acme", "acme.triage", 1}, {"pay", "", 2}, {"pay", "acme.triage", 0}, {"", "", 2}, {"ac", "", 0}} {
		list, err := f.Replays(t.Context(), tt.team, tt.subscription, math.MaxInt64, 2)
		if err != nil || len(list) != tt.want || tt.want == 1 && list[0].ID != own.ID {
			t.Errorf("%q %q: %+v %v", tt.team, tt.subscription, list, err)
		}
	}
	if list, err := f.Replays(t.Context(), "", "", own.ID+2, 2); err != nil || len(list) != 2 || list[0].ID != own.ID+1 || list[1].ID != own.ID {
		t.Errorf("below the newest: %+v %v", list, err)
	}
}

// Of two starts at once one is made, whether of one plan or of two for different partitions: the other says so.
func TestOneOfTwoStartsIsMade(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"of one plan": true, "of two plans": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			a := f.plan(f.claim(0))
			b := a
			if !same {
				b = f.plan(f.claim(1))
			}
			holder := f.connect()
			tx, err := holder.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			if _, err := tx.Exec(t.Context(), `SELECT FROM subscriptions FOR UPDATE`); err != nil {
				t.Fatal(err)
			}
			answers := make(chan error, 2)
			for _, r := range []*Replay{a, b} {
				go func() { answers <- f.StartReplay(t.Context(), r, "jo", "it was left out", 0) }()
			}
			for one[int](f, `WITH RECURSIVE blocked AS (SELECT $1::int AS pid UNION SELECT a.pid FROM pg_stat_activity a, blocked b WHERE b.pid = ANY (pg_blocking_pids(a.pid)))
				SELECT count(*) FROM blocked`, int32(holder.PgConn().PID())) < 3 {
				f.exec(`SELECT pg_sleep(0.01)`)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			made, refused := <-answers, <-answers
			if made != nil {
				made, refused = refused, made
			}
			if made != nil || schemas.KindOf(refused) != schemas.Conflict || !strings.Contains(refused.Error(), "forebay replay") {
				t.Errorf("made: %v; refused: %v", made, refused)
			}
			if n := one[int](f, `SELECT count(*) FROM replay_parts`); n != 1 {
				t.Errorf("%d parts", n)
			}
		})
	}
}

// A replay of a subscription that is not configured any more ends once nobody has worked on it for a while, and another one of the same
// subscription can be started then.
func TestReplayOfARemovedSubscriptionEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	r := f.plan(c)
	f.start(r)
	ends := func(what string, want int, gone ...string) {
		t.Helper()
		ids, err := f.EndReplaysAlone(t.Context(), gone)
		if err != nil || len(ids) != want {
			t.Errorf("%s: %v %v", what, ids, err)
		}
	}
	ends("somebody runs it", 0, "acme.triage")
	f.exec(`UPDATE fences SET claimed_at = now() - interval '2 hours'`)
	f.exec(`UPDATE progress SET processed_at = now() - interval '2 hours'`)
	ends("it was started just now", 0, "acme.triage")
	f.exec(`UPDATE replays SET planned_at = now() - interval '2 hours', started_at = now() - interval '2 hours'`)
	ends("it is configured", 0, "acme.other")
	decides := func(long time.Duration) {
		t.Helper()
		if err := f.l.NoteDecider(t.Context(), &ledger.Decider{ID: [16]byte{1}, By: map[string]ledger.DecidesBy{"acme.triage": {}}}, long, map[string]map[string]string{}); err != nil {
			t.Fatal(err)
		}
	}
	decides(time.Hour)
	ends("a process decides for it, by a file that this one has not", 0, "acme.triage")
	decides(-time.Minute) // it is not heard of any more
	ends("nobody runs it", 1, "acme.triage")
	ends("it has ended", 0, "acme.triage")
	got, err := f.Replay(t.Context(), r.ID)
	if err != nil || got.State() != ReplayFailed || *got.Parts[0].Failure != "left" || !strings.Contains(got.Parts[0].Detail, "not configured any more") {
		t.Errorf("%+v %v", got, err)
	}
	f.start(f.plan(c))
}
