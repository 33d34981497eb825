package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
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

// A plan over a partition that cannot be read says which and why, keeps what it has counted of the others, and goes on once it can.
func TestPlanSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	const events = 8
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	in := map[int32]int64{} // events by partition
	for i := range events {
		entity := fmt.Sprintf("o%d", i)
		p.accepted("orders", "orders-secret", order(entity, 1))
		p.item("fulfil", "orders", entity+"-1", "applied", "done")
		item, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", entity+"-1")
		if err != nil {
			t.Fatal(err)
		}
		in[item.Partition]++
	}
	if len(in) < 2 {
		t.Fatalf("all are in one partition: %v", in)
	}
	broken := slices.Min(slices.Collect(maps.Keys(in)))
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: ordersTopic, Partitions: []int32{broken}, Err: kerr.UnknownServerError, Count: -1,
		When: func(req kmsg.Request) bool { return req.(*kmsg.FetchRequest).MaxBytes > 1<<20 }}) // not the look at the range's first record
	_, err := p.api.PlanReplay(t.Context(), api.ReplayPlan{Team: "acme", Subscription: "fulfil", Mode: "reprocess", By: "me"})
	if err != nil && (!strings.HasSuffix(err.Error(), "; `forebay replay plan --continue 1` goes on from what is counted") || strings.Contains(err.Error(), "plan again")) {
		t.Errorf("%v", err)
	}
	if schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), fmt.Sprintf("read %s/%d at 0: ", ordersTopic, broken)) || !strings.Contains(err.Error(), "--from-offset") {
		t.Errorf("%v", err)
	}
	list, err := p.api.Replays(t.Context(), api.ReplayFilter{})
	if err != nil || len(list.Items) != 1 || list.Items[0].State != "counting" || list.Items[0].Records != events-in[broken] {
		t.Fatalf("%+v %v", list.Items, err)
	}
	fault.Remove()
	got, err := p.api.CountReplay(t.Context(), list.Items[0].ID)
	for err == nil && got.State == "counting" {
		got, err = p.api.CountReplay(t.Context(), got.ID)
	}
	if err != nil || got.Records != events || got.Runs != events {
		t.Errorf("%+v %v", got, err)
	}
	p.clean()
}
