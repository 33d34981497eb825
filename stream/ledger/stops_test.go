package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// belowStart is a report: the log starts behind where the ledger stands.
func belowStart(number int32, from, to int64) Stop {
	return Stop{Partition: partition(number), Kind: "below_log_start", From: from, To: to, Resume: to, Records: to - from,
		LastAt: time.Unix(1_700_000_001, 0).UTC(), Detail: "deleted unread"}
}

func (f *fixture) report(s Stop, epoch int64) Stop {
	f.t.Helper()
	got, err := f.n.Report(f.t.Context(), s, epoch)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func (f *fixture) accept(where StopFilter) []Stop {
	f.t.Helper()
	where.Subscription = "acme.triage"
	got, err := f.l.Accept(f.t.Context(), where, Acceptance{By: "ann@ops", Reason: "lost for good"}, false)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// standing is what a claim that then fails is told.
func (f *fixture) standing(number int32) Standing {
	f.t.Helper()
	var told Standing
	enough := errors.New("enough")
	_, err := f.n.Claim(f.t.Context(), ClaimRequest{Partition: partition(number), Partitions: 8, Standing: func(s Standing) { told = s },
		Confirm: func(context.Context, *Position) (Start, error) { return Start{}, enough }})
	if !errors.Is(err, enough) {
		f.t.Fatal(err)
	}
	return told
}

// The claim that goes on ends the stop and says by what.
func TestClaimEndsTheStop(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	stop := f.report(belowStart(0, 1, 5), 1)
	f.accept(StopFilter{Partition: new(int32(0))})
	c, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
		return Start{Position: Position{Offset: 5, LeaderEpoch: -1}, Seek: &Seek{From: 1, To: 5}, Accepted: stop.ID}, nil
	}})
	if err != nil || c.Next.Offset != 5 {
		t.Fatal(c, err)
	}
	f.report(belowStart(0, 5, 7), 2)
	if _, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: startAt(5, 8)}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(':', outcome, ended_epoch, accepted_by), ' ' ORDER BY id) FROM stops`); got != "accepted:2:ann@ops moved:3" {
		t.Error(got)
	}
	if told := f.standing(0); told.Stop != nil {
		t.Errorf("still stopped: %+v", told.Stop)
	}
	if got := one[int64](f, `SELECT sum(skipped)::bigint FROM seeks`); got != 7 {
		t.Errorf("%d skipped offsets are recorded", got)
	}
}

// Once it is accepted that a topic was created again, all of its partitions are taken up, each from nothing, also those that were never
// claimed; from then on their number is held.
func TestRecreatedTopicIsAdoptedWhenAccepted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	f.reportRecreated(TopicID{2})
	for number := range int32(4) {
		if c, err := f.claimNew(number, TopicID{2}, 4); err != nil || c.Next.Offset != 0 || c.Epoch != 1 && number != 0 {
			t.Fatalf("%+v %v", c, err)
		}
	}
	if _, err := f.claimNew(0, TopicID{2}, 5); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the new count is not held: %v", err)
	}
}

// A stop that the new topic's log gives, behind that which was accepted, takes its place and its acceptance along: the topic stays taken up,
// so that one stop leads to the next and not back.
func TestRecreatedTopicIsAdoptedBehindAnotherStop(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	id := TopicID{2}
	f.reportRecreated(id)
	below := belowStart(0, 0, 3)
	below.Partition.TopicID = id
	f.report(below, 0)
	asked := false
	_, err := f.n.Claim(t.Context(), ClaimRequest{Partition: below.Partition, Partitions: 8, Confirm: func(context.Context, *Position) (Start, error) {
		asked = true
		return Start{}, errors.New("stopped below the log's start")
	}})
	if !asked {
		t.Errorf("the first stop is back: %v", err)
	}
	f.accept(StopFilter{Partition: new(int32(0))})
	if c, err := f.claimNew(0, id, 8); err != nil || c.Next.Offset != 0 {
		t.Errorf("accepted: %+v, %v", c, err)
	}
}

// What dedupe remembers begins with the oldest window that lives, once one before it was dropped.
func TestRemembersSinceTheOldestWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.claim(0)
	rotate := func(age string) {
		t.Helper()
		admin(t, f.cfg.URL.Reveal(), `UPDATE `+f.cfg.Schema+`.windows SET opened_at = opened_at - $1::interval, closed_at = closed_at - $1::interval`, age)
		if _, err := f.l.Sweep(t.Context(), SweepConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	admin(t, f.cfg.URL.Reveal(), `UPDATE `+f.cfg.Schema+`.subscriptions SET created_at = created_at - interval '9 days'`)
	admin(t, f.cfg.URL.Reveal(), `UPDATE `+f.cfg.Schema+`.windows SET opened_at = opened_at - interval '9 days'`)
	if told := f.standing(0); !told.Remembers.IsZero() {
		t.Errorf("nothing was dropped, and it remembers since %s", told.Remembers)
	}
	rotate("0")
	admin(t, f.cfg.URL.Reveal(), `UPDATE `+f.cfg.Schema+`.progress SET processed_at = now()`)
	if told := f.standing(0); !told.Remembers.IsZero() {
		t.Errorf("the first window lives, and it remembers since %s", told.Remembers)
	}
	rotate("8 days")
	oldest := one[time.Time](f, `SELECT min(opened_at) FROM windows`)
	if told := f.standing(0); !told.Remembers.Equal(oldest) || one[int](f, `SELECT count(*) FROM windows WHERE state = 'closed'`) != 1 {
		t.Errorf("remembers since %s, the oldest window opened %s", told.Remembers, oldest)
	}
	// A dead letter keeps the first of three, and the second goes.
	kept := one[int](f, `SELECT min(id) FROM windows`)
	rotate("2 days")
	rotate("2 days")
	admin(t, f.cfg.URL.Reveal(), `DELETE FROM `+f.cfg.Schema+`.windows WHERE id = (SELECT min(id) FROM `+f.cfg.Schema+`.windows WHERE id > $1)`, kept)
	since := one[time.Time](f, `SELECT min(opened_at) FROM windows WHERE id > $1`, kept)
	if told := f.standing(0); !told.Remembers.Equal(since) || one[int](f, `SELECT min(id) FROM windows`) != kept {
		t.Errorf("remembers since %s, the first window behind that which is gone opened %s", told.Remembers, since)
	}
	if told, err := f.l.Remembers(t.Context(), "acme.triage"); err != nil || !told.Equal(since) {
		t.Errorf("whoever seeks is told of %s: %v", told, err)
	}
}

// TestSeekToWhereItStandsTakesBackWhatWasAsked: and asks for nothing itself.
func TestSeekToWhereItStandsTakesBackWhatWasAsked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	var ids []int64
	for _, to := range []int64{0, 1} {
		got, err := f.l.AskSeeks(t.Context(), []SeekAsk{{Fence: c.ID, TopicID: c.Partition.TopicID, From: 1, To: to}}, "ann@ops", "mapping mended")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got...)
	}
	list, err := f.l.SeekRequests(t.Context(), "acme.triage", 10)
	if err != nil || ids[1] != 0 || len(list) != 1 || list[0].ID != ids[0] || list[0].Outcome != "replaced" || f.standing(0).SeekRequest != nil {
		t.Errorf("%v, %+v, %v", ids, list, err)
	}
}
