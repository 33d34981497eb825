package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// reprocess is a replay that runs again what ran in the first offsets of two partitions, of which it has passed these; ended is why it ended
// in the first, and no text if it goes on.
func reprocess(id int64, ended string, from, to int64, passed ...int64) *inbox.Replay {
	began := time.Unix(1_700_000_000, 0)
	p := &inbox.Replay{ID: id, Subscription: "acme.triage", Mode: ledger.ReplayReprocess, Rate: 50, MaxErrors: 5, CountedAt: &began,
		Filter: ledger.ReplayFilter{Types: []string{"com.github.issues.*"}, Entity: "acme/shop issue's", Sources: []string{"/acme/github"}, Decisions: []gate.Decision{gate.Applied, gate.Late}},
		Counts: inbox.ReplayCounts{Runs: 7}}
	for i := range int32(2) {
		p.Bounds = append(p.Bounds, inbox.ReplayBounds{Fence: 10 + i, Topic: "events.acme.github", Partition: i, From: from, To: to})
	}
	for i, next := range passed {
		p.StartedAt = &began
		part := inbox.ReplayProgress{Topic: "events.acme.github", Partition: int32(i), From: from, To: to, Next: next, Applied: next - from, EndedAt: &began, Failure: new("")}
		if next < to {
			part.Failure = &ended
		}
		p.Parts = append(p.Parts, part)
	}
	return p
}

