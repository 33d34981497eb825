package integration

import (
	"net/http"
	"os"
	"os/user"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// TestNamesAsAUserTypesThem: what a list prints, every filter and command understands; what names nothing is an error that says what may
// have been meant; an id may be cut off where one is left.
func TestNamesAsAUserTypesThem(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme"})
	r.edit("    subscriptions:\n      triage:", `    subscriptions:
      unopened:
        sources: [github]
        types: ["com.github.release.*"]
        actions: [{name: run, to: agent}]
      triage:`)
	r.edit("\nteams:\n", `
teams:
  `+r.team+`-b:
    sources: {orders: {preset: standard-webhooks, secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}}
    destinations: {out: {type: log}}
    subscriptions: {triage: {sources: [orders], actions: [{name: run, to: out}]}}
`)
	r.command("topics", "apply", "-c", r.config)
	refused := issue(7, 2, 1)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == refused.id })
	p := r.serve("intake,stream")
	first := order("o-1", 1)
	tampered := first
	tampered.body = []byte(strings.Replace(string(first.body), "changed", "cancelled", 1))
	r.deliver(issue(7, 1, 1), first, tampered)
	r.agent.waitActed(t, 2, time.Minute)
	waitItems(t, r, p, 1, "--decision", "conflict")
	waitItems(t, r, p, 1, "--subscription", "unopened") // what is in two partitions is in no order
	r.deliver(refused)
	dead := r.waitDead(p, 1)
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--status", "done")
	waitItems(t, r, p, 2, "--subscription", "unopened")

	s := &transcript{r: r, p: p, names: []string{dead.ID, "act_7", dead.ID[:9], "act_", dead.Group, "GROUP", dead.Group[:5], "GRO"}}
	s.say("a subscription, as it is printed, by its name alone, and with a slip")
	s.run("inbox", "list", "--subscription", r.team+".fulfil")
	s.run("inbox", "list", "--subscription", "fulfil", "-o", "id")
	s.run("inbox", "list", "--subscription", "triage", "-o", "id")
	s.run("inbox", "list", "--subscription", r.team+".triag")
	s.run("inbox", "list", "--subscription", r.team+".triage", "--team", r.team+"-b")
	s.run("inbox", "list", "--team", "nobody")
	s.say("where all is known, and nothing matches, that is an answer")
	s.run("inbox", "list", "--subscription", "unopened", "--decision", "applied")
	s.say("types, one and by a glob; sources; entities")
	s.run("inbox", "list", "--type", "com.github.*", "--subscription", r.team+".triage", "-o", "id")
	s.run("inbox", "list", "--type", "com.github.isues.*")
	s.run("inbox", "list", "--source", r.team+"/orders", "--decision", "applied", "-o", "id")
	s.run("inbox", "list", "--source", "orders")
	s.run("inbox", "list", "--source", r.team+"/oders")
	s.run("inbox", "list", "--entity", "7/1", "--source", r.team+"/github", "--decision", "applied", "-o", "id")
	s.run("inbox", "list", "--entity", "7/11")
	s.run("inbox", "list", "--status", "don")
	s.run("inbox", "list", "--since", "yesterday")
	s.run("attention", "--kind", "dead_leter")
	s.say("a conflict has an id of its own, which leads to its body")
	conflict := strings.TrimSpace(s.run("inbox", "list", "--decision", "conflict", "-o", "id"))
	s.run("inbox", "raw", conflict)
	s.run("inbox", "raw", r.team+"/fulfil/orders/o-1-1")
	s.say("ids that are cut off")
	s.run("inbox", "get", r.team+"/triage/github/"+refused.id[:15], "-o", "id")
	s.run("inbox", "get", r.team+"/triage/github/sha256", "-o", "id")
	s.run("inbox", "get", r.team+"/triage/github/nobody")
	s.run("inbox", "get", r.team+"/triage/gihub/nobody")
	s.run("dlq", "get", dead.ID[:9], "-o", "id")
	s.run("dlq", "get", "act_zzzz")
	s.run("dlq", "list", "--group", dead.Group[:5], "-o", "id")
	s.run("dlq", "replay", "--group", "816aa", "--reason", "mended")
	s.run("dlq", "list", "--destination", "agent", "-o", "id")
	s.run("dlq", "list", "--entity", "7/11")
	s.run("dlq", "list", "--entity", "7/1", "--type", "com.github.issues.*", "-o", "id")
	s.run("dlq", "list", "--type", "com.github.isues.*")
	s.run("dlq", "replay", "--entity", "7/11", "--reason", "mended")
	s.run("dlq", "replay", "--entity", "o-1", "--reason", "mended")
	s.say("what one list prints, the other commands take")
	event := r.team + "/triage/github/" + refused.id
	s.run("inbox", "get", dead.ID, "-o", "id")
	s.run("dlq", "get", event, "-o", "id")
	s.run("dlq", "get", r.team+"/fulfil/orders/o-1-1")
	s.run("dlq", "replay", event, "--dry-run")
	s.run("inbox", "redrive", dead.ID, "--reason", "x")
	s.run("inbox", "get", "quarantine."+r.team+".orders/0@0")
	s.run("inbox", "redrive", "quarantine."+r.team+".orders/0@0", "--reason", "x")
	s.say("and everywhere else")
	s.run("quarantine", "list", "--source", r.team+"/orders")
	s.run("quarantine", "list", "--source", r.team+"/odrers")
	s.run("subscriptions", "get", "fulfill")
	s.run("destinations", "get", r.team+"/agnt")
	s.run("inbox", "redrive", r.team+"/triage/github/"+refused.id, "--reason", "x")
	s.golden("names.golden")
}

