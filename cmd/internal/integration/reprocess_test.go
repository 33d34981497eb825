package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// labeled is a GitHub delivery that says what happened to an issue, one second after the state before.
func labeled(repository, number, at int) delivery {
	d := issue(repository, number, at)
	d.body = []byte(strings.Replace(string(d.body), `"edited"`, `"labeled","label":{"id":1,"name":"bug"}`, 1))
	d.id = bodyID(d.body)
	return d
}

// waitCalls waits until n calls were answered.
func (a *agent) waitCalls(t *testing.T, n int) []call {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		a.mu.Lock()
		grew, ended := a.grew, a.ended
		a.mu.Unlock()
		if ended >= n {
			return slices.DeleteFunc(a.snapshot(), func(c call) bool { return c.end.IsZero() })
		}
		select {
		case <-grew:
		case <-deadline:
			t.Fatalf("the agent answered %d calls, want %d", ended, n)
		}
	}
}

// reprocess plans and runs a replay of triage that runs again, and returns what came of it.
func (r *deployment) reprocess(p *process, args ...string) replayItem {
	r.t.Helper()
	plan := r.mustReplay(p, append([]string{"plan", "--subscription", "triage", "--mode", "reprocess"}, args...)...)
	r.mustReplay(p, "start", plan.ID, "--reason", "the agent lost what it did")
	if out, err := r.try(p.operator, "replay", "watch", plan.ID); err != nil || !strings.Contains(string(out), `"state":"done"`) {
		r.t.Fatalf("%s %v", out, err)
	}
	return r.mustReplay(p, "get", plan.ID)
}

// calledAs are calls as "type version", with late, in their order.
func calledAs(calls []call) (list []string) {
	for _, c := range calls {
		text := strings.TrimPrefix(c.typ, "com.github.") + " " + c.version[len("2026-07-01T12:00:"):len("2026-07-01T12:00:00")]
		if c.late {
			text += " late"
		}
		list = append(list, text)
	}
	return list
}

// TestReprocessRunsAgainWhatRan runs again what ran, twice: each time once, under keys of its own, the newest state and what happened before
// it, and no older state unless that is asked for. What comes live goes on.
func TestReprocessRunsAgainWhatRan(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	p := r.serve("intake,stream")
	const entities = 6
	history := lines(entities, 3, func(entity, number int) delivery {
		if number == 2 {
			return labeled(entity, entity, number)
		}
		return issue(entity, entity, number)
	})
	if err := r.sender.load(t.Context(), history, 4, 0); err != nil {
		t.Fatal(err)
	}
	live := r.agent.waitCalls(t, 3*entities)
	waitItems(t, r, p, 3*entities, "--status", "done")

	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "reprocess")
	if plan.ByDecision["applied"] < 3*entities || plan.Runs != plan.Records || len(r.agent.snapshot()) != 3*entities {
		t.Errorf("the plan says %+v, %d calls", plan, len(r.agent.snapshot()))
	}
	r.replayRefused(p, []string{"--reason is needed"}, "start", plan.ID)

	first := r.reprocess(p)
	if first.State != "done" || first.Applied != entities || first.Late != entities || first.Stale < entities || first.Errors != 0 {
		t.Errorf("came of it: %+v", first)
	}
	again := r.agent.waitCalls(t, 5*entities)[3*entities:]
	second := r.reprocess(p, "--entity", "1/1", "--even-stale")
	if second.Applied != 1 || second.Late != 2 || second.Stale != 0 {
		t.Errorf("came of it: %+v", second)
	}
	third := r.agent.waitCalls(t, 5*entities+3)[5*entities:]
	r.deliver(issue(1, 1, 4))
	last := r.agent.waitCalls(t, 5*entities+4)

	keys := map[string]string{} // the event of each key
	for _, c := range last {
		if keys[c.key] != "" {
			t.Errorf("%s came twice, for %s and %s", c.key, keys[c.key], c.event)
		}
		keys[c.key] = c.event
	}
	for entity := range entities {
		name := fmt.Sprintf("%d/%d", entity+1, entity+1)
		of := func(calls []call) []string {
			return calledAs(slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.entity != name }))
		}
		if got := of(live); !slices.Equal(got, []string{"issues.edited 01", "issues.labeled 02", "issues.edited 03"}) {
			t.Errorf("%s live: %q", name, got)
		}
		if got := of(again); !slices.Equal(got, []string{"issues.labeled 02 late", "issues.edited 03"}) {
			t.Errorf("%s again: %q", name, got)
		}
	}
	if got := calledAs(third); !slices.Equal(got, []string{"issues.edited 01 late", "issues.labeled 02 late", "issues.edited 03"}) {
		t.Errorf("older ones too: %q", got)
	}
	r.requireStoryOfBoth(p, history[0][2], []string{first.ID, second.ID}, last)
}

