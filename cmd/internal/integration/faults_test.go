package integration

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// The load of the fault tests: bounded in count; a pause bounds the rate, so that the fault falls into the middle.
const (
	faultEntities = 60
	faultEvents   = 20
	faultWorkers  = 12
)

// fastLoad and slowLoad are the pauses of the load: slow is for faults that last.
const (
	fastLoad = 40 * time.Millisecond
	slowLoad = 120 * time.Millisecond
)

// underLoad runs the load with a fault in its middle and fails on anything but repeats of calls in flight.
func underLoad(t *testing.T, r *deployment, fault func() []fault) verdict {
	t.Helper()
	v, wrong := load(t, r, fastLoad, fault)
	v.require(t)
	report(t, "again without an excuse", wrong)
	return v
}

// load sends, calls fault in the middle of it, waits until every accepted event has run, and judges. wrong are the
// repeats that no rule excuses.
func load(t *testing.T, r *deployment, pause time.Duration, fault func() []fault) (v verdict, wrong []string) {
	t.Helper()
	r.watched = r.watch("triage")
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
	r.agent.waitActed(t, len(r.sender.acceptedByID()), 2*time.Minute)
	r.look()
	v = judge(r.sender.acceptedByID(), r.agent.snapshot())
	t.Logf("%d events, %d calls repeated under their keys, %d deliveries retried", len(r.sender.acceptedByID()), len(v.repeated), r.sender.retries.Load())
	return v, r.watched.excuses(v, faults)
}

// faultSince is a fault that began at from, now that a process runs all partitions of the issues.
func (r *deployment) faultSince(p *process, from time.Time) fault {
	r.t.Helper()
	r.waitOwned(p, 6)
	return fault{from: from, to: time.Now()}
}

// TestKill9OfServe kills the whole process in the middle of a load, twice.
func TestKill9OfServe(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		p := r.serve("intake,stream")
		underLoad(t, r, func() (faults []fault) {
			for range 2 {
				at := time.Now()
				p.kill()
				r.look()
				p = r.serve("intake,stream")
				faults = append(faults, r.faultSince(p, at))
				acted := r.agent.acted()
				r.agent.waitActed(t, acted+40, time.Minute)
			}
			return faults
		})
	})
}

// TestRestartOfEitherProcess stops and starts intake and stream, each a process of its own, cleanly: nothing repeats.
func TestRestartOfEitherProcess(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.edit("session_timeout: 6s", "session_timeout: 30s") // no partition changes hands because the machine is busy
	intake, stream := r.serve("intake"), r.serve("stream")
	v := underLoad(t, r, func() []fault {
		stream.stop()
		intake.stop()
		r.serve("intake")
		r.serve("stream")
		return nil
	})
	v.requireNoRepeats(t)
}

// TestPostgresStopsHard kills the database in the middle of a load and starts it again.
func TestPostgresStopsHard(t *testing.T) {
	t.Parallel()
	pg := rig.Postgres(t)
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond, dbURL: pg.URL()})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	p := r.serve("intake,stream")
	underLoad(t, r, func() []fault {
		at := time.Now()
		pg.Kill()
		pg.Restart()
		return []fault{r.faultSince(p, at)}
	})
}

// waitMirrored waits until the group of the issues has moved on in Kafka: its member is known there.
func (r *deployment) waitMirrored(b rig.Broker) {
	r.t.Helper()
	adm := admin(r.t, b)
	position := func() (sum int64) {
		offsets, err := adm.FetchOffsets(r.t.Context(), r.team+".triage")
		if err != nil {
			return -1
		}
		offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
		return sum
	}
	before := position()
	until(r.t, "the group has moved on", func() bool {
		now := position()
		if before < 0 {
			before = now
		}
		return now > before
	})
}

// TestBrokerKilledAndRestarted kills the broker in the middle of a load and starts it again on the same data.
func TestBrokerKilledAndRestarted(t *testing.T) {
	t.Parallel()
	eachOwnBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		p := r.serve("intake,stream")
		underLoad(t, r, func() []fault {
			at := time.Now()
			b.KillBroker(1)
			b.RestartBroker(1)
			r.waitMirrored(b) // the embedded one has forgotten its members, who hear of it only with their next request
			return []fault{r.faultSince(p, at)}
		})
	})
}