// TestWhatIsSetAside, as who sends it by hand meets it: why it became no event, where it is, and that it was redriven.
func TestWhatIsSetAside(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme"})
	p := r.serve("intake,stream")
	s := &transcript{r: r, p: p, names: []string{r.config, "forebay.yaml", p.intake, "http://127.0.0.1:8080", operatorName(), "ann@ops"}}
	s.say("a slip in the source's name; a body that is no event, and why; one that is")
	send := []string{"send", r.team + "/orders", "-c", r.config, "--url", p.intake, "--file"}
	s.run("send", r.team+"/oders", "-c", r.config, "--sample", "github/push")
	s.run("send", r.team+"/orders", "-c", r.config, "--sample", "github/isues.labeled")
	body := r.file(`{"kind":"com.shop.order.changed","order":{"id":"o-1","rev":1}}`)
	s.names = append(s.names, body, "body.json")
	s.run(append(send, body, "--header", "X-Event-Id=e-1")...)
	r.file(`{"type":"com.shop.order.changed","order":{"id":"o-2","rev":1}}`)
	s.run(append(send, body, "--header", "X-Event-Id=e-2")...)
	s.say("it waits")
	id := strings.TrimSpace(s.run("quarantine", "list", "-o", "id"))
	s.run("quarantine", "list", "--source", "orders")
	s.run("quarantine", "redrive", id, "--reason", "mended")
	s.run("inbox", "get", id)
	s.say("the mapping is mended: it becomes its event, once, and says so")
	r.edit("          type: /type\n", "          type: \"cel:has(body.type) ? body.type : body.kind\"\n")
	p.stop()
	p = r.serve("intake,stream")
	s.p = p
	s.run("quarantine", "redrive", id, "--dry-run")
	s.run("quarantine", "redrive", id, "--reason", "mended")
	s.run("quarantine", "list", "--source", "orders")
	s.run("quarantine", "list", "--waiting")
	s.run("quarantine", "redrive", id, "--reason", "mended")
	r.agent.waitActed(t, 2, time.Minute)
	waitItems(t, r, p, 2, "--subscription", "fulfil", "--status", "done")
	s.say("its story tells who made it one")
	s.run("inbox", "get", r.team+"/fulfil/orders/e-1")
	s.say("the delivery's id is its event's, too, and not the other way round")
	s.run("inbox", "get", id, "-o", "id")
	s.run("inbox", "raw", id)
	s.run("dlq", "get", id)
	s.run("quarantine", "raw", r.team+"/fulfil/orders/e-1")
	s.golden("aside.golden")
}

// TestDeliveryIsLookedForEverywhere: by GitHub's id of a delivery, whether a subscription has decided its event yet or not, and in
// quarantine; and what was searched is said.
func TestDeliveryIsLookedForEverywhere(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme"})
	p := r.serve("intake,stream")
	goOn := holdFences(t, r, "acme.%")
	one, signed := issue(7, 1, 1), order("o-1", 1)
	r.deliver(one, signed)
	s := &transcript{r: r, p: p, names: []string{operatorName(), "ann@ops"}}
	s.say("accepted, and not decided yet: by GitHub's id of the delivery, and by the event's own")
	s.run("inbox", "list", "--delivery", one.guid(), "-o", "id")
	s.run("inbox", "list", "--delivery", signed.id, "-o", "id")
	goOn()
	r.agent.waitActed(t, 2, time.Minute)
	s.say("and once it is")
	s.run("inbox", "list", "--delivery", one.guid(), "-o", "id")
	s.run("inbox", "list", "--delivery", signed.id, "-o", "id")
	s.say("in quarantine: it came under the name of another event")
	other := issue(7, 9, 2)
	req := other.request(t.Context(), p.intake, r.team)
	req.Header.Set("X-GitHub-Event", "push")
	if status := do(t, req); status != http.StatusAccepted {
		t.Fatal(status)
	}
	s.run("inbox", "list", "--delivery", other.guid())
	s.say("nowhere; and a time before which nothing is looked for")
	s.run("inbox", "list", "--delivery", "nobody")
	s.run("inbox", "list", "--delivery", "nobody", "--since", "1h")
	s.run("inbox", "list", "--delivery", one.guid(), "--cursor", "broken")
	s.golden("delivery.golden")
}