// requireStoryOfBoth reads with inbox get what ran, with its keys at the agent, and which replays ran it again.
func (r *deployment) requireStoryOfBoth(p *process, d delivery, replays []string, calls []call) {
	r.t.Helper()
	var want []string
	for _, c := range calls {
		if c.event == d.id {
			want = append(want, c.key)
		}
	}
	out, err := r.try(p.operator, "inbox", "get", r.team+"/triage/github/"+d.id, "-o", "json")
	var item struct {
		Actions []struct{ ID, Replay, Status string }
		Story   []struct{ Text string }
	}
	if err != nil || json.Unmarshal(out, &item) != nil || len(item.Actions) != 1+len(replays) {
		r.t.Fatalf("%s %v", out, err)
	}
	for i, a := range item.Actions {
		if a.ID != want[i] || a.Status != "done" || a.Replay != append([]string{""}, replays...)[i] {
			r.t.Errorf("action %d is %+v, the agent saw %q", i, a, want)
		}
	}
	for _, id := range replays {
		if !slices.ContainsFunc(item.Story, func(s struct{ Text string }) bool {
			return containsAll(s.Text, "replay "+id+" runs it again", "the agent lost what it did")
		}) {
			r.t.Errorf("the story does not tell of replay %s: %+v", id, item.Story)
		}
	}
	if text, err := r.try(p.operator, "inbox", "get", r.team+"/triage/github/"+d.id); err != nil || !strings.Contains(string(text), ", of replay "+replays[0]) {
		r.t.Errorf("%s %v", text, err)
	}
}

// TestReprocessIsOvertakenByLiveEvents has newer states come while a replay runs: of each entity one call runs at a time, and none of an
// older state after one of a newer.
func TestReprocessIsOvertakenByLiveEvents(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{latency: 10 * time.Millisecond})
	p := r.serve("intake,stream")
	const entities = 40
	r.deliverAll(entities, 1, issues)
	r.agent.waitCalls(t, entities)
	waitItems(t, r, p, entities, "--status", "done")
	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "reprocess", "--rate", "20")
	r.mustReplay(p, "start", plan.ID, "--reason", "the agent lost what it did")
	r.agent.waitCalls(t, entities+4)
	r.deliverAll(entities, 2, issues)
	if out, err := r.try(p.operator, "replay", "watch", plan.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	done := r.mustReplay(p, "get", plan.ID)
	if done.Applied < 4 || done.Stale == 0 || done.Applied+done.Stale != entities || done.Late != 0 {
		t.Errorf("came of it: %+v", done)
	}
	calls := r.agent.waitCalls(t, 2*entities+int(done.Applied))
	byEntity := map[string][]call{}
	for _, c := range calls {
		byEntity[c.entity] = append(byEntity[c.entity], c)
	}
	for entity, of := range byEntity {
		for i := 1; i < len(of); i++ {
			if of[i].begin.Before(of[i-1].end) {
				t.Errorf("%s: two calls at once", entity)
			}
			if of[i].version < of[i-1].version {
				t.Errorf("%s: %s after %s", entity, of[i].version, of[i-1].version)
			}
		}
	}
	if len(calls) != 2*entities+int(done.Applied) {
		t.Errorf("%d calls", len(calls))
	}
}

