package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A plan of statuses is of the decisions that an event of them can have, and of those that were asked for; what a mode leaves out, and what no
// event can be, is refused with what to do.
func TestPlansOfAStatus(t *testing.T) {
	t.Parallel()
	list := strings.Fields
	for name, tt := range map[string]struct {
		mode, statuses, decisions string
		of                        string // decisions
		says                      string
	}{
		"what is done again":          {"reprocess", "done", "", "applied late", ""},
		"what is done, and late":      {"reprocess", "done", "late", "late", ""},
		"what is stale":               {"reprocess", "stale", "", "applied late stale", ""},
		"what was filtered":           {"fill", "filtered", "", "filtered", ""},
		"what was discarded":          {"fill", "discarded quarantined", "", "conflict quarantined", ""},
		"a shadow of dead letters":    {"shadow", "dead_letter", "", "", ""},
		"a shadow of what waits":      {"shadow", "parked", "parked", "parked", ""},
		"no status":                   {"reprocess", "", "", "applied late", ""},
		"dead letters again":          {"reprocess", "dead_letter", "", "", "`forebay dlq replay` runs the event on"},
		"what is under way":           {"reprocess", "done failed", "", "", "goes on by itself"},
		"what is behind a dead one":   {"reprocess", "parked", "", "", "`forebay dlq replay` for a dead letter of its entity"},
		"what waits":                  {"fill", "buffered", "", "", "`forebay inbox redrive` has it run"},
		"what never ran, again":       {"reprocess", "filtered", "", "", "--mode fill"},
		"what ran, for the first":     {"fill", "done", "", "", "--mode reprocess"},
		"what was produced again":     {"fill", "redriven", "", "", "is an event since"},
		"no status of any":            {"shadow", "undecided", "", "", "no event has another one"},
		"undecided":                   {"fill", "filtered", "filtered undecided", "", "plan --decision undecided without --status"},
		"undecided, by a shadow":      {"shadow", "done", "undecided applied", "", "plan --decision undecided without --status"},
		"another decision's":          {"fill", "filtered", "conflict", "", "no event is filtered that was decided conflict"},
		"one that none of them fits":  {"reprocess", "done", "applied stale", "", "no event that was decided stale is done"},
		"of several one fits nothing": {"shadow", "done filtered", "applied", "", "no event is filtered that was decided applied"},
	} {
		r := api.ReplayPlan{Mode: tt.mode, Statuses: list(tt.statuses), Decisions: list(tt.decisions)}
		err := checkPlan("plan", r)
		if tt.says != "" && (schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		if d := cmp.Diff(list(tt.of), append([]string{}, wantedDecisions(r)...)); tt.says == "" && (err != nil || d != "") {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

// What is to run again has run to its end, unless some of the statuses of that are asked for; the command for the rest says nothing of what goes
// without saying.
func TestReprocessIsOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode, statuses, want, flags string
	}{
		"all":             {"reprocess", "", strings.Join(statusesFor("reprocess"), " "), ""},
		"what was done":   {"reprocess", "done", "done", "--status done"},
		"what never ran":  {"fill", "", "", ""},
		"a look at all":   {"shadow", "", "", ""},
		"a look at those": {"shadow", "parked", "parked", "--status parked"},
	} {
		got := wantedStatuses(api.ReplayPlan{Mode: tt.mode, Statuses: strings.Fields(tt.statuses)})
		flags := filterFlags(&inbox.Replay{Mode: ledger.ReplayMode(tt.mode), Filter: ledger.ReplayFilter{Statuses: got}})
		if strings.Join(got, " ") != tt.want || strings.Join(flags, " ") != tt.flags {
			t.Errorf("%s: %q, and %q", name, got, flags)
		}
	}
}
