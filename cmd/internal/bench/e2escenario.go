package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// e2eBar is how many deliveries a second the project asks to see through everything on a machine of two cores.
const e2eBar = 4000

const (
	// bareBar is what the project asks beside a pipeline that promises nothing, tracedBar with a tenth of the deliveries traced beside none,
	// guardedBar with all guards beside none.
	bareBar    = 0.75
	tracedBar  = 0.97
	guardedBar = 0.9
	// trickleRate is a low rate, in deliveries a second. The others are what the project allows, in microseconds: at that rate the
	// processor time of a delivery, and the time from accept to action; without deliveries, the processor time of a second.
	trickleRate = 100
	trickleCost = 1500
	trickleP99  = 40_000
	trickleP50  = 1.5 // times the bare pipeline's, at this rate and at twice that
	restCost    = 5000
	// What each of intake and stream may have resident under full load, at any moment, and at rest, in MiB.
	loadMemory, restMemory = 130, 60
	// comesToRest is how long after the last delivery a process is at rest.
	comesToRest = 10 * time.Second
)

// forebayRoles are the processes of forebay.
var forebayRoles = []string{"intake", "stream"}

// e2eSizes are the scenario's dimensions.
type e2eSizes struct {
	warmUp     time.Duration // at full load, before the first figure
	warmEvents int64         // as many at least, within four times that: a broker's JVM serves three times as much once it is warm
	conns      int
	entities   int // of a connection
	partitions int
	window     int64   // at full load, how many deliveries may be accepted and have not reached the agent
	sample     float64 // the part of deliveries that the traced pipeline traces
}

var e2eScale = e2eSizes{warmUp: 15 * time.Second, warmEvents: 100_000, conns: 64, entities: 312, partitions: 12, window: 2000, sample: 0.1}

const e2eConfig = `    destinations:
      agent: {type: http, url: "AGENT/run", timeout: 10s, allow_networks: [127.0.0.0/8]}
    subscriptions:
      all:
        sources: [github]
        begin: all
        actions: [{name: run, to: agent}]
`

// e2eGuarded is e2eConfig with all guards, each of which lets every delivery go on.
const e2eGuarded = `    policy:
      - {name: risky, if: "body.issue.title.contains('rm -rf') || body.issue.number == 0", then: approve}
      - {name: usual, if: "body.repository.full_name == 'acme/shop'", then: allow}
    budget: {runs: {limit: 1000000000, per: 1d}}
    destinations:
      agent:
        {type: http, url: "AGENT/paid", timeout: 10s, allow_networks: [127.0.0.0/8], rate: {limit: 1000000}, budget: {cost: {limit: 1000000000, per: 1d}}}
    subscriptions:
      all:
        sources: [github]
        begin: all
        match: "body.action in ['labeled', 'renamed', 'deleted'] && body.repository.full_name.startsWith('acme/')"
        dedupe: {also: {key: "string(body.issue.number) + '/' + body.issue.updated_at", window: 10m}}
        senders: {own: drop, automation: drop}
        loop: {depth: 8, runs: {limit: 30, per: 1h}}
        budget: {runs: {limit: 1000000000, per: 1d}, cost: {limit: 1000000000, per: 1d}}
        actions: [{name: run, to: agent, when: "body.action != 'deleted' && event.type.startsWith('com.github.')"}]
`

