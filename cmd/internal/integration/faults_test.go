package integration

import (
	"context"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/testrig"
)

// The load of the fault tests: bounded in count; a pause bounds the rate, so that the fault falls into the middle.
const (
	faultEntities = 60
	faultEvents   = 30
	faultWorkers  = 12
	inFlightSlack = 2 * time.Second
)

// fastLoad and slowLoad are the pauses of the load: slow is for faults that last.
const (
	fastLoad = 40 * time.Millisecond
	slowLoad = 120 * time.Millisecond
)

// underLoad runs the load with a fault in its middle and fails on anything but repeats of calls in flight.
func underLoad(t *testing.T, r *rig, fault func() []time.Time) verdict {
	t.Helper()
	v := load(t, r, fastLoad, fault)
	v.require(t)
	return v
}

// load sends, calls fault in the middle of it, waits until every accepted event has run, and judges.
func load(t *testing.T, r *rig, pause time.Duration, fault func() []time.Time) verdict {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, context.DeadlineExceeded)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		loaded <- r.sender.load(ctx, lines(faultEntities, faultEvents, func(e, n int) delivery { return issue(7, e, n) }), faultWorkers, pause)
	}()
	r.agent.waitActed(t, faultEntities*faultEvents/10, time.Minute)
	faults := fault()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	r.agent.waitActed(t, faultEntities*faultEvents, 2*time.Minute)
	v := judge(r.sender.told(), r.agent.snapshot())
	v.requireRepeatsInFlight(t, faults, inFlightSlack)
	t.Logf("%d events, %d calls repeated under their keys, %d deliveries retried", len(r.sender.told()), len(v.repeated), r.sender.retries.Load())
	return v
}

// TestKill9OfServe kills the whole process in the middle of a load, twice.
func TestKill9OfServe(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 2 * time.Millisecond})
		p := r.serve("intake,stream")
		underLoad(t, r, func() (at []time.Time) {
			for range 2 {
				at = append(at, time.Now())
				p.kill()
				p = r.serve("intake,stream")
				acted := r.agent.acted()
				r.agent.waitActed(t, acted+40, time.Minute)
			}
			return at
		})
	})
}

// TestRestartOfEitherProcess stops and starts intake and stream, each a process of its own, cleanly: nothing repeats.
func TestRestartOfEitherProcess(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 2 * time.Millisecond})
		intake, stream := r.serve("intake"), r.serve("stream")
		v := underLoad(t, r, func() []time.Time {
			stream.stop()
			intake.stop()
			r.serve("intake")
			r.serve("stream")
			return nil
		})
		v.requireNoRepeats(t)
	})
}

// TestPostgresStopsHard kills the database in the middle of a load and starts it again.
func TestPostgresStopsHard(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		pg := testrig.Postgres(t)
		r := newRig(t, b, options{latency: 2 * time.Millisecond, dbURL: pg.URL()})
		r.serve("intake,stream")
		underLoad(t, r, func() []time.Time {
			at := time.Now()
			pg.Kill()
			pg.Restart()
			return []time.Time{at, time.Now()}
		})
	})
}

// TestBrokerKilledAndRestarted kills the broker in the middle of a load and starts it again on the same data.
func TestBrokerKilledAndRestarted(t *testing.T) {
	eachOwnBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 2 * time.Millisecond})
		r.serve("intake,stream")
		underLoad(t, r, func() []time.Time {
			at := time.Now()
			b.KillBroker(1)
			b.RestartBroker(1)
			return []time.Time{at, time.Now()}
		})
	})
}
