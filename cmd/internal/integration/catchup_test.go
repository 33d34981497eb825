package integration

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The catch-up: deliveries that a provider really sends, taken while no stream runs. Batches of them are full by their
// bytes long before they are by their records, and one fetch unpacks to several.
const (
	catchUpEntities = 600
	catchUpStates   = 10
	catchUpWorkers  = 16
)

// TestCatchUp stops the stream, takes 6,000 pull requests of 18 to 48 KB, and starts it again: all of it runs, once and
// in order.
func TestCatchUp(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		r.sender.once = true
		r.serve("intake")
		r.serve("stream").stop() // where it begins is stored
		size := func(e, n int) int { return 18<<10 + (e*7919+n*104729)%(30<<10) }
		r.loadPulls(7, catchUpEntities, catchUpStates, size)
		r.serve("stream")
		r.requireCaughtUp(t, catchUpEntities*catchUpStates)
	})
}

// TestCatchUpOfAllSizes is the same from 200 bytes to 900 KB, with a load of such deliveries that goes on meanwhile.
func TestCatchUpOfAllSizes(t *testing.T) {
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		r.sender.once = true
		r.serve("intake")
		r.serve("stream").stop()
		const entities, states = 100, 8
		size := func(e, n int) int { // of each order of magnitude as many
			random := rand.New(rand.NewPCG(uint64(e), uint64(n)))
			return int(200 * math.Pow(900<<10/200, random.Float64()))
		}
		r.loadPulls(7, entities, states, size)
		r.serve("stream")
		r.loadPulls(8, entities, states, size)
		r.requireCaughtUp(t, 2*entities*states)
	})
}

func (r *deployment) loadPulls(repository, entities, states int, size func(e, n int) int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	all := lines(entities, states, func(e, n int) delivery { return pull(repository, e, n, size(e, n)) })
	if err := r.sender.load(ctx, all, catchUpWorkers, 0); err != nil {
		r.t.Fatal(err)
	}
}

// requireCaughtUp waits for n events, and fails with what is lost where they do not come.
func (r *deployment) requireCaughtUp(t *testing.T, n int) {
	t.Helper()
	r.agent.waitQuiet(n, 20*time.Second)
	r.requireOnce(t)
}
