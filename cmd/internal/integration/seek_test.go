package integration

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/testrig"
)

// TestResetOfTheGroup resets the group to the earliest offset with Kafka's own tool: done work is skipped and counted,
// nothing runs again.
func TestResetOfTheGroup(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{})
		r.serve("intake")
		stream := r.serve("stream")
		if err := r.sender.load(t.Context(), lines(10, 4, func(e, n int) delivery { return issue(7, e, n) }), 4, 0); err != nil {
			t.Fatal(err)
		}
		r.agent.waitActed(t, 40, time.Minute)
		stream.stop()
		b.ResetToEarliest("acme.triage", "events.acme.github")

		stream = r.serve("stream")
		if err := r.sender.load(t.Context(), lines(10, 5, func(e, n int) delivery { return issue(8, e, n) }), 4, 0); err != nil {
			t.Fatal(err)
		}
		r.agent.waitActed(t, 90, time.Minute)
		v := judge(r.sender.told(), r.agent.snapshot())
		v.require(t)
		v.requireNoRepeats(t)
		waitItems(t, r, stream, 40, "--subscription", "triage", "--decision", "duplicate")
	})
}