func (sizes e2eSizes) run(ctx context.Context, o Options, r *Report) error {
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	w, err := o.startStack(ctx, pg, "e2e", sizes.partitions, e2eConfig, forebayRoles...)
	if err != nil {
		return err
	}
	defer w.close()
	bare, err := o.startBare(ctx, "bare."+w.team, int32(sizes.partitions))
	if err != nil {
		return err
	}
	defer bare.close()
	spans, err := startCollector()
	if err != nil {
		return err
	}
	defer spans.close()
	telemetry := fmt.Sprintf("telemetry: {endpoint: %q, sample: %g}\n", spans.url, sizes.sample)
	traced, err := o.startStack(ctx, pg, "e2e-traced", sizes.partitions, e2eConfig+telemetry, forebayRoles...)
	if err != nil {
		return err
	}
	defer traced.close()
	guarded, err := o.startStack(ctx, pg, "e2e-guarded", sizes.partitions, e2eGuarded, forebayRoles...)
	if err != nil {
		return err
	}
	defer guarded.close()
	mix := []share{{kind: 0, weight: 1, entities: sizes.entities}}
	b := &e2eBench{Options: o, e2eSizes: sizes, postgres: pg.meter, ours: w.pipeline("ours", sizes.conns, mix), traced: traced.pipeline("traced", sizes.conns, mix),
		guarded: guarded.pipeline("guarded", sizes.conns, mix)}
	b.bare = pipeline{
		name: "bare", senders: w.sendersTo(bare.intake.Addr, sizes.conns, mix), agent: bare.agent, waitDrained: bare.agent.waitCame,
		processes: map[string]int{"intake": bare.intake.PID(), "stream": bare.consumer.PID(), "agent": bare.agent.PID(), "broker": w.processes["broker"]},
	}
	if err := b.measureFullLoad(ctx, r); err != nil {
		return err
	}
	traced.stop()
	guarded.stop()
	if spans.bytes.Load() == 0 {
		return traced.running["stream"].explain(errors.New("the traced processes have sent no span"))
	}
	if err := b.measureTrickle(ctx, r); err != nil {
		return err
	}
	r.Settings["e2e"] = fmt.Sprintf("GitHub preset, bodies of %d bytes, each signed, %d entities, %d partitions, acks=all; at full load %d connections and at most %d "+
		"deliveries between accept and agent; intake and stream in a process each, agent, load, broker and Postgres beside them; %d deliveries in all, each "+
		"at the agent once and in order. traced: the same in processes of their own, which send the spans of a tenth of the deliveries to a collector in the "+
		"load's process that reads and drops them. guarded: the same with match, a second key, senders, when, loop, policy, three budgets and a rate, an answer "+
		"that says what it has cost. bare: a handler that reads and produces, a consumer that posts %d at once, no signature, ledger, order or retry",
		deliveryBody, sizes.conns*sizes.entities, sizes.partitions, sizes.conns, sizes.window, b.ours.senders.sent.Load(), bareCalls)
	return nil
}

// e2eBench is one run of the scenario.
type e2eBench struct {
	Options
	e2eSizes
	postgres   meter
	ours, bare pipeline
	// As ours, in processes of their own: a tenth of the deliveries is traced; all guards are on.
	traced, guarded pipeline
}

// measureFullLoad sends through all pipelines in turns, as fast as deliveries reach the agent, and reports the rates at which they do.
func (b *e2eBench) measureFullLoad(ctx context.Context, r *Report) error {
	b.logf("e2e: warming up for %s and with %d deliveries", b.warmUp, b.warmEvents)
	sideOf := func(p *pipeline) *side {
		return &side{name: p.name, run: func(ctx context.Context) (m measured, err error) {
			err = b.atFullLoad(ctx, p, func(ctx context.Context, came *atomic.Int64) error { m, err = b.round(ctx, p, came); return err })
			return m, err
		}}
	}
	ours, bare, traced, guarded := sideOf(&b.ours), sideOf(&b.bare), sideOf(&b.traced), sideOf(&b.guarded)
	for _, p := range []*pipeline{&b.ours, &b.bare, &b.traced, &b.guarded} {
		if err := b.atFullLoad(ctx, p, b.waitWarm); err != nil {
			return err
		}
	}
	if err := b.inTurns(ctx, turns{scenario: "e2e", back: true}, ours, traced, guarded, bare); err != nil {
		return err
	}
	r.Ratios = append(r.Ratios,
		against("e2e/rate", "deliveries/s to completed actions, and asked", e2eBar, ours.rates),
		ratioOf("e2e/bare", "deliveries/s to the agent, and through a pipeline that promises nothing", bareBar, ours.rates, bare.rates),
		ratioOf("e2e/traced", "deliveries/s to completed actions with a tenth of them traced, and without traces", tracedBar, traced.rates, ours.rates),
		ratioOf("e2e/guarded", "deliveries/s to completed actions with all guards, and with none", guardedBar, guarded.rates, ours.rates))
	for _, role := range forebayRoles {
		r.Ratios = append(r.Ratios, atMost("e2e/memory_"+role, "MiB resident at most under full load, and allowed", residentMiB(b.ours.processes[role], "VmHWM"), loadMemory))
	}
	for _, of := range []struct {
		prefix string
		s      *side
	}{{"", ours}, {"bare_", bare}, {"traced_", traced}, {"guarded_", guarded}} {
		for _, part := range []string{"intake", "stream", "broker", "postgres", "load", "agent"} {
			r.cost("e2e/cpu_"+of.prefix+part, "us", float64(of.s.parts[part].Microseconds()), of.s.events)
		}
	}
	return nil
}

