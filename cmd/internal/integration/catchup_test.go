package integration

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestCatchUp stops the stream, takes pull requests of 200 bytes to 900 KB, and starts it again under a load of such deliveries that goes on:
// all of it runs, once and in order. Its batches are full by their bytes long before they are by their records, and one fetch unpacks to
// several.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	r.sender.once = true
	r.serve("intake")
	r.serve("stream").stop() // where it begins is stored
	entities, states := soak(40, 100), 6
	r.loadPulls(7, entities, states)
	r.serve("stream")
	r.loadPulls(8, entities, states)
	r.agent.waitQuiet(2*entities*states, time.Minute)
	r.requireOnce(t)
}

// loadPulls delivers as many of each order of magnitude.
func (r *deployment) loadPulls(repository, entities, states int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	all := lines(entities, states, func(e, n int) delivery {
		random := rand.New(rand.NewPCG(uint64(e), uint64(n)))
		return pull(repository, e, n, int(200*math.Pow(900<<10/200, random.Float64())))
	})
	if err := r.sender.load(ctx, all, 16, 0); err != nil {
		r.t.Fatal(err)
	}
}
