package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

func TestStopIsReportedOnceAndStands(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	if told := f.standing(0); told.Stop != nil || told.Epoch != 1 || !told.Remembers.IsZero() || !told.ProcessedAt.Equal(time.Unix(1_700_000_001, 0)) {
		t.Errorf("told %+v", told)
	}
	first := f.report(belowStart(0, 1, 5), 1)
	again := f.report(belowStart(0, 1, 5), 1)
	if d := cmp.Diff(first, again); d != "" || first.ID == 0 || first.FoundBy != "test" {
		t.Error(d, first)
	}
	want := belowStart(0, 1, 5)
	want.Subscription = "acme.triage"
	if d := cmp.Diff(&want, f.standing(0).Stop, cmpopts.IgnoreFields(Stop{}, "ID", "FoundAt", "FoundBy")); d != "" {
		t.Error(d)
	}
	list, err := f.l.Stops(t.Context(), StopFilter{Subscription: "acme.triage"})
	if err != nil || len(list) != 1 || list[0].ID != first.ID {
		t.Error(list, err)
	}
	if list, err := f.l.Stops(t.Context(), StopFilter{Subscription: "acme.other"}); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// An acceptance covers the stop that was reported. One that is larger, or of another kind, needs its own.
func TestAcceptanceCoversExactlyWhatWasReported(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1))
	f.report(belowStart(0, 1, 5), 1)
	if got := f.accept(StopFilter{}); len(got) != 1 || got[0].Accepted == nil || got[0].Accepted.By != "ann@ops" || got[0].Accepted.Reason != "lost for good" {
		t.Fatalf("%+v", got)
	}
	if told := f.standing(0).Stop; told == nil || told.Accepted == nil {
		t.Fatalf("the next claim is told %+v", told)
	}
	larger := f.report(belowStart(0, 1, 9), 1)
	if larger.Accepted != nil || f.standing(0).Stop.Accepted != nil {
		t.Error("the acceptance of 4 records covers 8")
	}
	other := belowStart(0, 1, 9)
	other.Kind = "truncated"
	f.accept(StopFilter{})
	if f.report(other, 1).Accepted != nil {
		t.Error("the acceptance covers another kind")
	}
	recreated := other
	recreated.Partition.TopicID = TopicID{9}
	f.accept(StopFilter{})
	if f.report(recreated, 0).Accepted != nil {
		t.Error("the acceptance covers another topic id")
	}
	if got := one[string](f, `SELECT string_agg(concat_ws(':', kind, to_offset, outcome), ' ' ORDER BY id) FROM stops`); got !=
		"below_log_start:5:replaced below_log_start:9:replaced truncated:9:replaced truncated:9" {
		t.Error(got)
	}
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

// A recreated topic is refused with what is known of the old one, until it is accepted; then all of its partitions are
// taken up, each from nothing, and the old one is not taken for it again.
func TestRecreatedTopicIsAdoptedWhenAccepted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.apply(f.claim(0), seq(0, "e", 1), seq(1, "e", 2))
	claim := func(number int32, id TopicID, count int32) (*Claim, error) {
		p := partition(number)
		p.TopicID = id
		return f.n.Claim(t.Context(), ClaimRequest{Partition: p, Partitions: count, Confirm: at(0)})
	}
	second := TopicID{2}
	_, err := claim(0, second, 4)
	e, ok := errors.AsType[*TopicError](err)
	if !ok || !e.Recreated() || e.Next != 2 || e.Known != (TopicID{1}) || e.ProcessedAt.IsZero() || e.Open != 2 || e.Waiting != 0 || schemas.KindOf(err) != schemas.Conflict {
		t.Fatalf("%v, %+v", err, e)
	}
	if _, err := claim(1, second, 4); err == nil {
		t.Fatal("claimed a partition that was never claimed before")
	} else if e, _ := errors.AsType[*TopicError](err); e.Next != -1 {
		t.Errorf("%+v", e)
	}
	stop := Stop{Partition: partition(0), Kind: recreated, From: e.Next, Records: -1}
	stop.Partition.TopicID = second
	f.report(stop, 0)
	if _, err := claim(0, second, 4); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("claimed before it was accepted: %v", err)
	}
	f.accept(StopFilter{Topic: "events.acme.github"})
	if _, err := claim(0, TopicID{3}, 4); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the acceptance covers a third topic: %v", err)
	}
	for number := range int32(4) {
		c, err := claim(number, second, 4)
		if err != nil || c.Next.Offset != 0 || c.Epoch != 1 && number != 0 {
			t.Fatalf("%+v %v", c, err)
		}
		if number == 0 {
			// The lines of the old topic are not those of the new one: the same version again is the first one here.
			if got := f.apply(c, record(0, "other", "e", schemas.Version{Kind: schemas.Sequence, Value: 1})); len(got.Actions) != 1 {
				t.Errorf("the first event of the new topic: %v", decisions(got))
			}
			// And an event is the same one in both.
			if got := f.apply(c, seq(1, "e", 2)); len(got.Actions) != 0 {
				t.Errorf("an event that came by the old topic: %v", decisions(got))
			}
		}
	}
	if _, err := claim(0, TopicID{1}, 8); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("a broker that still tells the old id: %v", err)
	}
	if _, err := claim(0, second, 5); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the new count is not held: %v", err)
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
}
