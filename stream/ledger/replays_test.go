package ledger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// openReplay starts a replay of [0, 40) in the first partition.
const openReplay = `WITH r AS (INSERT INTO replays (subscription, mode, filter, config, bounds, counts, rate, max_errors, planned_by, counted_at, started_at, started_by, reason)
    SELECT id, 'fill', '{"types": ["com.*"]}', 'digest', '[]', '{}', 10, 3, 'jo', now(), now(), 'jo', 'it was left out' FROM subscriptions LIMIT 1 RETURNING id)
INSERT INTO replay_parts (replay, fence, topic_id, from_offset, to_offset, next_offset) SELECT r.id, f.id, f.topic_id, 0, 40, 0 FROM r, fences f WHERE f.partition = 0`

func (f *fixture) replaying() (id int64) { return f.replayingAs(ReplayFill) }

func (f *fixture) replayingAs(mode ReplayMode) (id int64) {
	f.t.Helper()
	f.exec(strings.Replace(openReplay, `'fill'`, `'`+string(mode)+`'`, 1))
	return one[int64](f, `SELECT max(id) FROM replays`)
}

// TestNumbersOfReplaysAfterARestore: a replay's number is in the ids of what it runs again. What RESTORE.md has run passes over those of replays that
// the restored ledger does not know.
func TestNumbersOfReplaysAfterARestore(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../deploy/docs/RESTORE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, _ := strings.Cut(string(page), `psql -c "`)
	sql, _, ok := strings.Cut(sql, `"`)
	if !ok || !strings.Contains(sql, "setval") {
		t.Fatalf("the page has %q", sql)
	}
	f := setup(t)
	f.claim(0)
	known := f.replaying()
	f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	f.exec(strings.ReplaceAll(sql, "forebay.", ""))
	if next := f.replaying(); next <= known+999 {
		t.Errorf("replay %d, and then %d", known, next)
	}
}

// claimAt claims the first partition, which begins at an offset.
func (f *fixture) claimAt(offset int64) *Claim {
	f.t.Helper()
	c, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(offset)})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) replay(c *Claim, s ReplaySlice) Applied {
	f.t.Helper()
	a, err := f.n.ApplyReplay(f.t.Context(), c, s)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// part is what the ledger has of the replay in the first partition.
func (f *fixture) part(id int64) string {
	f.t.Helper()
	return one[string](f, `SELECT concat_ws(' ', next_offset, 'done', done, 'applied', applied, 'late', late, 'stale', stale, 'waits', waits, 'rejected', rejected,
		CASE WHEN ended_at IS NOT NULL THEN 'ended ' || failure END) FROM replay_parts WHERE replay = $1`, id)
}

func delta(r Record) Record {
	r.Payload = schemas.Delta
	return r
}

// What a seek left out runs behind what came since, an older snapshot does not, and the subscription stays where it is.
func TestReplayRunsWhatASeekLeftOut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "before", 1))
	c = f.seek(1, 50)
	f.apply(c, seq(50, "e", 5), seq(51, "e", 6))
	id := f.replaying()
	left := []Record{seq(1, "e", 2), delta(seq(2, "e", 3)), seq(3, "other", 1)}
	known, err := f.n.Known(t.Context(), c.ID, append([]Record{seq(0, "before", 1)}, left...), false)
	if err != nil || !cmp.Equal(known, []Known{{gate.Applied, true, 0, ""}, {Undecided, false, -1, ""}, {Undecided, false, -1, ""}, {Undecided, false, -1, ""}}) {
		t.Error(known, err)
	}
	a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 39, Records: left, Done: 1})
	if d := cmp.Diff([]string{"0:stale/older", "1:late/older_delta", "2:applied/first"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"4:e-3:run", "5:other-1:run"}, lanes(a.Actions)); d != "" || !a.Actions[0].Late || a.Actions[0].Record != 1 || a.Actions[0].Pointer.Offset != 2 {
		t.Error(d, a.Actions)
	}
	if c.Next.Offset != 52 || one[int64](f, `SELECT next_offset FROM progress`) != 52 {
		t.Errorf("the subscription was moved to %d", c.Next.Offset)
	}
	if got := f.part(id); got != "39 done 1 applied 1 late 1 stale 1 waits 0 rejected 0" {
		t.Error(got)
	}
	a = f.replay(c, ReplaySlice{Replay: id, From: 39, Next: 40})
	if got := f.part(id); !strings.HasSuffix(got, "ended ") || a.ReplayEnded || len(a.Actions) > 0 {
		t.Error(got, a)
	}
	f.apply(c, seq(52, "e", 7)) // the claim goes on
	if d := cmp.Diff([]string{"1:before-1:run", "2:e-5:run", "3:e-6:run", "4:e-3:run", "5:other-1:run", "6:e-7:run"}, f.open(f.claim(0))); d != "" {
		t.Error(d)
	}
}

