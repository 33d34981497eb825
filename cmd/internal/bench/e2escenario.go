package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// e2eBar is how many deliveries a second the project asks to see through everything on a machine of two cores.
const e2eBar = 4000

// e2eSizes are the scenario's dimensions.
type e2eSizes struct {
	warmUp     time.Duration // at full load, before the first figure
	warmEvents int64         // as many at least, within four times that: a broker's JVM serves three times as much once it is warm
	conns      int
	entities   int // of a connection
	partitions int
	window     int64 // accepted and not yet come to the agent, at most, at full load
}

var e2eScale = e2eSizes{warmUp: 15 * time.Second, warmEvents: 100_000, conns: 64, entities: 312, partitions: 12, window: 2000}

const e2eParts = `    destinations:
      agent: {type: http, url: "AGENT/run", timeout: 10s, allow_networks: [127.0.0.0/8]}
    subscriptions:
      all:
        sources: [github]
        begin: all
        actions: [{name: run, to: agent}]
`

func runE2EScenario(ctx context.Context, o Options, r *Report) error {
	return runE2E(ctx, o, e2eScale, r)
}

func runE2E(ctx context.Context, o Options, sizes e2eSizes, r *Report) error {
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	w, err := o.startWhole(ctx, pg, wholeTeam("e2e"), sizes.partitions, e2eParts)
	if err != nil {
		return err
	}
	defer w.close()
	b := &e2eBench{Options: o, e2eSizes: sizes, w: w, s: w.senders(sizes.conns, []share{{kind: 0, weight: 1, entities: sizes.entities}})}
	rate, err := b.full(ctx, r)
	if err != nil {
		return err
	}
	if err := b.half(ctx, r, rate); err != nil {
		return err
	}
	r.Settings["e2e"] = fmt.Sprintf("GitHub preset, bodies of %d bytes, each signed, %d entities, %d partitions, acks=all; at full load %d connections and at most %d "+
		"deliveries between accept and agent; intake and stream in a process each, agent, load, broker and Postgres beside them; %d deliveries in all, each "+
		"at the agent once and in order", deliveryBody, sizes.conns*sizes.entities, sizes.partitions, sizes.conns, sizes.window, b.s.sent.Load())
	w.stop() // profiles are written at the end
	for _, role := range []string{"intake", "stream"} {
		if text, err := profileByPackage(ctx, w.profileOf(role)); err == nil {
			r.Settings["e2e.profile_"+role] = text
		} else {
			o.logf("no profile of the %s process: %v", role, err)
		}
	}
	return nil
}

// wholeTeam is a team that no run before has used.
func wholeTeam(what string) string { return what + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) }

// e2eBench is one run of the scenario.
type e2eBench struct {
	Options
	e2eSizes
	w *whole
	s *senders
}

