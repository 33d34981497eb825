package ledger

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// A beat tells those who look for it what others have changed, once, with no notification of the server's: what says commands, seeks and replays
// is not run here, as where one was lost.
func TestBeatTellsWhatIsNew(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	conn := f.connect()
	exec := func(sql string, args ...any) func() {
		return func() {
			if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	exec(`SET session_replication_role = replica`)() // no trigger runs
	var told []string
	l := newLooker(f)
	l.news.tell = func(payload string) { told = append(told, payload) }
	own := strconv.Itoa(int(f.n.id))
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"the first beat of a connection", func() {}, []string{newsPauses}},
		{"nothing", func() {}, nil},
		{"a pause of a subscription", exec(`INSERT INTO subscription_pauses (subscription, paused_by, reason) VALUES ('acme.x', 'ann', 'r')`), []string{newsPauses}},
		{"its end", exec(`UPDATE subscription_pauses SET ended_at = now(), ended_by = 'ann', ended_reason = 'r'`), []string{newsPauses}},
		{"a pause of a destination", exec(`INSERT INTO pauses (destination, paused_by, class, reason) VALUES ('acme/x', 'ann', '', 'r')`), []string{newsPauses}},
		{"its end", exec(`UPDATE pauses SET ended_at = now(), ended_by = 'ann', ended_reason = 'r'`), []string{newsPauses}},
		{"a destination that fails", exec(`INSERT INTO destinations (name, failing_since) VALUES ('acme/x', now())`), []string{newsPauses}},
		{"and is away", exec(`UPDATE destinations SET away_since = now()`), []string{newsPauses}},
		{"and is back", exec(`DELETE FROM destinations`), []string{newsPauses}},
		{"another process", exec(`INSERT INTO members VALUES ($1, 'x', 4711, now())`, f.n.id), []string{newsPauses}},
		{"a command", exec(`INSERT INTO commands (fence, kind, lane_seq, event_key, entity, clock, asked_by, reason) VALUES ($1, 'replay', 1, $2, 'e', '', 'ann', 'r')`, c.ID, [16]byte{1}), []string{own}},
		{"the same, still open", func() {}, nil},
		{"a seek", exec(`INSERT INTO seek_requests (fence, topic_id, to_offset, asked_by, reason) VALUES ($1, $2, 1, 'ann', 'r')`, c.ID, [16]byte{1}), []string{own}},
		{"a replay", exec(`WITH r AS (INSERT INTO replays (subscription, mode, filter, config, bounds, counts, rate, max_errors, planned_by)
			VALUES ($1, 'fill', '{}', '', '{}', '{}', 0, 0, 'ann') RETURNING id)
			INSERT INTO replay_parts (replay, fence, topic_id, from_offset, to_offset, next_offset) SELECT id, $2, $3, 0, 1, 0 FROM r`, f.n.id, c.ID, [16]byte{1}), []string{own}},
		{"a question", exec(`INSERT INTO approvals (subscription, action_id, action, destination, digest, entity, version, source, event_id, type, why, sends, roles, four_eyes, expires_at, tell_at)
			VALUES ($1, $2, 'run', 'acme/x', decode(repeat('00', 32), 'hex'), 'e', '1', 's', 'i', 't', 'w', '', '{}', false, now() + interval '1 hour', now())`, f.n.id, [16]byte{2}), []string{newsQuestions}},
		{"while its subscription is moved", exec(`INSERT INTO moves (subscription, comes, other, other_name) VALUES ('acme.triage', false, gen_random_uuid(), 'o')`), nil},
		{"and no more", exec(`DELETE FROM moves`), []string{newsQuestions}},
		{"that is told", exec(`UPDATE approvals SET tell_at = NULL, told_at = now()`), nil},
		{"a new connection, with what is open", func() { l.do(l.Began) }, []string{own, own, own, newsPauses}},
	} {
		step.do()
		told = nil
		l.absent(0)
		slices.Sort(told)
		if !slices.Equal(told, step.want) {
			t.Errorf("%s: %v were told, not %v", step.what, told, step.want)
		}
	}
}

// Whoever watches pauses hears of one that another process makes.
func TestWatchPauses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	heard := make(chan struct{}, 1)
	defer f.l.WatchPauses(func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	})()
	for quiet := false; !quiet; { // the connection is there, and has told what it found
		select {
		case <-heard:
		case <-time.After(4 * time.Second):
			quiet = true
		}
	}
	if _, err := open(t, f.cfg).PauseSubscription(t.Context(), "acme.triage", "ann", "r"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Error("nobody told of the pause")
	}
}
