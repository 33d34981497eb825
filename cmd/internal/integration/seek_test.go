package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestResetOfTheGroup runs a load, resets the stopped group to the earliest offset with Kafka's own tool, and goes on with a second load: done
// work is skipped, nothing runs again.
func TestResetOfTheGroup(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	if err := r.sender.load(t.Context(), lines(10, 4, func(e, n int) delivery { return issue(7, e, n) }), 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitActed(t, 40, time.Minute)
	waitItems(t, r, stream, 20, "--subscription", "triage", "--decision", "duplicate") // what was repeated last has been read, too
	stream.stop()
	k.ResetToEarliest(r.team+".triage", "events."+r.team+".github")

	stream = r.serve("stream")
	if err := r.sender.load(t.Context(), lines(10, 5, func(e, n int) delivery { return issue(8, e, n) }), 4, 0); err != nil {
		t.Fatal(err)
	}
	r.agent.waitActed(t, 90, time.Minute)
	r.requireOnce(t)

	// The sender repeats the first and the fourth of each entity: they came twice, and so they are counted, however often the log is read.
	seconds := map[string]int{}
	for _, i := range waitItems(t, r, stream, 40, "--subscription", "triage", "--decision", "duplicate") {
		seconds[i.Entity[:2]] += i.Duplicates
	}
	if seconds["7/"] != 20 || seconds["8/"] != 20 {
		t.Errorf("%d and %d duplicates are counted, want 20 of the load that was read again and of the other", seconds["7/"], seconds["8/"])
	}
	until(t, "all that was moved is read again", func() bool { return r.skipped(stream) >= 40+20+20 }) // an inbox row is seen before its count
	if n := r.skipped(stream); n != 40+20+20 {
		t.Errorf("%d records were skipped, want the 60 that were read again and the 20 that came twice after them", n)
	}
}

// skipped is how many records the subscription triage of a process has skipped because their events were decided before.
func (r *deployment) skipped(p *process) int {
	p.t.Helper()
	text := p.metric(fmt.Sprintf(`forebay_stream_decisions_total{decision="duplicate",reason="seen",subscription="%s.triage"}`, r.team))
	if text == "" { // none yet
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return int(n)
}