// atFullLoad sends as fast as deliveries come to the agent while do runs, and waits until all of them have. The senders stop while
// more than the window are on their way: else the intake, which is the faster part, would be measured first and the stream afterwards.
func (b *e2eBench) atFullLoad(ctx context.Context, p *pipeline, do func(ctx context.Context, came *atomic.Int64) error) error {
	var came atomic.Int64
	came.Store(p.senders.sent.Load()) // the load before this one was drained
	p.senders.hasRoom = func(sent int64) bool { return sent-came.Load() < b.window }
	defer func() { p.senders.hasRoom = nil }()
	err := p.senders.runWhile(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			cancel(p.watch(ctx, &came))
		}()
		defer func() { cancel(nil); <-watched }()
		return do(ctx, &came)
	})
	if err != nil {
		return fmt.Errorf("through the pipeline %s: %w", p.name, err)
	}
	return p.check(ctx, p != &b.bare, nil)
}

// round measures one round, a moment after the load has begun.
func (b *e2eBench) round(ctx context.Context, p *pipeline, came *atomic.Int64) (m measured, err error) {
	if err := waitUntil(ctx, time.Now().Add(min(time.Second, b.Round))); err != nil {
		return m, err
	}
	from := came.Load()
	m, err = b.used(ctx, p, b.Round)
	m.events = came.Load() - from
	return m, err
}

// used is what the parts of a pipeline use in some time.
func (b *e2eBench) used(ctx context.Context, p *pipeline, d time.Duration) (m measured, err error) {
	before, begin := b.spent(p), time.Now()
	err = waitUntil(ctx, begin.Add(d))
	m.elapsed, m.parts = time.Since(begin), b.spent(p)
	for part := range m.parts {
		m.parts[part] -= before[part]
	}
	return m, err
}

