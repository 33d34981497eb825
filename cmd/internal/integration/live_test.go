package integration

import (
	"strings"
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
