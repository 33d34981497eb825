package inbox

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// TestOneSubscriptionIsReadFromItsOwnWindows: what asks about one subscription, or one team, takes no lock on another's tables, which a plan
// over the windows of all would take. Somebody has locked them.
func TestOneSubscriptionIsReadFromItsOwnWindows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "a", 3), seq(3, "a", 2), seq(4, "b", 2))
	f.die(c, 1, "a-1", 1)
	replay := f.plan(c).ID
	f.namespace(func(s *ledger.Spec) { s.Name = "pay.other" })
	others := one[[]int32](f, `SELECT array_agg(w.id) FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = 'pay.other' AND w.state <> 'ahead'`)
	page, err := f.DeadLetters(t.Context(), DeadLetterQuery{Team: "acme"})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	dead := page.Items[0].ID
	teams := []string{"acme"}
	asks := map[string]func() (found bool, err error){
		"event and story": func() (bool, error) {
			item, err := f.Item(t.Context(), "acme", "triage", "/acme/github", "a-2")
			if err == nil {
				_, err = f.Story(t.Context(), &item)
			}
			return len(item.Actions) > 0, err
		},
		"inbox": func() (bool, error) {
			p, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage"})
			return len(p.Items) > 0, err
		},
		"dead letters of a team": func() (bool, error) {
			p, err := f.DeadLetters(t.Context(), DeadLetterQuery{Team: "acme"})
			return len(p.Items) > 0, err
		},
		"groups": func() (bool, error) {
			list, _, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{Team: "acme"})
			return len(list) > 0, err
		},
		"entities": func() (bool, error) {
			list, _, err := f.Entities(t.Context(), EntityQuery{Team: "acme", Limit: 10})
			return len(list) > 0, err
		},
		"an action of a team": func() (bool, error) { return f.HasAction(t.Context(), teams, dead) },
		"actions of a team by the beginning": func() (bool, error) {
			ids, err := f.ActionIDs(t.Context(), teams, string(dead)[:12])
			return len(ids) == 1 && ids[0] == dead, err
		},
		"events by the beginning": func() (bool, error) {
			ids, err := f.EventIDs(t.Context(), "acme", "triage", "/acme/github", "a-")
			return len(ids) > 0, err
		},
		"groups by the beginning": func() (bool, error) {
			list, err := f.Groups(t.Context(), "acme", "")
			return len(list) > 0, err
		},
		"what is open": func() (bool, error) {
			s := f.stands()
			err := f.CountOpen(t.Context(), []*Standing{s})
			return s.Counts != nil, err
		},
		"positions": func() (bool, error) {
			list, err := f.Subscriptions(t.Context(), "acme", "triage")
			return len(list) > 0, err
		},
		"a replay": func() (bool, error) { r, err := f.Replay(t.Context(), replay); return r != nil, err },
		"replays": func() (bool, error) {
			list, err := f.Replays(t.Context(), "", "acme.triage", replay+1, 10)
			return len(list) > 0, err
		},
	}
	err = pgx.BeginFunc(t.Context(), f.connect(), func(tx pgx.Tx) error {
		for _, w := range others {
			if _, err := tx.Exec(t.Context(), ledger.OfWindow(w, `LOCK TABLE events_w{w}, rejected_records_w{w}, actions_w{w}, completions_w{w}, attempts_w{w} IN ACCESS EXCLUSIVE MODE`)); err != nil {
				return err
			}
		}
		for name, ask := range asks {
			if found, err := ask(); err != nil || !found {
				t.Errorf("%s: found %v, %v", name, found, err)
			}
		}
		return nil
	})
	if err != nil || len(others) == 0 {
		t.Fatal(fmt.Sprint(others), err)
	}
}

// TestListsOfPartsAreOneList: what is read from some windows at a time comes as if it were read at once, page by page.
func TestListsOfPartsAreOneList(t *testing.T) {
	t.Parallel()
	f := setup(t)
	own := f.n
	names := []*ledger.Namespace{own, f.namespace(func(s *ledger.Spec) { s.Name = "pay.other" }), f.namespace(func(s *ledger.Spec) { s.Name = "dev.third" })}
	for number := range int32(3) { // so that the fences of the subscriptions take turns
		for i, n := range names {
			f.n = n
			c := f.claim(number)
			a, b := fmt.Sprint("a", number, i), fmt.Sprint("b", number, i)
			f.apply(c, seq(0, a, 1), seq(1, b, 1), seq(2, a, 2))
			f.die(c, 1, a+"-1", 1)
			f.record(ledger.Result{Claim: c, LaneSeq: 2, ID: actionID(b + "-1"), Status: ledger.Dead, Attempt: 1, Class: fmt.Sprint("class-", i%2)})
		}
	}
	f.n = own
	type lists struct {
		Inbox, Dead []string
		Groups      []DeadLetterGroup
		More        bool
		Names       []string
	}
	read := func(windowsAtOnce, limit int) (l lists) {
		f.windowsAtOnce = windowsAtOnce
		for cursor, page := "", 0; page == 0 || cursor != ""; page++ {
			p := must(f.List(t.Context(), Query{Limit: limit, Cursor: cursor}))
			for _, i := range p.Items {
				exact, atLeast := i.Behind, i.BehindAtLeast
				l.Inbox = append(l.Inbox, fmt.Sprintln(i.Fence, i.Offset, i.Status, exact == nil, atLeast == nil))
			}
			cursor = p.Next
		}
		l.Dead = f.dead(DeadLetterQuery{Limit: limit})
		var err error
		if l.Groups, l.More, err = f.DeadLetterGroups(t.Context(), DeadLetterQuery{}); err != nil {
			t.Fatal(err)
		}
		l.Names = must(f.Groups(t.Context(), "", ""))
		return l
	}
	want := read(100, 1000)
	if len(want.Inbox) != 27 || len(want.Dead) != 18 || len(want.Groups) < 3 || want.More {
		t.Fatalf("%+v", want)
	}
	for _, limit := range []int{1, 2, 5, 1000} {
		if d := cmp.Diff(want, read(1, limit)); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
	}
	for reads, more := range map[int]bool{17: true, 18: false} {
		f.groupReads = reads
		if _, got, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{}); err != nil || got != more {
			t.Errorf("of %d dead letters: more is %v, %v", reads, got, err)
		}
	}
}