// A process that has no partition of a subscription knows what was decided since the windows turned, too.
func TestKnownSeesWindowsThatTurned(t *testing.T) {
	t.Parallel()
	f := setup(t)
	planner := f.namespace()
	c := f.claim(0)
	f.turnWindow()
	f.apply(c, seq(0, "e", 1))
	known, err := planner.Known(t.Context(), c.ID, []Record{seq(0, "e", 1)}, true)
	if err != nil || !cmp.Equal(known, []Known{{gate.Applied, true, 0, "received"}}) {
		t.Error(known, err)
	}
}

// A step that was made is not made again, by whatever claim: the part stands where it ended.
func TestReplayGoesOnWhereItsLastStepEnded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimAt(50)
	id := f.replaying()
	step := ReplaySlice{Replay: id, From: 0, Next: 2, Records: []Record{seq(0, "e", 1), seq(1, "e", 2)}}
	f.replay(c, step)
	zombie := c
	c = f.claim(0)
	a := f.replay(c, step)
	if gap, ok := errors.AsType[*ContinuityError](a.Refused); !ok || gap.Stored != 2 || gap.From != 0 {
		t.Errorf("the step was made again: %+v", a)
	}
	c = f.claim(0)
	next := ReplaySlice{Replay: id, From: 2, Next: 3, Records: []Record{seq(2, "e", 3)}}
	if a := f.replay(zombie, next); !a.Fenced {
		t.Errorf("a zombie replays: %+v", a)
	}
	// What is taken for undecided and is not, is a duplicate.
	next.Records = append([]Record{seq(2, "e", 3)}, seq(3, "e", 2))
	next.Next = 4
	a = f.replay(c, next)
	if d := cmp.Diff([]string{"0:applied/next", "1:duplicate/seen"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if got := f.part(id); got != "4 done 1 applied 3 late 0 stale 0 waits 0 rejected 0" {
		t.Error(got)
	}
	parts, err := f.n.ReplayParts(t.Context(), []*Claim{c})
	want := []ReplayPart{{Replay: id, Mode: ReplayFill, Claim: c.ID, TopicID: TopicID{1}, To: 40, Next: 4, Filter: ReplayFilter{Types: []string{"com.*"}}, Config: "digest", Rate: 10, Open: 1, MaxErrors: 3}}
	if d := cmp.Diff(want, parts); d != "" || err != nil {
		t.Error(d, err)
	}
	f.record(Result{Claim: c, LaneSeq: 2, Status: Dead, Attempt: 1, Class: "rejected"})
	if parts, err = f.n.ReplayParts(t.Context(), []*Claim{c}); err != nil || parts[0].Errors != 1 {
		t.Errorf("%+v %v", parts, err)
	}
}

// A reprocess that names no statuses, as those were stored before they had a default, runs nothing again that has not run to its end.
func TestReprocessWithoutStatuses(t *testing.T) {
	t.Parallel()
	for mode, want := range map[ReplayMode][]string{ReplayReprocess: EndedStatuses(), ReplayFill: nil, ReplayShadow: nil} {
		f := setup(t)
		c := f.claimAt(50)
		f.replayingAs(mode)
		parts, err := f.n.ReplayParts(t.Context(), []*Claim{c})
		if err != nil || len(parts) != 1 || !cmp.Equal(parts[0].Filter.Statuses, want) {
			t.Errorf("%s: %+v %v", mode, parts, err)
		}
	}
}

// Nothing of a replay is written once it is cancelled, and the claim goes on with live events.
func TestCancelledReplayWritesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimAt(50)
	id := f.replaying()
	f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 2, Records: []Record{seq(0, "e", 1), seq(1, "e", 2)}})
	if !a.ReplayEnded || a.Fenced || a.Refused != nil || len(a.Actions) > 0 || one[int](f, `SELECT count(*) FROM events`) != 0 {
		t.Errorf("%+v", a)
	}
	if d := cmp.Diff([]string{"0:applied/first"}, decisions(f.apply(c, seq(50, "e", 5)))); d != "" {
		t.Error(d)
	}
	if parts, err := f.n.ReplayParts(t.Context(), []*Claim{c}); err != nil || len(parts) > 0 {
		t.Error(parts, err)
	}
	if err := f.n.EndReplay(t.Context(), c, id, ReplayErrors, "late"); err != nil || !strings.HasSuffix(f.part(id), "ended cancelled") {
		t.Error(f.part(id), err)
	}
}