// TestReprocessKilledTwiceEndsWithExactCounts kills the process twice while a replay runs again what ran, and has it run to its end: every
// event ran once more, under one key that is not the one it ran under before, but for what was in flight, and in the order of its entity. The
// figure of events is that of FOREBAY_REPLAY_EVENTS, or 1,000.
func TestReprocessKilledTwiceEndsWithExactCounts(t *testing.T) {
	t.Parallel()
	n := 1_000
	if text := os.Getenv("FOREBAY_REPLAY_EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	b := rig.Fake(t)
	r := deploy(t, b, options{})
	r.serve("stream").stop() // the subscription has begun
	produceIssues(t, b, r, lines(n/20, 20, issues))
	stream := r.serve("stream")
	live := r.agent.waitCalls(t, n)
	waitItems(t, r, stream, 0, "--status", "received")
	plan := r.mustReplay(stream, "plan", "--subscription", "triage", "--mode", "reprocess", "--even-stale", "--rate", "0")
	if plan.Runs != int64(n) || plan.ByDecision["applied"] != int64(n) {
		t.Fatalf("the plan says %+v", plan)
	}
	r.mustReplay(stream, "start", plan.ID, "--reason", "the agent lost what it did")
	for _, part := range []int{4, 2} {
		r.agent.waitCalls(t, n+n/part)
		stream.kill()
		stream = r.serve("stream")
	}
	if out, err := r.try(stream.operator, "replay", "watch", plan.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	waitItems(t, r, stream, 0, "--status", "received")
	done := r.mustReplay(stream, "get", plan.ID)
	if done.State != "done" || done.Applied != int64(n/20) || done.Late != int64(n-n/20) || done.Done+done.Stale+done.Waits != 0 || done.Errors != 0 {
		t.Errorf("came of it: %+v", done)
	}
	calls := r.agent.snapshot()
	ran := map[string]bool{}
	for _, c := range live {
		ran[c.key] = true
	}
	v := judge(r.sender.acceptedByID(), slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return ran[c.key] }))
	v.require(t)
	if most := 2 * 256; len(v.repeated) > most || len(calls) != 2*n+len(v.repeated) {
		t.Errorf("%d calls of %d events, %d of them repeated; no more than the %d in flight at two kills may be", len(calls), n, len(v.repeated), most)
	}
}

// TestReplayAfterABug runs deploy/docs/REPLAY.md on a subscription whose agent has dropped what it was told: its commands in one shell, and
// what it says that they print.
func TestReplayAfterABug(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme"})
	p := r.serve("intake,stream")
	history := lines(4, 3, func(entity, number int) delivery {
		if number == 2 {
			return labeled(entity, entity, number)
		}
		return issue(entity, entity, number)
	})
	r.sender.once = true
	if err := r.sender.load(t.Context(), history, 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitCalls(t, 12)
	waitItems(t, r, p, 12, "--status", "done")

	said, ran, plan := "", 0, ""
	for _, b := range blocksOf(t, "../../../deploy/docs/REPLAY.md") {
		switch b.kind {
		case "sh":
			said, plan = r.shell(p, plan, b.text)
			ran++
		case "says":
			for line := range strings.Lines(b.text) {
				if !strings.Contains(said, line) {
					t.Errorf("the page says that it prints %q, and it prints\n%s", line, said)
				}
			}
		}
		if ran == 5 { // it was started and watched
			r.agent.waitCalls(t, 20)
		}
	}
	if ran != 8 {
		t.Errorf("the page has %d blocks of commands", ran)
	}
	if calls := len(r.agent.snapshot()); calls < 20 || calls > 28 {
		t.Errorf("%d calls", calls)
	}
	last := r.mustReplay(p, "get", plan)
	if last.State != "cancelled" {
		t.Errorf("%+v", last)
	}
	// What the cancelled one says of the rest is a command; the plan that it makes has that rest, and names what ran all of it before.
	_, plan = r.shell(p, plan, "plan=$("+last.Left+" -o id)")
	rest := r.mustReplay(p, "get", plan)
	if rest.State != "planned" || rest.Range.Offsets != last.Range.Offsets-last.Range.Passed || !slices.ContainsFunc(rest.Notes, func(note string) bool { return strings.HasSuffix(note, "; that is all of it") }) {
		t.Errorf("%+v of %+v", rest, last)
	}
}

// shell runs commands of a page, with forebay on the path and the variable plan as the block before has left it.
func (r *deployment) shell(p *process, plan, commands string) (said, planNow string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", commands+"\necho \"${plan:-}\" >&3")
	cmd.Env = append(r.env("127.0.0.1:0", p.operator), "plan="+plan, "PATH="+filepath.Dir(forebay)+":"+os.Getenv("PATH"))
	read, write, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	defer read.Close()
	cmd.ExtraFiles = []*os.File{write}
	out, err := cmd.CombinedOutput()
	write.Close()
	if err != nil {
		r.t.Fatalf("%s: %v: %s", commands, err, out)
	}
	left, err := io.ReadAll(read)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(out), strings.TrimSpace(string(left))
}

