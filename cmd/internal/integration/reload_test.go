package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestReloadUnderLoad changes a destination, and then the subscription itself, in the middle of a load: nothing is lost, nothing runs twice, and the
// order holds. The subscription of other events is not begun again.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	p := r.serve("intake,stream")
	others := func() int { return strings.Count(p.output(), "subscription="+r.team+".fulfil ") }
	v := underLoad(t, r, func() []fault {
		before := others()
		r.edit("      agent: {type: http,", "      agent: {type: http, concurrency: 60, max_hold: 7s,")
		until(t, "the destination's change is read", func() bool { return strings.Count(p.output(), "configuration reloaded") == 1 })
		sessions, _ := r.heard(p)
		if sessions != 1 {
			t.Errorf("%d sessions of the group after the change of a destination, want the one of before", sessions)
		}
		r.edit("      triage:\n", "      triage:\n        retention: {done: 8d}\n")
		until(t, "the subscription has begun again", func() bool { sessions, _ := r.heard(p); return sessions == 2 })
		r.waitOwned(p, 6)
		if n := others(); n != before {
			t.Errorf("the other subscription has said %d lines more", n-before)
		}
		return nil
	})
	v.requireNoRepeats(t)
	p.endsInTime(t)
}
