package integration

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestSecondStreamTakesOver kills one of two stream processes: the other takes its partitions after the session.
func TestSecondStreamTakesOver(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		r.edit("session_timeout: 6s", "session_timeout: 12s") // the other must not lose its own on a busy machine
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