// TestShadowComparesWithWhatRan changes what a subscription wants and does, and asks what that would have done to what ran: the agent is not
// called, and the inbox stays as it is. What a newer state has overtaken would not run, so it is no difference that the actions are others.
func TestShadowComparesWithWhatRan(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	r.edit("sources: [github]\n        begin: all", "sources: [github]\n        types: [\"com.github.issues.edited\"]\n        begin: all")
	r.serve("intake")
	p := r.serve("stream")
	history := lines(4, 3, func(entity, number int) delivery {
		if number == 2 {
			return labeled(entity, entity, number)
		}
		return issue(entity, entity, number)
	})
	r.sender.once = true
	if err := r.sender.load(t.Context(), history, 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitCalls(t, 8)
	waitItems(t, r, p, 8, "--status", "done")
	waitItems(t, r, p, 4, "--status", "filtered")
	p.stop()
	r.edit("types: [\"com.github.issues.edited\"]", "types: [\"com.github.issues.*\"]")
	r.edit("actions: [{name: run, to: agent", "actions: [{name: tell, to: shop}, {name: run, to: agent")
	p = r.serve("stream")
	before := r.inbox(p, "--limit", "500")

	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "shadow")
	if plan.Records != 12 || plan.Runs != 0 {
		t.Errorf("the plan says %+v", plan)
	}
	r.mustReplay(p, "start", plan.ID, "--reason", "what would the new actions have done?")
	if out, err := r.try(p.operator, "replay", "watch", plan.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	out, err := r.try(p.operator, "replay", "get", plan.ID, "-o", "json")
	var found struct {
		Applied, Late, Stale int64
		Shadow               []struct {
			Type, Was, Would, Differs string
			Events                    int64
		}
		Differences []struct{ Event, Differs, Ran, Runs string }
	}
	if err != nil || json.Unmarshal(out, &found) != nil {
		t.Fatalf("%s %v", out, err)
	}
	var counts []string
	for _, c := range found.Shadow {
		counts = append(counts, fmt.Sprintf("%s %s %s %s %d", strings.TrimPrefix(c.Type, "com.github."), c.Was, c.Would, c.Differs, c.Events))
	}
	slices.Sort(counts)
	if want := []string{"issues.edited applied applied other 4", "issues.edited applied stale  4", "issues.labeled filtered late new 4"}; !slices.Equal(counts, want) {
		t.Errorf("found %q, want %q", counts, want)
	}
	if found.Applied != 4 || found.Late != 4 || found.Stale != 4 || len(found.Differences) != 8 {
		t.Errorf("%s", out)
	}
	for _, d := range found.Differences {
		runs := "tell to " + r.team + "/shop, run to " + r.team + "/agent"
		if ran := map[string]string{"other": "run to " + r.team + "/agent", "new": ""}[d.Differs]; d.Ran != ran || d.Runs != runs {
			t.Errorf("%+v", d)
		}
	}
	if text, err := r.try(p.operator, "inbox", "get", found.Differences[0].Event); err != nil {
		t.Errorf("the event that is listed is none: %s %v", text, err)
	}
	if calls := len(r.agent.snapshot()); calls != 8 {
		t.Errorf("%d calls by a shadow", calls)
	}
	if after := r.inbox(p, "--limit", "500"); !slices.Equal(after, before) {
		t.Errorf("the inbox was %+v, and is %+v", before, after)
	}
}

// TestReplayOfAStatus runs again what an operator has discarded, and nothing that was done, and what is named; a shadow of dead letters finds one less than was
// planned, since the world has moved.
func TestReplayOfAStatus(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.entity != "7/3" && !mended.Load() })
	p := r.serve("intake,stream")
	r.deliverAll(3, 1, issues)
	waitItems(t, r, p, 2, "--status", "dead_letter")
	waitItems(t, r, p, 1, "--status", "done")

	look := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "shadow", "--status", "dead_letter")
	if look.Records != 2 || !slices.Equal(look.Statuses, []string{"dead_letter"}) {
		t.Errorf("planned %+v", look)
	}
	dead, err := r.dlq(p, "list", "--team", r.team)
	if err != nil || len(dead) != 2 {
		t.Fatal(dead, err)
	}
	if _, err := r.dlq(p, "discard", dead[0].ID, "--reason", "the request was wrong"); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r, p, 1, "--status", "discarded")
	r.mustReplay(p, "start", look.ID, "--reason", "what would become of them?")
	if out, err := r.try(p.operator, "replay", "watch", look.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	if found := r.mustReplay(p, "get", look.ID); found.Records != 2 || found.Applied+found.Late != 1 {
		t.Errorf("the world has moved, and it found %+v", found)
	}

	mended.Store(true)
	calls := len(r.agent.snapshot())
	done := r.reprocess(p, "--status", "discarded")
	if done.Records != 1 || done.Runs != 1 || done.Applied != 1 || done.Done+done.Late+done.Stale+int64(done.Errors) != 0 {
		t.Errorf("came of it: %+v", done)
	}
	if ran := r.agent.waitCalls(t, calls+1)[calls:]; len(ran) != 1 || ran[0].event != dead[0].EventID || ran[0].status != http.StatusOK {
		t.Errorf("ran %+v, want the event of %+v", ran, dead[0])
	}

	// What lists print names events in a plan: here the event that was discarded and has run again since (twice in the list), and the other
	// one's dead letter.
	discarded, err := r.try(p.operator, "inbox", "list", "--team", r.team, "--entity", dead[0].Entity, "-o", "id")
	if err != nil || len(strings.Fields(string(discarded))) != 2 {
		t.Fatalf("%s %v", discarded, err)
	}
	look = r.mustReplay(p, append([]string{"plan", "--mode", "shadow", dead[1].ID}, strings.Fields(string(discarded))...)...)
	if look.Records != 2 || len(look.Events) != 2 || !slices.Contains(look.Events, strings.Fields(string(discarded))[0]) {
		t.Errorf("planned %+v", look)
	}
	calls = len(r.agent.snapshot())
	done = r.reprocess(p, strings.Fields(string(discarded))[0])
	if done.Records != 1 || done.Applied != 1 || done.Range.Offsets != 1 {
		t.Errorf("came of it: %+v", done)
	}
	if ran := r.agent.waitCalls(t, calls+1)[calls:]; len(ran) != 1 || ran[0].event != dead[0].EventID {
		t.Errorf("ran %+v, want the event of %+v", ran, dead[0])
	}
}

