package integration

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRebalanceBetweenTwoStreams moves partitions to a second stream process and back: a clean hand-over repeats
// nothing.
func TestRebalanceBetweenTwoStreams(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		r.serve("intake")
		r.serve("stream")
		v := underLoad(t, r, func() []fault {
			second := r.serve("stream")
			acted := r.agent.acted()
			r.agent.waitActed(t, acted+100, time.Minute)
			second.stop()
			return nil
		})
		v.requireNoRepeats(t)
	})
}

// TestSecondStreamTakesOver kills one of two stream processes: the other takes its partitions after the session.
func TestSecondStreamTakesOver(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		r.serve("intake")
		first := r.serve("stream")
		second := r.serve("stream")
		underLoad(t, r, func() []fault {
			at := time.Now()
			first.kill()
			r.look()
			return []fault{r.faultSince(second, at)}
		})
	})
}
