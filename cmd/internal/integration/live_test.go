package integration

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestLiveViewOutlivesARestart stops the process whose inbox is open in a browser: the page says that it is not live, and once the process is
// there again it goes on where it was, by itself: it shows what came meanwhile, and what it had shown once.
func TestLiveViewOutlivesARestart(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	r.serve("intake")
	p := r.serve("stream")
	deliver := func(d delivery) (event string) {
		t.Helper()
		r.deliver(d)
		return d.id
	}
	b := openBrowser(t, "http://"+p.operator)
	says := func(status string) {
		t.Helper()
		var said any
		if !rig.Until(time.Minute, func() bool { said = b.do("part", "selector", "#live-status"); return said == status }) {
			t.Fatalf("the live view says %q, not %q", said, status)
		}
	}
	b.open("/console/inbox")
	says("Live")
	before := deliver(issue(7, 1, 1))
	b.see("row", before)
	b.complained()

	p.stop()
	if !rig.Until(time.Minute, func() bool { return strings.HasPrefix(b.do("part", "selector", "#live-status").(string), "Not live: ") }) {
		t.Fatalf("of a process that is gone the live view says %q", b.do("part", "selector", "#live-status"))
	}
	meanwhile := deliver(issue(7, 2, 1))
	r.edit("${env:OPERATOR}", p.operator) // where the browser asks
	again := r.start("stream")
	again.operator = p.operator
	again.waitReady(time.Minute)
	b.see("row", meanwhile)
	says("Live")
	after := deliver(issue(7, 3, 1))
	b.see("row", after)
	for _, event := range []string{before, meanwhile, after} {
		if n := strings.Count(b.do("text").(string), event); n != 1 {
			t.Errorf("event %s is shown %d times", event, n)
		}
	}
	b.do("complaints") // that nobody answered, as often as it asked
	b.check("inbox-again")
}

// TestLiveViewIsReadAgain: what has changed after the time that the stream looks back is shown when the page reads itself again; who comes back
// to a page is shown what has come meanwhile, and is not told that some of it is missing.
func TestLiveViewIsReadAgain(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(call) bool { return !mended.Load() })
	p := r.serve("intake,stream")
	refused := issue(7, 1, 1)
	r.deliver(refused)
	b := openBrowser(t, "http://"+p.operator)
	b.do("clock")
	b.open("/console/inbox?status=dead_letter")
	b.see("row", refused.id)
	b.see("status", "Live")
	mended.Store(true)
	if out, err := r.try(p.operator, "dlq", "replay", "--all", "--yes", "--reason", "mended"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if !rig.Until(time.Minute, func() bool { return len(r.inbox(p, "--status", "done")) == 1 }) {
		t.Fatalf("%+v", r.inbox(p))
	}
	shown := func(text string) bool { return strings.Contains(b.do("text").(string), text) }
	const later = 31 // seconds: the page has read itself again by then
	b.do("forward", "seconds", later)
	if !rig.Until(time.Minute, func() bool { return !shown(refused.id) && shown("Nothing to list.") }) {
		t.Errorf("what is done is shown as a dead letter: %s", b.do("text"))
	}

	b.open("/console/inbox?limit=1")
	b.see("status", "Live")
	b.click("button", "Pause")
	b.see("status", "Paused")
	r.deliver(issue(7, 2, 1), issue(7, 3, 1), issue(7, 4, 1), issue(7, 5, 1))
	if !rig.Until(time.Minute, func() bool { return len(r.inbox(p, "--status", "done")) == 5 }) {
		t.Fatalf("%+v", r.inbox(p))
	}
	newest := r.inbox(p, "--limit", "1")[0].EventID
	b.click("button", "Go on")
	b.see("row", newest)
	b.see("status", "Live")
	time.Sleep(3 * time.Second) // of looks of the stream
	if shown("Not all is shown here") {
		t.Errorf("the page that is read again has left nothing out: %s", b.do("text"))
	}
	b.complained()
}