// full sends as fast as deliveries come to the agent and reports the rate at which they do. The senders stop while more
// than the window are on their way: else the intake, which is the faster part, would be measured first and the stream
// afterwards.
func (b *e2eBench) full(ctx context.Context, r *Report) (rate float64, err error) {
	var came atomic.Int64
	b.s.room = func(sent int64) bool { return sent-came.Load() < b.window }
	var rates []float64
	spent, events := map[string]time.Duration{}, int64(0)
	err = b.s.during(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			cancel(b.watch(ctx, &came))
		}()
		defer func() { cancel(nil); <-watched }()
		if err := b.warmed(ctx, &came); err != nil {
			return err
		}
		for i := range b.Rounds {
			before, from, begin := b.spent(), came.Load(), time.Now()
			if err := until(ctx, begin.Add(b.Round)); err != nil {
				return err
			}
			n, elapsed := came.Load()-from, time.Since(begin)
			for part, used := range b.spent() {
				spent[part] += used - before[part]
			}
			events += n
			rates = append(rates, float64(n)/elapsed.Seconds())
			b.logf("e2e round %d: %.0f/s", i+1, rates[i])
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	b.s.room = nil
	if err := b.check(ctx, nil); err != nil {
		return 0, err
	}
	rate = median(rates)
	ratio := Ratio{Name: "e2e/rate", Unit: "deliveries/s to completed actions, and asked", Ours: rate, Theirs: e2eBar, Ratio: rate / e2eBar, Bar: 1}
	for _, v := range rates {
		ratio.Rounds = append(ratio.Rounds, v/e2eBar)
	}
	r.Ratios = append(r.Ratios, ratio)
	for _, part := range []string{"intake", "stream", "broker", "postgres", "load", "agent"} {
		r.cost("e2e/cpu_"+part, "us", float64(spent[part].Microseconds()), events)
	}
	return rate, nil
}

// warmed waits until the broker is warm.
func (b *e2eBench) warmed(ctx context.Context, came *atomic.Int64) error {
	b.logf("e2e: warming up for %s and with %d deliveries", b.warmUp, b.warmEvents)
	begin := time.Now()
	if err := until(ctx, begin.Add(b.warmUp)); err != nil {
		return err
	}
	for came.Load() < b.warmEvents && time.Since(begin) < 4*b.warmUp {
		if err := until(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// watch keeps count of what has come to the agent.
func (b *e2eBench) watch(ctx context.Context, came *atomic.Int64) error {
	for {
		n, err := b.w.came(ctx)
		if err != nil {
			return err
		}
		came.Store(n)
		if err := until(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
			return err
		}
	}
}

// spent is the processor time that every part has used.
func (b *e2eBench) spent() map[string]time.Duration {
	all := map[string]time.Duration{"load": ownCPU(), "postgres": b.w.pg.meter.server()}
	for part, pid := range b.w.processes {
		all[part] = cpuOf(pid, false)
	}
	return all
}

// half sends at half of a rate and reports the time from the answer 202 to the agent's receipt, without the first
// seconds.
func (b *e2eBench) half(ctx context.Context, r *Report, rate float64) error {
	b.s.pause = time.Duration(2 / rate * float64(time.Second))
	calm := min(3*time.Second, b.Round)
	from := time.Now().Add(calm).UnixNano()
	b.logf("e2e: %.0f/s for %s", rate/2, calm+time.Duration(b.Rounds)*b.Round)
	err := b.s.during(ctx, func(ctx context.Context) error {
		return until(ctx, time.Now().Add(calm+time.Duration(b.Rounds)*b.Round))
	})
	if err != nil {
		return err
	}
	var late []receipt
	return b.check(ctx, func(accepted, came []receipt) {
		for _, a := range accepted {
			if a.At >= from {
				late = append(late, a)
			}
		}
		times, _ := ways(late, came, all)
		r.figure("e2e/half_rate", "deliveries/s", float64(len(late))/(time.Duration(b.Rounds)*b.Round).Seconds())
		const unit = "ms from accept to action at half of the rate"
		r.figure("e2e/p50", unit, float64(percentile(times, 0.5).Microseconds())/1000)
		r.figure("e2e/p99", unit, float64(percentile(times, 0.99).Microseconds())/1000)
	})
}

func all(uint64) bool { return true }

// check waits until everything sent is done and holds it to its promises: nothing lost, nothing twice, in order.
func (b *e2eBench) check(ctx context.Context, read func(accepted, came []receipt)) error {
	if err := b.w.drained(ctx, "all", b.s.sent.Load()); err != nil {
		return err
	}
	fate, came, err := b.w.take(ctx)
	if err != nil {
		return err
	}
	accepted := b.s.takeAccepted()
	if _, lost := ways(accepted, came, all); lost > 0 || fate.Twice > 0 || fate.Unordered > 0 || len(came) != len(accepted) {
		return fmt.Errorf("of %d accepted deliveries %d came: %d lost, %d twice, %d out of order", len(accepted), len(came), lost, fate.Twice, fate.Unordered)
	}
	if read != nil {
		read(accepted, came)
	}
	return nil
}

var errNoProfile = errors.New("the process wrote none")