// A record that the database refuses is quarantined alone, as in a batch of live events.
func TestReplayQuarantinesWhatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimAt(50)
	id := f.replaying()
	var records []Record
	for i := range int64(9) {
		records = append(records, seq(i, fmt.Sprintf("e%d", i), 1))
	}
	records[5].Type = "a\x00b"
	a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 20, Records: records, Done: 4})
	if len(a.Actions) != 8 || !cmp.Equal(a.Quarantined, []int{5}) || a.Refused != nil || a.Actions[7].Record != 8 {
		t.Errorf("%+v", a)
	}
	if got := f.part(id); got != "20 done 4 applied 8 late 0 stale 0 waits 0 rejected 1" {
		t.Error(got)
	}
}

// A filtered record is decided again where the filter wants it now; else it stands as it is.
func TestReplayDecidesAgainWhatWasFiltered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	filtered := func(r Record) Record { r.Filtered = true; return r }
	f.apply(c, filtered(seq(0, "e", 1)), seq(1, "e", 2), filtered(seq(2, "f", 1)))
	id := f.replaying()
	records := []Record{delta(seq(0, "e", 1)), seq(1, "e", 2), filtered(seq(2, "f", 1))}
	known, err := f.n.Known(t.Context(), c.ID, records, false)
	if err != nil || !cmp.Equal(known, []Known{{gate.Filtered, false, -1, ""}, {gate.Applied, true, 1, ""}, {gate.Filtered, true, -1, ""}}) {
		t.Error(known, err)
	}
	a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 3, Records: records[:1], Done: 2})
	if d := cmp.Diff([]string{"0:late/older_delta"}, decisions(a)); d != "" {
		t.Error(d)
	}
	if n := one[int](f, `SELECT count(*) FROM rejected_records`); n != 1 {
		t.Errorf("%d rejected records: the one that runs now is not rejected any more", n)
	}
}

// A wait for a gap that a replayed event shows does not end before the replay: its filler may come later in the range.
func TestWaitsOfReplayedEventsOutlastTheReplay(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait = gate.ThenPark, time.Minute })
	c := f.claimAt(50)
	id := f.replaying()
	f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 2, Records: []Record{seq(0, "e", 1), seq(1, "e", 3)}})
	f.apply(c, seq(50, "live", 1), seq(51, "live", 3))
	f.overdue()
	if d := f.deadlines(c); d[c.ID] > 0 || len(d) != 1 {
		t.Fatalf("the live wait is not overdue: %v", d)
	}
	f.expire(c)
	if got := one[string](f, `SELECT string_agg(event_id || ' ' || decision, ', ' ORDER BY event_id) FROM buffer`); got != "e-3 buffered, live-3 parked" {
		t.Error(got)
	}
	if d := f.deadlines(c); d[c.ID] != KeptByReplay {
		t.Errorf("deadlines that nothing may end, and that are to be asked for again: %v", d)
	}
	a := f.replay(c, ReplaySlice{Replay: id, From: 2, Next: 4, Records: []Record{seq(2, "e", 2), seq(3, "e", 5)}})
	if d := cmp.Diff([]string{"0:applied/next", "-1:applied/released", "1:buffered/gap"}, decisions(a)); d != "" {
		t.Error(d)
	}
	f.replay(c, ReplaySlice{Replay: id, From: 4, Next: 40})
	f.overdue()
	f.deadlines(c)
	f.expire(c)
	if got := one[string](f, `SELECT decision FROM buffer WHERE event_id = 'e-5'`); got != "parked" {
		t.Errorf("after the replay it is %s", got)
	}
}

// The deadline of a live event does not end the wait of a replayed one on the same line, on whichever side of it that is: what is missing may
// come later in the range, and would be late then.
func TestLiveDeadlineLeavesReplayedWaitsOfItsLine(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]gate.Then{"skip": gate.ThenSkip, "park": gate.ThenPark, "dead letter": gate.ThenDeadLetter} {
		for side, live := range map[string]int64{"behind": 6, "before": 3} {
			t.Run(name+" "+side, func(t *testing.T) {
				t.Parallel()
				f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait = then, time.Minute })
				c := f.claimAt(50)
				id := f.replaying()
				f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 2, Records: []Record{seq(0, "e", 1), seq(1, "e", 4)}})
				f.apply(c, seq(50, "e", live), seq(51, "other", 1), seq(52, "other", 3))
				if a := f.expire(c); len(a.Outcomes) != 1 || a.Outcomes[0].Released.Entity != "other" {
					t.Errorf("ended %v", decisions(a))
				}
				a := f.replay(c, ReplaySlice{Replay: id, From: 2, Next: 40, Records: []Record{seq(2, "e", 2), seq(3, "e", 3), seq(4, "e", 5)}})
				for i := range a.Outcomes {
					if d := a.Outcomes[i].Decision; d != gate.Applied && d != gate.Duplicate {
						t.Errorf("%v", decisions(a))
					}
				}
				if n := one[int](f, `SELECT count(*) FROM buffer WHERE entity = $1`, "e"); n != 0 {
					t.Errorf("%d wait still", n)
				}
			})
		}
	}
}

