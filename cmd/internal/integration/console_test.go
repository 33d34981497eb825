package integration

import (
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestConsole looks at forebay dev in a browser, as the person on call does: what arrives, an entity with a gap, a dead letter, which is
// replayed by a click once the agent is mended, and what the agent saw of that.
func TestConsole(t *testing.T) {
	t.Parallel()
	r := deployDev(t)
	r.write("", options{gap: "{wait: 30m, then: park}"})
	var broken atomic.Bool
	broken.Store(true)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.entity == "o-2" && broken.Load() })
	p := r.dev("-c", r.config)
	r.intake.Store(p)
	const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>`
	r.deliver(order("o-1", 1), order("o-1", 2), order("o-1", 4), order("o-2", 1), delivery{source: "orders", id: hostile, entity: "o-3", number: 1,
		body: []byte(`{"type":"com.shop.<svg onload=alert(3)>","order":{"id":"o-3","rev":1}}`)})
	waitItems(t, r, p, 5)
	waitItems(t, r, p, 1, "--status", "dead_letter")
	waitItems(t, r, p, 1, "--status", "buffered")

	b := openBrowser(t, "http://"+p.operator)
	b.until("/", "dead_letter", "demo.fulfil", "demo/shop", "5 accepted", "1 rejected", "p99 at most ")
	b.check("overview")
	b.do("press", "name", "Tab")
	if on := b.do("focused"); on != "Skip to content" {
		t.Errorf("the first that the keyboard reaches is %q", on)
	}

	b.click("link", "Inbox")
	b.see("row", hostile)
	b.see("status", "Live")
	b.check("inbox")
	r.deliver(order("o-9", 1))
	b.see("row", "o-9-1") // the page was not loaded again
	b.click("button", "Pause")
	r.deliver(order("o-9", 2))
	waitItems(t, r, p, 2, "--entity", "o-9", "--status", "done")
	if strings.Contains(b.do("text").(string), "o-9-2") {
		t.Error("a paused page goes on")
	}
	b.click("button", "Go on")
	b.see("row", "o-9-2")
	b.click("link", hostile)
	b.see("heading", "Story")
	b.says(hostile, "com.shop.<svg onload=alert(3)>")
	b.check("hostile")

	b.open("/console/inbox?entity=o-1")
	b.click("link", "o-1-4")
	b.see("heading", "Story")
	b.says("buffered", `{"type":"com.shop.order.changed","order":{"id":"o-1","rev":4}}`, "ce_type")
	b.check("event")
	b.click("link", "o-1")
	b.see("listitem", "at 2 (sequence), missing 3")
	b.see("img", "3 missing")
	b.check("entity")

	b.click("link", "Attention")
	b.until("/console/attention", "forebay dlq replay act_")
	b.check("attention")
	b.click("link", "Dead letters")
	b.see("row", "demo/shop")
	b.check("dlq")
	broken.Store(false)
	dead := r.deadLetter(p)
	b.click("link", dead.ID)
	b.says("rejected 422", "What a replay would do", "Force")
	b.check("dead")
	b.open("/console/dlq")
	b.click("link", "Replay group "+dead.Group+"…")
	b.see("status", "1 dead letter is replayed")
	b.check("replay")
	b.click("button", "Replay 1 dead letter") // without a reason, the browser sends nothing
	b.says("Nothing was done yet.")
	b.do("fill", "name", "Reason, which is kept", "text", "the shop is mended")
	b.click("button", "Replay 1 dead letter")
	b.see("heading", "What became of it")
	b.says("1 asked to run again")
	b.check("replayed")
	if !rig.Until(time.Minute, func() bool { return r.doneAt("o-2") }) {
		t.Fatalf("the agent did not see the replay: %+v", r.agent.snapshot())
	}
	b.click("link", "o-2-1")
	b.until("/console/event?id=demo/fulfil/orders/o-2-1", "run to demo/shop: done", "the shop is mended")
	b.check("after")
}

// seeScene goes where the scene of forebay dev says: to the order with a gap and a stale filler, and to the dead letter, which a click
// replays; what waited behind it runs then.
func seeScene(t *testing.T, said string) {
	at := regexp.MustCompile(`(?m)^  (?:drawn|a click|then) +(http://[^/]+)(/\S+)$`).FindAllStringSubmatch(said, -1)
	if len(at) != 3 {
		t.Fatalf("the scene says to look at %v:\n%s", at, said)
	}
	click, then, drawn := at[0][2], at[1][2], at[2][2]
	b := openBrowser(t, at[0][1])
	b.open(drawn)
	b.see("listitem", "at 5 (sequence), skipped 4")
	b.see("img", "4 skipped")
	b.see("img", "filler")
	b.check("scene-gap")
	b.open(then)
	b.see("row", "dead_letter")
	if n := strings.Count(b.do("text").(string), "parked"); n != 3 { // once it is in the legend
		t.Errorf("%d events wait behind the dead letter", n-1)
	}
	b.open(click)
	b.says("rejected 422", "this order has an article without a price", "2 events")
	b.do("fill", "name", "Reason, which is kept", "text", "it has a price now")
	b.click("button", "Replay 1 dead letter")
	b.see("heading", "What became of it")
	b.says("1 asked to run again")
	if !rig.Until(time.Minute, func() bool {
		b.open(then)
		text := b.do("text").(string)
		return strings.Count(text, "done") == 4 && !strings.Contains(text, "dead_letter")
	}) {
		t.Errorf("not all four have run:\n%s", b.do("text"))
	}
	b.check("scene-after")
}

// deadLetter returns the one dead letter.
func (r *deployment) deadLetter(p *process) deadItem {
	r.t.Helper()
	dead, err := r.dlq(p, "list")
	if err != nil || len(dead) != 1 {
		r.t.Fatalf("dead letters: %+v, %v", dead, err)
	}
	return dead[0]
}

// doneAt tells whether the agent has answered 200 to an action of the entity.
func (r *deployment) doneAt(entity string) bool {
	for _, c := range r.agent.snapshot() {
		if c.entity == entity && c.status == http.StatusOK {
			return true
		}
	}
	return false
}
