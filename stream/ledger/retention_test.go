package ledger

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
)

// Each subscription keeps what has ended for as long as it says; one that says nothing, as the sweep is told.
func TestRetentionIsTheSubscriptions(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Window, s.Done, s.Dead = time.Hour, 48*time.Hour, 96*time.Hour })
	f.n = f.namespace(func(s *Spec) { // registered again: the newest word counts
		s.Window, s.Done, s.Dead, s.Actions[0].OnDead = time.Hour, 72*time.Hour, 120*time.Hour, Continue
	})
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 2))
	record := func(status Status, lane int64) {
		t.Helper()
		if _, err := f.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: lane, Status: status, Attempt: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	record(Done, 1)
	record(Dead, 2)
	f.turnWindow()
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	age := func(by time.Duration) {
		t.Helper()
		f.ageWindows(by)
		if _, err := f.l.hot.Exec(t.Context(), `UPDATE actions SET finished_at = finished_at - $1::interval`, by); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() bool {
		t.Helper()
		s, err := f.l.Sweep(t.Context(), SweepConfig{Horizon: time.Minute, Done: time.Minute, Dead: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Dropped) > 0
	}
	for _, step := range []struct {
		age  time.Duration
		want bool
		why  string
	}{
		{71 * time.Hour, false, "done is kept for 72h"}, {2 * time.Hour, false, "dead is kept for 120h"}, {46 * time.Hour, false, "119h"}, {2 * time.Hour, true, "121h"},
	} {
		age(step.age)
		if got := dropped(); got != step.want {
			t.Fatalf("%s: dropped %v", step.why, got)
		}
	}
	f.n = f.namespace(func(s *Spec) { s.Window, s.Actions[0].OnDead = time.Hour, Continue })
	if one[bool](f, `SELECT keep_done IS NOT NULL OR keep_dead IS NOT NULL FROM subscriptions`) {
		t.Error("what is not said any more still counts")
	}
}

// What was asked of owners goes when it has ended for as long as dead letters are kept; what is open stays.
func TestSweepForgetsWhatWasAskedLongAgo(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Equal, s.Dead = gate.EqualHold, 240*time.Hour })
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), record(1, "twin", "e", seq(0, "e", 1).Version))
	if _, err := f.ask("twin", Release); err != nil {
		t.Fatal(err)
	}
	f.applyCommands(c)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := f.l.hot.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO backfills (fence, entity, clock, kind, from_value, to_value, reason, source, asked_at, ended_at, failure)
		VALUES ($1, 'e', '', 'sequence', 1, 2, 'gap', '/acme/github', now(), now(), ''), ($1, 'f', '', 'sequence', 1, 2, 'gap', '/acme/github', now(), NULL, NULL)`, c.ID)
	left := func(want int, why string) {
		t.Helper()
		if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
			t.Fatal(err)
		}
		if got := one[int](f, `SELECT (SELECT count(*) FROM commands) + (SELECT count(*) FROM backfills)`); got != want {
			t.Errorf("%s: %d rows, want %d", why, got, want)
		}
	}
	for _, age := range []string{"239 hours", "2 hours"} {
		left(3, "kept for 240 hours")
		exec(`UPDATE commands SET asked_at = asked_at - $1::interval, ended_at = ended_at - $1::interval`, age)
		exec(`UPDATE backfills SET asked_at = asked_at - $1::interval, ended_at = ended_at - $1::interval`, age)
	}
	left(1, "after 241 hours only the open question is left")
}

// A sweep leaves nothing of what is over, however much came since the last one: second keys, results and the like have a row per event, and a sweep
// that leaves some each time never catches up.
func TestSweepForgetsAllThatIsOver(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	const many = 10_001 // more than one statement deletes
	for _, sql := range []string{
		`INSERT INTO second_keys SELECT $1, gen_random_uuid(), gen_random_uuid(), now(), now(), now() FROM generate_series(1, $2) WHERE $3::int > 0`,
		`INSERT INTO sayings SELECT $1, 's', 'e', 'run', gen_random_uuid(), now(), now() FROM generate_series(1, $2) WHERE $3::int > 0`,
		`INSERT INTO results (fence, lane_seq, attempt, epoch, status, digest, ended_at, outcome) SELECT $3, n, 1, 1, 'done', gen_random_uuid(), now() - interval '1 year', 'late' FROM generate_series(1, $2) n WHERE $1::int > 0`,
		`INSERT INTO commands (fence, kind, lane_seq, event_key, entity, clock, asked_by, reason, ended_at, outcome, epoch)
			SELECT $3, 'ask', n, gen_random_uuid(), 'e', '', 'ann', 'x', now() - interval '1 year', 'done', 1 FROM generate_series(1, $2) n WHERE $1::int > 0`,
		`INSERT INTO approvals (subscription, action_id, action, destination, digest, entity, version, source, event_id, type, why, sends, roles, four_eyes, expires_at)
			SELECT $1, gen_random_uuid(), 'run', 'd', sha256(''), 'e', '', 's', 'i', 't', 'w', '', '{approver}', false, now() - interval '1 year' FROM generate_series(1, $2) WHERE $3::int > 0`,
	} {
		if _, err := f.l.hot.Exec(t.Context(), sql, f.n.id, many, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"second_keys", "sayings", "results", "commands", "approvals"} {
		if left := one[int](f, `SELECT count(*) FROM `+table); left != 0 {
			t.Errorf("%d rows of %s are left", left, table)
		}
	}
}