// TestStoryOfAnEvent: what happened to an event, what it waits for and until when, who asked what, and what happens next; and where its
// entity stands.
func TestStoryOfAnEvent(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme"})
	var mended atomic.Bool
	bad := issue(7, 1, 1)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == bad.id && !mended.Load() })
	p := r.serve("intake,stream")
	status := func(n int, filter ...string) { t.Helper(); waitItems(t, r, p, n, filter...) }
	tampered := order("o-1", 1)
	tampered.body = []byte(strings.Replace(string(tampered.body), "changed", "cancelled", 1))
	// o-12 is in the partition of o-1: lists go by partitions in the order in which they were claimed.
	r.deliver(order("o-1", 1), tampered, order("o-1", 3), order("o-1", 4), order("o-1", 6), order("o-12", 2))
	status(4, "--decision", "buffered")
	status(1, "--decision", "conflict")

	s := &transcript{r: r, p: p, names: []string{operatorName(), "ann@ops"}}
	get := func(subscription, source, id string) {
		s.run("inbox", "get", r.team+"/"+subscription+"/"+source+"/"+id)
	}
	s.say("behind a gap: 2 is missing")
	get("fulfil", "orders", "o-1-3")
	get("fulfil", "orders", "o-1-6")
	s.run("entities", "get", r.team+"/fulfil/orders", "o-1")
	s.run("gaps", "list", "--subscription", "fulfil")
	s.run("gaps", "list", "--source", "orders", "--limit", "1", "-o", "id")
	s.run("gaps", "list", "--waits", "parked")
	s.say("it comes: 3 and 4 run, 6 still waits")
	r.deliver(order("o-1", 2))
	status(4, "--entity", "o-1", "--status", "done")
	get("fulfil", "orders", "o-1-3")
	s.run("entities", "get", r.team+"/fulfil/orders", "o-1")
	s.run("entities", "list", "--team", r.team)
	s.say("an operator lets another one run, across its gap")
	s.run("inbox", "redrive", r.team+"/fulfil/orders/o-12-2", "--reason", "the shop says it was never sent")
	status(1, "--entity", "o-12", "--status", "done")
	get("fulfil", "orders", "o-12-2")
	s.run("entities", "get", r.team+"/fulfil/orders/o-12")
	s.say("a conflict")
	get("fulfil", "events."+r.team+".orders", "0@1")

	s.say("a dead letter, and what stands behind it")
	r.deliver(bad, issue(7, 1, 2))
	dead := r.waitDead(p, 1)
	status(1, "--status", "parked")
	behind := schemas.NewActionID(r.team+".triage", 0, "/"+r.team+"/github", issue(7, 1, 2).id, "run")
	s.names = append(s.names, dead.ID, "act_dead", string(behind), "act_behind")
	for _, name := range []string{"o-1-1", "o-1-2", "o-1-3", "o-1-4", "o-1-6", "o-12-2"} {
		s.names = append(s.names, string(schemas.NewActionID(r.team+".fulfil", 0, "/"+r.team+"/orders", name, "run")), "act_"+name)
	}
	get("triage", "github", bad.id[:20])
	get("triage", "github", issue(7, 1, 2).id[:20])
	s.run("entities", "get", r.team+"/triage/github", "7/1")
	s.say("replayed while its destination is paused")
	mended.Store(true)
	s.run("destinations", "pause", r.team+"/agent", "--reason", "deploying", "-o", "id")
	s.run("dlq", "replay", dead.ID, "--reason", "the agent takes them", "-o", "id")
	get("triage", "github", bad.id[:20])
	s.run("destinations", "resume", r.team+"/agent", "--reason", "deployed", "-o", "id")
	status(2, "--entity", "7/1", "--status", "done")
	get("triage", "github", bad.id[:20])
	s.say("what is not there")
	s.run("entities", "get", r.team+"/fulfil/orders", "o-9")
	s.run("entities", "get", r.team+"/fulfil/oders", "o-1")
	s.run("entities", "get", r.team+"/fulfil")
	s.golden("story.golden")
}

// TestStoryOfAParkedEvent: how long an event waited, since when it is parked, and when what was missing came after all.
func TestStoryOfAParkedEvent(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{team: "acme", gap: "{wait: 200ms, then: park}"})
	p := r.serve("intake,stream")
	r.deliver(order("o-1", 1))
	r.deliver(order("o-1", 3))
	waitItems(t, r, p, 1, "--decision", "parked")
	s := &transcript{r: r, p: p, names: []string{operatorName(), "ann@ops",
		string(schemas.NewActionID(r.team+".fulfil", 0, "/"+r.team+"/orders", "o-1-3", "run")), "act_o-1-3"}}
	s.say("parked: 2 has not come in time")
	s.run("inbox", "get", r.team+"/fulfil/orders/o-1-3")
	r.deliver(order("o-1", 2))
	waitItems(t, r, p, 3, "--entity", "o-1", "--status", "done")
	s.say("2 comes after all")
	s.run("inbox", "get", r.team+"/fulfil/orders/o-1-3")
	s.golden("parked.golden")
}

// operatorName is what the command line calls who runs it.
func operatorName() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