// A replay that ended halfway says with which command the rest is planned, as it was itself; one whose offsets mean nothing any more says none.
func TestWhatAReplayHasLeft(t *testing.T) {
	t.Parallel()
	const same = `forebay replay plan --subscription acme.triage --mode reprocess --source acme/github --type 'com.github.issues.*' --entity 'acme/shop issue'\''s' ` +
		`--decision applied --decision late --rate 50 --max-errors 5 `
	late := reprocess(1, "errors", 10, 40, 25, 10)
	late.EvenStale = true
	stale := reprocess(1, "errors", 10, 40, 25, 40)
	stale.Filter.Statuses = []string{"done", "stale"}
	named := reprocess(1, "errors", 10, 40, 25, 40)
	named.Filter.Events = []ledger.ReplayEvent{{Source: "/acme/github", ID: "sha256:1"}, {Source: "/other/shop", ID: "it's"}}
	for name, tt := range map[string]struct {
		replay *inbox.Replay
		want   string
	}{
		"of some events": {named, same + "--from-offset events.acme.github/0=25 --to-offset events.acme.github/0=40 acme/triage/github/sha256:1 'acme/triage/%2Fother%2Fshop/it'\\''s'"},
		"of statuses":    {stale, strings.Replace(same, "--rate", "--status done --status stale --rate", 1) + "--from-offset events.acme.github/0=25 --to-offset events.acme.github/0=40"},
		"one partition":  {reprocess(1, "config_changed", 10, 40, 25, 40), same + "--from-offset events.acme.github/0=25 --to-offset events.acme.github/0=40"},
		"both": {late, strings.Replace(same, "--rate", "--even-stale --rate", 1) + "--from-offset events.acme.github/0=25 --to-offset events.acme.github/0=40 " +
			"--from-offset events.acme.github/1=10 --to-offset events.acme.github/1=40"},
		"behind what retention deleted": {reprocess(1, "retention", 10, 40, 25, 30), same + "--to-offset events.acme.github/0=40 " + "--to-offset events.acme.github/1=40"},
		"done":                          {reprocess(1, "", 10, 40, 40, 40), ""},
		"never started":                 {reprocess(1, "", 10, 40), ""},
		"the topic was created again":   {reprocess(1, "topic_recreated", 10, 40, 25, 40), ""},
	} {
		if d := cmp.Diff(tt.want, whatIsLeft(tt.replay)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	running := reprocess(1, "", 10, 40, 25, 40)
	running.Parts[0].Failure = nil
	if got := whatIsLeft(running); got != "" {
		t.Errorf("it goes on, and %s", got)
	}
}

// A plan says which of its range earlier replays ran again, and from where on nothing was, if there is such a place.
func TestPlanNotesWhatRanAgainBefore(t *testing.T) {
	t.Parallel()
	const again = "replay 7 (failed) ran events of this range again before, and this one runs them once more, under other ids: "
	const to = " --to-offset events.acme.github/"
	plan := reprocess(9, "", 10, 40)
	otherTopic := reprocess(7, "errors", 10, 40, 25, 40)
	otherTopic.Bounds[0].Fence, otherTopic.Bounds[1].Fence = 1, 2
	recreated := reprocess(7, "errors", 10, 40, 25, 40)
	for i := range recreated.Bounds {
		recreated.Bounds[i].TopicID = "of the topic before"
	}
	all := reprocess(7, "errors", 10, 40, 25, 40)
	all.Filter = ledger.ReplayFilter{}
	fill := reprocess(7, "errors", 10, 40, 25, 40)
	fill.Mode = ledger.ReplayFill
	for name, tt := range map[string]struct {
		earlier *inbox.Replay
		want    string
		begins  string
	}{
		"half of one":     {reprocess(7, "errors", 10, 40, 25, 10), again + "events.acme.github/0 10..25", "--from-offset events.acme.github/0=25" + to + "0=40 --from-offset events.acme.github/1=10" + to + "1=40"},
		"one whole":       {reprocess(7, "errors", 5, 90, 50, 20), again + "events.acme.github/0 10..40, events.acme.github/1 10..20", "--from-offset events.acme.github/1=20" + to + "1=40"},
		"the middle":      {reprocess(7, "errors", 20, 90, 30, 20), again + "events.acme.github/0 20..30", ""},
		"another range":   {reprocess(7, "errors", 40, 90, 60, 60), "", ""},
		"nothing of it":   {reprocess(7, "errors", 10, 40, 10, 10), "", ""},
		"another topic":   {otherTopic, "", ""},
		"created again":   {recreated, "", ""},
		"of all entities": {all, again + "events.acme.github/0 10..25, events.acme.github/1 10..40", "--from-offset events.acme.github/0=25" + to + "0=40"},
		"another mode":    {fill, "", ""},
		"never started":   {reprocess(7, "", 10, 40), "", ""},
		"the plan itself": {plan, "", ""},
	} {
		got := ranBefore(plan, tt.earlier)
		said, command, _ := strings.Cut(got, "; to begin behind that: ")
		if said != tt.want || tt.begins == "" && command != "" || !strings.HasSuffix(command, tt.begins) {
			t.Errorf("%s: %s", name, got)
		}
	}
	done := reprocess(7, "", 0, 50, 50, 50)
	if got := ranBefore(plan, done); !strings.HasPrefix(got, "replay 7 (done) ran") || !strings.HasSuffix(got, "; that is all of it") {
		t.Error(got)
	}
	// A trial with less of the range leaves the rest to this plan: nothing is to be left out for it.
	for name, less := range map[string]func(*inbox.Replay){
		"--entity shop": func(p *inbox.Replay) { p.Filter = ledger.ReplayFilter{Entity: "shop"} },
		"1 events by name": func(p *inbox.Replay) {
			p.Filter = ledger.ReplayFilter{Events: []ledger.ReplayEvent{{Source: "/acme/github", ID: "1"}}}
		},
		"--type 'com.github.issues.*')": func(p *inbox.Replay) { p.Filter = ledger.ReplayFilter{Types: plan.Filter.Types} },
	} {
		wide, trial := reprocess(9, "", 10, 40), reprocess(7, "", 10, 40, 40, 40)
		wide.Filter = ledger.ReplayFilter{}
		less(trial)
		if got := ranBefore(wide, trial); !strings.HasPrefix(got, "replay 7 (done) ran some events of this range again before (") || !strings.Contains(got, name) ||
			strings.Contains(got, "that is all of it") || strings.Contains(got, "forebay replay plan") {
			t.Errorf("%s: %s", name, got)
		}
	}
	notes := notesOf(plan, []inbox.Replay{*done, *reprocess(6, "errors", 10, 40, 25, 25), *reprocess(5, "errors", 10, 40, 25, 25), *reprocess(4, "errors", 10, 40, 25, 25)}, gate.OrderVersion)
	if len(notes) != 4 || !strings.Contains(notes[0], "--mode shadow over the same range counts them") || !strings.HasPrefix(notes[3], "replay 5 ") {
		t.Errorf("%q", notes)
	}
	fill = reprocess(9, "", 10, 40)
	fill.Mode = ledger.ReplayFill
	if notes := notesOf(fill, []inbox.Replay{*done}, gate.OrderVersion); len(notes) != 1 || strings.Contains(notes[0], "shadow") {
		t.Errorf("a fill leaves out what ran: %q", notes)
	}
	fill.Bounds[0].Short, fill.Bounds[0].FirstAt = true, new(time.Unix(1_700_000_000, 0))
	if notes := notesOf(fill, nil, gate.OrderArrival); len(notes) != 1 || !strings.HasPrefix(notes[0], "events.acme.github/0 begins at offset 10 of 2023-11-14T22:13:20Z: if its retention was raised") {
		t.Errorf("%q", notes)
	}
	if notes := notesOf(plan, nil, gate.OrderArrival); len(notes) > 0 {
		t.Errorf("by arrival nothing is older: %q", notes)
	}
	if notes := notesOf(done, []inbox.Replay{*done}, gate.OrderVersion); len(notes) > 0 {
		t.Errorf("it was started: %q", notes)
	}
}
