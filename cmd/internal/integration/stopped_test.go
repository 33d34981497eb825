package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestConsoleAcceptsAStop deletes records that were never read. In a browser, their partition is seen to stand, what accepting that means is
// read, and it is accepted with a reason: the agent gets what is behind the hole. Then the subscription does more than it did, and a shadow
// that a click starts shows what would have been other, without a call.
func TestConsoleAcceptsAStop(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	r.serve("intake")
	p := r.serve("stream")
	const entities, later, lost = 6, 3, 2
	r.deliverAll(entities, 1, issues)
	items := waitItems(t, r, p, entities, "--status", "done")
	if t.Failed() {
		return
	}
	p.stop()
	broken := items[0].Partition
	here := int64(0) // records in its partition, which stand in the log before those that are lost
	for _, i := range items {
		if i.Partition == broken {
			here++
		}
	}
	other := slices.IndexFunc(items, func(i inboxItem) bool { return i.Partition != broken })
	if other < 0 {
		t.Fatal("all entities are in one partition")
	}
	var entity int
	if _, err := fmt.Sscanf(items[0].Entity, "7/%d", &entity); err != nil {
		t.Fatal(err)
	}
	for n := range later {
		r.deliver(issues(entity, n+2))
	}
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: "events." + r.team + ".github", Partition: broken, At: here + lost})
	if _, err := admin(t, r.broker).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	r.edit("actions: [{name: run, to: agent", "actions: [{name: tell, to: shop}, {name: run, to: agent")
	p = r.serve("stream")
	stop := r.waitStopped(p, "triage", 1)[broken]

	page := "/console/subscriptions/" + r.team + "/triage"
	b := openBrowser(t, "http://"+p.operator)
	b.until("/console/attention", "stopped", "below_log_start")
	b.click("link", fmt.Sprintf("%s.triage events.%s.github/%d", r.team, r.team, broken))
	b.until(page, "below_log_start")
	b.check("stopped")
	b.click("link", "Accept it…")
	b.see("status", fmt.Sprintf("the partition goes on at %d, and what is between is not decided any more. Nothing was done yet.", here+lost))
	b.see("heading", fmt.Sprintf("events.%s.github/%d has stopped: below_log_start", r.team, broken))
	b.says(fmt.Sprintf("offsets %d up to before %d", here, here+lost))
	b.check("accept")
	button := fmt.Sprintf("Accept stop %d", stop.ID)
	b.click("button", button) // without a reason, the browser sends nothing
	b.says("Nothing was done yet.")
	b.confirm(button, "a broker's disk is gone")
	b.waitAt(page)
	r.waitStopped(p, "triage", 0)
	r.waitOwned(p, 6)
	waitItems(t, r, p, entities+later-lost, "--subscription", "triage", "--status", "done")
	if seen := r.statesOf(items[0].Entity); !slices.Equal(seen, []int{1, 1 + later, 1 + later}) { // the last by both actions
		t.Errorf("the agent has seen the states %v of what was lost in between", seen)
	}
	b.open(fmt.Sprintf("%s/accept?stop=%d", page, stop.ID))
	b.see("alert", "nothing is stopped under "+r.team+".triage, stop ")
	b.complained("status of 404")
	b.check("accepted")
	b.open("/console/audit")
	b.says("subscription.accept", "a broker's disk is gone")

	calls, before := len(r.agent.snapshot()), r.inbox(p, "--limit", "500")
	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--mode", "shadow")
	b.open("/console/replays")
	b.click("link", plan.ID)
	b.says(fmt.Sprintf("Nothing runs: it says what would, of %d records.", plan.Records), "Nothing was done yet.")
	b.check("shadow-planned")
	b.confirm("Start replay "+plan.ID, "what would the new action have done?")
	b.until("/console/replays/"+plan.ID, "100 % passed", "What would differ now", "would run with other actions", "tell to "+r.team+"/shop, run to "+r.team+"/agent")
	b.check("shadow")
	b.click("link", r.team+"/triage/github/"+items[other].EventID)
	b.see("heading", "Story")
	if after := r.inbox(p, "--limit", "500"); !slices.Equal(after, before) || len(r.agent.snapshot()) != calls {
		t.Errorf("after a shadow, the agent has seen %d calls more, and the inbox was %+v and is %+v", len(r.agent.snapshot())-calls, before, after)
	}
}

// statesOf lists the states of an issue that the agent was asked about, in order.
func (r *deployment) statesOf(entity string) (seen []int) {
	for _, c := range r.agent.snapshot() {
		if c.entity == entity {
			_, n := issueOf(c)
			seen = append(seen, n)
		}
	}
	return seen
}
