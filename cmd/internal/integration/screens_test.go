package integration

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestConsoleSteers does in a browser what the person on call does beside looking: pauses and resumes, moves a position, redrives across a
// gap, by keyboard alone, makes an event of a delivery in quarantine, gives an event up, discards a dead letter, starts a replay; each with its reason, and with its effect seen.
func TestConsoleSteers(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("", options{gap: "{wait: 30m, then: park}"})
	var broken atomic.Bool
	broken.Store(true)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return (c.entity == "o-2" || c.entity == "o-5") && broken.Load() })
	p := r.dev("-c", r.config)
	r.intake.Store(p)
	r.deliver(order("o-1", 1), order("o-1", 3), order("o-1", 4), order("o-2", 1), order("o-5", 1), order("o-3", 1),
		delivery{source: "orders", id: "odd-1", entity: "o-6", number: 1, body: []byte(`{"type":"com.shop.order.changed","order":{"rev":1}}`)})
	waitItems(t, r, p, 2, "--status", "dead_letter")
	waitItems(t, r, p, 2, "--status", "buffered")

	b := openBrowser(t, "http://"+p.operator)
	b.open("/console/")
	b.enter("Gaps")
	b.see("heading", "o-1 of orders, demo.fulfil")
	b.says("at 1 (sequence), missing 2", "o-1-3", "park")
	b.check("gaps")
	b.enter("Redrive…")
	b.see("status", "Nothing was done yet.")
	b.says("everything that waits on its version line runs, across the gap")
	b.check("redrive")
	b.tabTo("reason")
	b.do("type", "text", "the second version will not come")
	b.enter("Redrive")
	b.see("heading", "What became of it")
	waitItems(t, r, p, 3, "--entity", "o-1", "--status", "done")
	b.click("link", "The event and its story")
	b.says("the second version will not come")

	b.click("link", "Quarantine")
	b.see("row", "missing_field")
	b.check("quarantine")
	b.click("link", deliveryName(t, r, p))
	b.says("No event is made of it", `{"type":"com.shop.order.changed","order":{"rev":1}}`)
	b.check("delivery")
	b.confirm("Discard", "a test of the shop")
	b.see("status", "it is discarded")

	r.deliver(delivery{source: "orders", id: "o-3-1", entity: "o-3", number: 1, body: []byte(`{"type":"com.shop.order.changed","order":{"id":"o-3","rev":1,"total":5}}`)})
	waitItems(t, r, p, 1, "--decision", "conflict")
	b.open("/console/inbox?decision=conflict")
	at := slices.IndexFunc(b.do("links").([]any), func(to any) bool { return strings.HasPrefix(to.(string), "/console/event?") })
	if at < 0 {
		t.Fatalf("the inbox leads to no conflict:\n%s", b.do("text"))
	}
	b.open(b.do("links").([]any)[at].(string))
	b.click("link", "Discard this event…")
	b.see("status", "Nothing was done yet.")
	b.check("give-up")
	b.confirm("Discard", "the shop has sent it twice")
	b.see("heading", "What became of it")
	b.check("given-up")
	b.click("link", "The event and its story")
	b.says("the shop has sent it twice")

	b.click("link", "Dead letters")
	dead, err := r.dlq(p, "list", "--entity", "o-5")
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead letters: %+v, %v", dead, err)
	}
	b.open("/console/dlq/resolve?action=" + dead[0].ID)
	b.says("1 dead letter counts as done, and does not run", "Nothing was done yet.")
	b.check("resolve")
	b.open("/console/dlq/discard?action=" + dead[0].ID)
	b.says("1 dead letter is discarded for good")
	b.check("discard")
	b.confirm("Discard 1 dead letter", "a test order")
	b.see("status", "1 asked to be discarded")
	waitItems(t, r, p, 1, "--entity", "o-5", "--status", "discarded")
	broken.Store(false)
	b.open("/console/dlq/replay?group=" + dead[0].Group)
	b.confirm("Replay 1 dead letter", "the shop is mended")
	b.click("link", "How far it is")
	b.see("status", "1 of 1 done")
	b.check("progress")
	if !rig.Until(time.Minute, func() bool { return r.doneAt("o-2") }) {
		t.Fatalf("the agent did not see the replay: %+v", r.agent.snapshot())
	}

	b.click("link", "Sources")
	b.see("row", "demo/orders")
	b.check("sources")
	b.click("link", "demo/orders")
	b.see("row", "in quarantine")
	b.says("/v1/in/demo/orders", "accepted")
	b.check("source")
	b.says("in this process since")
	b.click("link", "Send a test…")
	b.check("sourcetest")
	b.do("fill", "name", "Body", "text", `{"type":"com.shop.nothing.of.that.name"}`)
	b.click("button", "Show what it would do")
	b.says("it goes to quarantine", "Nothing was sent yet.")
	b.check("sourcetest-planned")
	b.confirm("Send the test", "is the secret right")
	b.see("status", "The intake has answered 202")
	b.do("fill", "name", "Body", "text", string(order("o-77", 1).body))
	b.click("button", "Show what it would do")
	b.says("demo.fulfil", "these act on it as on any other")
	b.confirm("Send the test", "does the shop answer")
	b.see("status", "The intake has answered 202: event ")
	waitItems(t, r, p, 1, "--entity", "o-77", "--status", "done")

	b.click("link", "Destinations")
	b.see("row", "demo/shop")
	b.check("destinations")
	b.click("link", "demo/shop")
	b.see("button", "Pause demo/shop")
	b.says("attempts of this process since it began; half took at most")
	b.check("destination")
	b.confirm("Pause demo/shop", "the shop moves")
	b.see("button", "Resume demo/shop")
	b.says("the shop moves")
	b.confirm("Resume demo/shop", "it has moved")
	b.see("button", "Pause demo/shop")

	b.click("link", "Subscriptions")
	b.see("row", "demo.fulfil")
	b.check("subscriptions")
	b.click("link", "demo.fulfil")
	b.see("row", "this process")
	b.check("subscription")
	b.confirm("Pause demo.fulfil", "a bad release")
	b.see("button", "Resume demo.fulfil")
	r.deliver(order("o-8", 1))
	b.click("link", "Move its position…")
	b.do("fill", "name", "Where to", "text", "start")
	b.click("button", "Show what it would do")
	b.see("status", "partitions are moved to start")
	b.check("seek")
	b.confirm("Move demo.fulfil", "read it once more")
	b.until("/console/subscriptions/demo/fulfil", "moved", "read it once more")
	before := len(r.agent.snapshot())
	b.confirm("Resume demo.fulfil", "released")
	b.see("button", "Pause demo.fulfil")
	waitItems(t, r, p, 1, "--entity", "o-8", "--status", "done")
	if n := len(r.agent.snapshot()); n != before+1 {
		t.Errorf("after the move back the agent has seen %d calls, of which one is new", n-before)
	}

	plan := r.mustReplay(p, "plan", "--subscription", "fulfil", "--mode", "reprocess", "--entity", "o-3")
	b.click("link", "Replays")
	b.see("row", "planned")
	b.check("replays")
	b.click("link", plan.ID)
	b.says("1 events run, with 1 actions at most")
	b.check("replay-planned")
	b.confirm("Start replay "+plan.ID, "the shop has lost it")
	b.until("/console/replays/"+plan.ID, "100 % passed: 1 ran", "the shop has lost it")
	b.check("replay-done")

	b.click("link", "Schemas")
	b.see("row", "com.github.issues")
	b.check("schemas")
	b.click("link", "com.github.issues")
	b.see("region", "$schema")
	b.check("schema")
	b.click("link", "Audit")
	b.says("dlq.discard", "source.test", "does the shop answer", "a test order", "subscription.seek", "read it once more", "replay.start", "inbox.redrive", "quarantine.redrive", "destination.resume")
	b.click("link", "Health")
	b.see("row", "works")
	b.says("stream, intake")
	b.check("health")
	b.open("/console/audit?action=subscription.seek")
	b.check("audit")
}

// confirm gives the reason in the form of a button, and sends it.
func (b *browser) confirm(button, reason string) {
	b.t.Helper()
	b.do("confirm", "name", button, "text", reason)
}

// deliveryName is what the page calls the one delivery in quarantine.
func deliveryName(t *testing.T, r *deployment, p *process) string {
	t.Helper()
	out, err := r.try(p.operator, "quarantine", "list", "-o", "json")
	var list struct {
		Items []struct {
			Source    string
			Partition json.Number
			Offset    json.Number
		}
	}
	if err != nil || json.Unmarshal(out, &list) != nil || len(list.Items) != 1 {
		t.Fatalf("quarantine: %s, %v", out, err)
	}
	i := list.Items[0]
	return i.Partition.String() + "@" + i.Offset.String() + " of " + i.Source
}