// TestReprocessLeavesOutWhatHasNotEnded runs again what ran, where an entity stands behind a dead letter: that and what waits behind it run on under
// the keys that they have, and under no others. Named, they are refused.
func TestReprocessLeavesOutWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.entity != "7/2" && !mended.Load() })
	p := r.serve("intake,stream")
	r.deliverAll(2, 1, issues)
	r.deliver(issues(1, 2))
	waitItems(t, r, p, 1, "--status", "dead_letter")
	waitItems(t, r, p, 1, "--status", "parked")
	waitItems(t, r, p, 1, "--status", "done")
	dead, err := r.dlq(p, "list", "--team", r.team)
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	r.replayRefused(p, []string{"is dead_letter, and would not run", "forebay dlq replay"}, "plan", "--mode", "reprocess", dead[0].ID)

	mended.Store(true)
	calls := len(r.agent.snapshot())
	done := r.reprocess(p)
	if done.Records != 1 || done.Runs != 1 || done.Applied != 1 || done.Late+done.Stale != 0 {
		t.Errorf("came of it: %+v", done)
	}
	r.agent.waitCalls(t, calls+1)
	if _, err := r.dlq(p, "replay", dead[0].ID, "--reason", "the agent is mended"); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r, p, 4, "--status", "done") // one of them is what ran again
	keys := map[string]map[string]bool{}
	for _, c := range r.agent.snapshot() {
		if c.entity == "7/1" {
			if keys[c.event] == nil {
				keys[c.event] = map[string]bool{}
			}
			keys[c.event][c.key] = true
		}
	}
	for event, of := range keys {
		if len(of) != 1 {
			t.Errorf("%s came under %d keys", event, len(of))
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d events of the entity came", len(keys))
	}
}
