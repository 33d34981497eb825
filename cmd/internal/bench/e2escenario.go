package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

var trickleParts = []string{"intake", "stream", "broker", "postgres"}

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

func runE2EScenario(ctx context.Context, o Options, r *Report) error {
	return runE2E(ctx, o, e2eScale, r)
}

func runE2E(ctx context.Context, o Options, sizes e2eSizes, r *Report) error {
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	team := newTeamName("e2e")
	w, err := o.startStack(ctx, pg, team, sizes.partitions, e2eConfig)
	if err != nil {
		return err
	}
	defer w.close()
	bare, err := o.startBare(ctx, "bare."+team, int32(sizes.partitions))
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
	traced, err := o.startStack(ctx, pg, newTeamName("e2e-traced"), sizes.partitions, e2eConfig+telemetry)
	if err != nil {
		return err
	}
	defer traced.close()
	guarded, err := o.startStack(ctx, pg, newTeamName("e2e-guarded"), sizes.partitions, e2eGuarded)
	if err != nil {
		return err
	}
	defer guarded.close()
	mix := []share{{kind: 0, weight: 1, entities: sizes.entities}}
	b := &e2eBench{Options: o, e2eSizes: sizes, w: w, ours: w.pipeline("ours", sizes.conns, mix), traced: traced.pipeline("traced", sizes.conns, mix),
		guarded: guarded.pipeline("guarded", sizes.conns, mix)}
	b.bare = pipeline{
		name: "bare", senders: w.sendersTo(bare.intake.Addr, sizes.conns, mix), agent: bare.agent, waitDrained: bare.waitDrained,
		processes: map[string]int{"intake": bare.intake.PID(), "stream": bare.consumer.PID(), "agent": bare.agent.PID(), "broker": w.brokerPID},
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

// newTeamName returns the name of a team that no run before has used.
func newTeamName(what string) string {
	return what + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
}

// e2eBench is one run of the scenario.
type e2eBench struct {
	Options
	e2eSizes
	w          *stack
	ours, bare pipeline
	// As ours, in processes of their own: a tenth of the deliveries is traced; all guards are on.
	traced, guarded pipeline
}

// measureFullLoad sends through all pipelines in turns, as fast as deliveries reach the agent, and reports the rates at which they do. Every
// second round goes backwards: what one leaves to Postgres (checkpoints, vacuum) falls on the next.
func (b *e2eBench) measureFullLoad(ctx context.Context, r *Report) error {
	b.logf("e2e: warming up for %s and with %d deliveries", b.warmUp, b.warmEvents)
	most := map[string]float64{}
	for _, p := range []*pipeline{&b.ours, &b.bare, &b.traced, &b.guarded} {
		if err := b.atFullLoad(ctx, p, b.waitWarm); err != nil {
			return err
		}
	}
	var ours, bare, traced, guarded e2eSide
	sides := []struct {
		p *pipeline
		s *e2eSide
	}{{&b.ours, &ours}, {&b.traced, &traced}, {&b.guarded, &guarded}, {&b.bare, &bare}}
	for i := range b.Rounds {
		for _, side := range sides {
			err := b.atFullLoad(ctx, side.p, func(ctx context.Context, came *atomic.Int64) error { return b.round(ctx, side.p, came, side.s) })
			if err != nil {
				return err
			}
		}
		slices.Reverse(sides)
		for _, role := range forebayRoles {
			most[role] = residentMiB(b.ours.processes[role], "VmHWM")
		}
		b.logf("e2e round %d: %.0f/s, traced %.0f/s, guarded %.0f/s, bare %.0f/s; intake %.0f MiB, stream %.0f MiB", i+1, ours.rates[i], traced.rates[i], guarded.rates[i], bare.rates[i], most["intake"], most["stream"])
	}
	rate := median(ours.rates)
	ratio := Ratio{Name: "e2e/rate", Unit: "deliveries/s to completed actions, and asked", Ours: rate, Theirs: e2eBar, Ratio: rate / e2eBar, Bar: 1}
	for _, v := range ours.rates {
		ratio.Rounds = append(ratio.Rounds, v/e2eBar)
	}
	r.Ratios = append(r.Ratios, ratio,
		ratioOf("e2e/bare", "deliveries/s to the agent, and through a pipeline that promises nothing", bareBar, ours.rates, bare.rates),
		ratioOf("e2e/traced", "deliveries/s to completed actions with a tenth of them traced, and without traces", tracedBar, traced.rates, ours.rates),
		ratioOf("e2e/guarded", "deliveries/s to completed actions with all guards, and with none", guardedBar, guarded.rates, ours.rates))
	for _, role := range forebayRoles {
		r.Ratios = append(r.Ratios, atMost("e2e/memory_"+role, "MiB resident at most under full load, and allowed", most[role], loadMemory))
	}
	ours.costs(r, "e2e/cpu_")
	bare.costs(r, "e2e/cpu_bare_")
	traced.costs(r, "e2e/cpu_traced_")
	guarded.costs(r, "e2e/cpu_guarded_")
	return nil
}

// e2eSide is all rounds of one pipeline at full load.
type e2eSide struct {
	rates  []float64
	events int64
	spent  map[string]time.Duration // processor time of each part
}

func (s *e2eSide) costs(r *Report, prefix string) {
	for _, part := range []string{"intake", "stream", "broker", "postgres", "load", "agent"} {
		r.cost(prefix+part, "us", float64(s.spent[part].Microseconds()), s.events)
	}
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
func (b *e2eBench) round(ctx context.Context, p *pipeline, came *atomic.Int64, s *e2eSide) error {
	if err := waitUntil(ctx, time.Now().Add(min(time.Second, b.Round))); err != nil {
		return err
	}
	before, from, begin := b.spent(p), came.Load(), time.Now()
	if err := waitUntil(ctx, begin.Add(b.Round)); err != nil {
		return err
	}
	n, elapsed := came.Load()-from, time.Since(begin)
	if s.spent == nil {
		s.spent = map[string]time.Duration{}
	}
	for part, used := range b.spent(p) {
		s.spent[part] += used - before[part]
	}
	s.events += n
	s.rates = append(s.rates, float64(n)/elapsed.Seconds())
	return nil
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
	all := map[string]time.Duration{"load": ownCPU(), "postgres": b.w.pg.meter.server()}
	for part, pid := range p.processes {
		all[part] = cpuOf(pid, false)
	}
	return all
}

// measureTrickle sends a few deliveries a second through both pipelines, then none, and reports the processor time of each in all parts
// but load and agent.
func (b *e2eBench) measureTrickle(ctx context.Context, r *Report) error {
	bare, ours, err := b.medians(ctx, 2*trickleRate)
	if err != nil {
		return err
	}
	fast := medianRatio("e2e/trickle_p50_200", ours, bare)
	used := time.Duration(0)
	var m steadyLoad
	for _, side := range []struct {
		p    *pipeline
		cost string
	}{{&b.bare, "e2e/cpu_trickle_bare_"}, {&b.ours, "e2e/cpu_trickle_"}} { // ours last: it is idle afterwards
		var err error
		if m, err = b.sendAtRate(ctx, side.p, trickleRate); err != nil {
			return err
		}
		used, bare, ours = 0, ours, percentile(m.times, 0.5)
		for _, part := range trickleParts {
			used += m.spent[part]
			r.cost(side.cost+part, "us", float64(m.spent[part].Microseconds()), int64(len(m.times)))
		}
	}
	p99 := percentile(m.times, 0.99)
	r.Ratios = append(r.Ratios,
		atMost("e2e/trickle", fmt.Sprintf("us of processor a delivery at %d/s, of intake, stream, broker and Postgres, and allowed", trickleRate),
			float64(used.Microseconds())/float64(len(m.times)), trickleCost),
		medianRatio("e2e/trickle_p50", ours, bare), fast,
		atMost("e2e/trickle_p99", "us from accept to action, and allowed", float64(p99.Microseconds()), trickleP99))
	return b.measureIdle(ctx, r)
}

// medians returns the medians of the time from accept to action at a rate, of both pipelines.
func (b *e2eBench) medians(ctx context.Context, rate float64) (bare, ours time.Duration, err error) {
	for _, side := range []struct {
		p  *pipeline
		to *time.Duration
	}{{&b.bare, &bare}, {&b.ours, &ours}} {
		m, err := b.sendAtRate(ctx, side.p, rate)
		if err != nil {
			return 0, 0, err
		}
		*side.to = percentile(m.times, 0.5)
	}
	return bare, ours, nil
}

func medianRatio(name string, ours, bare time.Duration) Ratio {
	bare = max(bare, time.Microsecond) // most actions may come before the answer has been read
	r := ratioOf(name, "us from accept to action by median, and through the bare pipeline", trickleP50, []float64{float64(ours.Microseconds())}, []float64{float64(bare.Microseconds())})
	r.AtMost, r.Rounds = true, nil
	return r
}

// measureIdle reports the processor time of intake and stream in a second without deliveries, and their memory, once they have come to rest:
// in the seconds after a load each gives the memory back that the load has left, once.
func (b *e2eBench) measureIdle(ctx context.Context, r *Report) error {
	calm := min(comesToRest, 2*b.Round)
	if err := waitUntil(ctx, time.Now().Add(calm)); err != nil {
		return err
	}
	before, begin := b.spent(&b.ours), time.Now()
	if err := waitUntil(ctx, begin.Add(time.Duration(b.Rounds)*b.Round)); err != nil {
		return err
	}
	after, elapsed := b.spent(&b.ours), time.Since(begin)
	used := after["intake"] + after["stream"] - before["intake"] - before["stream"]
	r.Ratios = append(r.Ratios, atMost("e2e/rest", "us of processor a second at rest, of intake and stream, and allowed",
		float64(used.Microseconds())/elapsed.Seconds(), restCost))
	for _, role := range forebayRoles {
		rest := residentMiB(b.ours.processes[role], "VmRSS")
		r.Ratios = append(r.Ratios, atMost("e2e/memory_rest_"+role, "MiB resident at rest with one subscription, after the load, and allowed", rest, restMemory))
	}
	return nil
}

// steadyLoad is what a load at a constant rate saw, without its first seconds.
type steadyLoad struct {
	times   []time.Duration // from the answer 202 to the agent's receipt
	elapsed time.Duration
	spent   map[string]time.Duration // processor time of each part
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
		before := b.spent(p)
		from = time.Now()
		if err := waitUntil(ctx, from.Add(time.Duration(b.Rounds)*b.Round)); err != nil {
			return err
		}
		m.elapsed, m.spent = time.Since(from), b.spent(p)
		for part := range m.spent {
			m.spent[part] -= before[part]
		}
		return nil
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