// The dead letters of a replay are counted by what its partitions keep, not by its steps: those of live events between them are not its own,
// and no more are looked for than end it.
func TestDeadLettersOfAReplay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claimAt(50)
	id := f.replaying()
	for i := range int64(8) { // each step gives one lane_seq, and a live event the next one
		f.replay(c, ReplaySlice{Replay: id, From: i, Next: i + 1, Records: []Record{seq(i, fmt.Sprintf("e%d", i), 1)}})
		f.apply(c, seq(50+i, fmt.Sprintf("live%d", i), 1))
	}
	errors := func(want int, dead ...int64) {
		t.Helper()
		for _, seq := range dead {
			f.record(Result{Claim: c, LaneSeq: seq, Status: Dead, Attempt: 1, Class: "rejected"})
		}
		parts, err := f.n.ReplayParts(t.Context(), []*Claim{c})
		if err != nil || len(parts) != 1 || parts[0].Errors != want {
			t.Errorf("%+v %v, want %d errors", parts, err, want)
		}
	}
	errors(0, 2, 4, 16)
	errors(2, 1, 15)
	f.turnWindow()
	errors(3, 7)
	errors(4, 3, 5, 9, 11) // one more than may be
	if got := one[string](f, `SELECT lane_from || ' ' || lane_to FROM replay_parts`); got != "1 16" {
		t.Error(got)
	}
}

// A replay that begins while a sweep waits for the row of a window keeps that window.
func TestReplayThatBeginsDuringASweepKeepsItsWindows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
	f.turnWindow()
	f.ageWindows(200 * time.Hour)
	if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
		t.Fatal(err)
	}
	starter := f.connect()
	tx, err := starter.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM windows WHERE state = 'closed' FOR SHARE`); err != nil {
		t.Fatal(err)
	}
	swept := make(chan Swept, 1)
	go func() { swept <- f.sweep() }()
	// The sweep may give up between two looks: then it tries again, or ends.
	for blocked := 0; blocked == 0 && len(swept) == 0; {
		blocked = one[int](f, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid))`, int32(starter.PgConn().PID()))
	}
	if _, err = tx.Exec(t.Context(), openReplay); err == nil {
		err = tx.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if s := <-swept; len(s.Dropped) > 0 {
		t.Errorf("dropped %v of a subscription with a replay under way", s.Dropped)
	}
	f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Errorf("dropped %v after the replay", s.Dropped)
	}
}

// A replay of a topic that the subscription does not read any more ends as soon as the topic counts as left, and no other does.
func TestReplayOfALeftTopicEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	other := "events.acme.orders"
	c := f.claimAt(50)
	id := f.replaying()
	f.leave(other) // its owner lives
	f.release(c)
	f.leave(other, "events.acme.github")
	if got := f.part(id); strings.Contains(got, "ended") {
		t.Error(got)
	}
	f.leave(other)
	if got := f.part(id); !strings.HasSuffix(got, "ended left") {
		t.Error(got)
	}
	if got := one[string](f, `SELECT detail FROM replay_parts`); !strings.Contains(got, "does not read this topic any more") {
		t.Error(got)
	}
}

// A snapshot that is older than what was applied since never runs by a replay: neither as the filler of a place that was skipped, nor where
// late snapshots are delivered. A delta there is news, and an operator who wants to decide about what is late is asked.
func TestReplayNeverRunsAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		do   gate.StaleDo
		want []string
	}{
		{gate.StaleDrop, []string{"0:stale/older", "1:late/filler", "2:stale/older"}},
		{gate.StaleDeliver, []string{"0:stale/older", "1:late/filler", "2:stale/older"}},
		{gate.StaleHold, []string{"0:parked/older_held", "1:late/filler", "2:parked/older_held"}},
	} {
		t.Run(string(tt.do), func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { s.Policy.GapWait, s.Policy.Stale.Snapshot, s.Policy.LateSnapshots = 0, tt.do, true })
			c := f.claimAt(50)
			f.apply(c, seq(50, "e", 4), seq(51, "e", 8), seq(52, "e", 9)) // 5 to 7 are skipped
			id := f.replaying()
			a := f.replay(c, ReplaySlice{Replay: id, From: 0, Next: 9, Records: []Record{seq(1, "e", 5), delta(seq(2, "e", 6)), seq(3, "e", 3)}})
			if d := cmp.Diff(tt.want, decisions(a)); d != "" {
				t.Error(d)
			}
			a = f.apply(c, seq(53, "e", 7)) // live, it is as ever
			if d := cmp.Diff([]string{"0:late/filler"}, decisions(a)); d != "" {
				t.Error(d)
			}
		})
	}
}
