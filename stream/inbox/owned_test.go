package inbox

import (
	"slices"
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

// What has an id alone is its team's: a dead letter, one that never had an attempt, and a replay.
func TestWhatTeamsOwn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.die(c, 1, "a-1", 2)
	f.die(c, 2, "b-1", 1)
	for team, want := range map[string]int{"": 1, "acme": 1, "pay": 0, "acm": 0} {
		if groups, err := f.Groups(t.Context(), team, ""); err != nil || len(groups) != want {
			t.Errorf("groups of team %q: %q %v", team, groups, err)
		}
	}
	id := f.plan(c).ID
	var dead []schemas.ActionID
	page, err := f.DeadLetters(t.Context(), DeadLetterQuery{})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v %v", page, err)
	}
	for _, d := range page.Items {
		dead = append(dead, d.ID)
	}
	// As if a gap had ended it.
	if tag, err := f.eye.Exec(t.Context(), `UPDATE actions SET action_id = NULL WHERE lane_seq = 2`); err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	for _, tt := range []struct {
		teams []string
		want  bool
	}{{[]string{"acme"}, true}, {[]string{"pay", "acme"}, true}, {[]string{"pay"}, false}, {[]string{"acm"}, false}, {[]string{"acme.triage"}, false}, {nil, false}} {
		for _, id := range dead {
			if has, err := f.HasAction(t.Context(), tt.teams, id); err != nil || has != tt.want {
				t.Errorf("%q and dead letter %s: %t %v", tt.teams, id, has, err)
			}
		}
		own := tt.teams
		if own == nil {
			own = []string{} // nil is everybody
		}
		for _, id := range dead {
			if ids, err := f.ActionIDs(t.Context(), own, string(id)[:20]); err != nil || slices.Contains(ids, id) != tt.want {
				t.Errorf("%q and the beginning of %s: %q %v", tt.teams, id, ids, err)
			}
		}
		if has, err := f.HasReplay(t.Context(), tt.teams, id); err != nil || has != tt.want {
			t.Errorf("%q and the replay: %t %v", tt.teams, has, err)
		}
	}
	if has, err := f.HasAction(t.Context(), []string{"acme"}, actionID("another")); err != nil || has {
		t.Errorf("one that is not there: %t %v", has, err)
	}
	if has, err := f.HasReplay(t.Context(), []string{"acme"}, id+1); err != nil || has {
		t.Errorf("a replay that is not there: %t %v", has, err)
	}
	if _, err := f.HasAction(t.Context(), []string{"acme"}, "act_"); schemas.KindOf(err) != schemas.Invalid {
		t.Error(err)
	}
}