// waitWarm waits for the warm-up's time, and until as many deliveries as it wants have reached the agent, but no longer than four times that.
func (b *e2eBench) waitWarm(ctx context.Context, came *atomic.Int64) error {
	begin, from := time.Now(), came.Load()
	if err := waitUntil(ctx, begin.Add(b.warmUp)); err != nil {
		return err
	}
	for came.Load()-from < b.warmEvents && time.Since(begin) < 4*b.warmUp {
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// spent returns the processor time that every part has used so far.
func (b *e2eBench) spent(p *pipeline) map[string]time.Duration {
	all := map[string]time.Duration{"load": ownCPU(), "postgres": b.postgres.server()}
	for part, pid := range p.processes {
		all[part] = cpuOf(pid, false)
	}
	return all
}

// measureTrickle sends a few deliveries a second through both pipelines, then none, and reports the processor time of each in all parts
// but load and agent.
func (b *e2eBench) measureTrickle(ctx context.Context, r *Report) error {
	for _, at := range []struct {
		rate float64
		name string
	}{{2 * trickleRate, "e2e/trickle_p50_200"}, {trickleRate, "e2e/trickle_p50"}} {
		bare, err := b.sendAtRate(ctx, &b.bare, at.rate)
		if err != nil {
			return err
		}
		ours, err := b.sendAtRate(ctx, &b.ours, at.rate) // last: it is idle afterwards
		if err != nil {
			return err
		}
		medians := Ratio{Name: at.name, Unit: "us from accept to action by median, and through the bare pipeline", Bar: trickleP50, AtMost: true,
			Ours: float64(percentile(ours.times, 0.5).Microseconds()), Theirs: max(1, float64(percentile(bare.times, 0.5).Microseconds()))}
		medians.Ratio = medians.Ours / medians.Theirs
		r.Ratios = append(r.Ratios, medians)
		if at.rate == trickleRate {
			ours.costs(r, bare)
		}
	}
	return b.measureIdle(ctx, r)
}

// costs reports what a delivery costs at trickleRate, and how long the slowest take.
func (m steadyLoad) costs(r *Report, bare steadyLoad) {
	used := time.Duration(0)
	for _, part := range []string{"intake", "stream", "broker", "postgres"} {
		used += m.parts[part]
		r.cost("e2e/cpu_trickle_"+part, "us", float64(m.parts[part].Microseconds()), int64(len(m.times)))
		r.cost("e2e/cpu_trickle_bare_"+part, "us", float64(bare.parts[part].Microseconds()), int64(len(bare.times)))
	}
	r.Ratios = append(r.Ratios,
		atMost("e2e/trickle", fmt.Sprintf("us of processor a delivery at %d/s, of intake, stream, broker and Postgres, and allowed", trickleRate),
			float64(used.Microseconds())/float64(len(m.times)), trickleCost),
		atMost("e2e/trickle_p99", "us from accept to action, and allowed", p99(m.times), trickleP99))
}

// measureIdle reports the processor time of intake and stream in a second without deliveries, and their memory, once they have come to rest:
// in the seconds after a load each gives the memory back that the load has left, once.
func (b *e2eBench) measureIdle(ctx context.Context, r *Report) error {
	if err := waitUntil(ctx, time.Now().Add(min(comesToRest, 2*b.Round))); err != nil {
		return err
	}
	m, err := b.used(ctx, &b.ours, time.Duration(b.Rounds)*b.Round)
	if err != nil {
		return err
	}
	r.Ratios = append(r.Ratios, atMost("e2e/rest", "us of processor a second at rest, of intake and stream, and allowed",
		float64((m.parts["intake"]+m.parts["stream"]).Microseconds())/m.elapsed.Seconds(), restCost))
	for _, role := range forebayRoles {
		rest := residentMiB(b.ours.processes[role], "VmRSS")
		r.Ratios = append(r.Ratios, atMost("e2e/memory_rest_"+role, "MiB resident at rest with one subscription, after the load, and allowed", rest, restMemory))
	}
	return nil
}

// steadyLoad is what a load at a constant rate saw, without its first seconds.
type steadyLoad struct {
	measured
	times []time.Duration // from the answer 202 to the agent's receipt
}

// sendAtRate sends at a rate through a pipeline.
func (b *e2eBench) sendAtRate(ctx context.Context, p *pipeline, rate float64) (m steadyLoad, err error) {
	p.senders.interval = time.Duration(float64(time.Second) / rate)
	calm := min(3*time.Second, b.Round)
	b.logf("e2e: %.0f/s for %s through the pipeline %s", rate, calm+time.Duration(b.Rounds)*b.Round, p.name)
	var from time.Time
	err = p.senders.runWhile(ctx, func(ctx context.Context) error {
		if err := waitUntil(ctx, time.Now().Add(calm)); err != nil {
			return err
		}
		from = time.Now()
		m.measured, err = b.used(ctx, p, time.Duration(b.Rounds)*b.Round)
		return err
	})
	p.senders.interval = 0
	if err != nil {
		return m, err
	}
	return m, p.check(ctx, p == &b.ours, func(accepted, came []receipt) {
		var counted []receipt
		for _, a := range accepted {
			if a.At >= from.UnixNano() && a.At < from.Add(m.elapsed).UnixNano() {
				counted = append(counted, a)
			}
		}
		m.times, _ = transitTimes(counted, came)
	})
}
