package lane

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// metrics are the figures of the lanes; each is labelled with the subscription.
type metrics struct {
	attempts *prometheus.CounterVec
	long     *prometheus.CounterVec
	alerts   *prometheus.CounterVec
	dead     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	act      *prometheus.HistogramVec

	superseded prometheus.Counter
	verdicts   *prometheus.CounterVec
}

func newMetrics(s *scheduler, cfg *Config) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forebay_lane_attempts_total",
			Help: "Attempts by destination and class of failure; class ok is success. One that was answered 202 is counted once its result is there, or was waited for too long.",
		}, []string{"destination", "class"}),
		long: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forebay_lane_long_total",
			Help: "Attempts that a destination took with 202, by what came of them: done, failed, dead_letter, newer (it was told to cancel, and has said so or anything else), deadline or silence.",
		}, []string{"destination", "end"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forebay_lane_alerts_total",
			Help: "Actions that are dead of something that an operator has to fix, by destination and class of failure.",
		}, []string{"destination", "class"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forebay_lane_dead_letters_total",
			Help: "Attempts after which an action was given up, or its outcome was left unknown, by destination.",
		}, []string{"destination"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "forebay_lane_attempt_duration_seconds",
			Help:    "Duration of attempts by destination.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"destination"}),
		act: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "forebay_lane_accept_to_act_seconds",
			Help: "Time from the intake's acceptance of an event, by its clock, to the destination's first answer of success to an action of it, by ours, " +
				"by destination. Without events that a replay runs again.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 16),
		}, []string{"destination"}),
		superseded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forebay_lane_superseded_total",
			Help: "Actions that ended without being done because a newer version stood behind them (backlog: latest), or were cancelled for it (on_newer: cancel).",
		}),
	}
	m.verdicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forebay_lane_verdicts_total",
		Help: "Answers of guards that did not let an action go on, by status and reason; an action that waits is counted when it begins to. Status error is a guard that could not answer.",
	}, []string{"status", "reason"})
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return gauges{s, prometheus.NewDesc(name, help, nil, nil), func(add func(float64, ...string)) { add(read()) }}
	}
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"subscription": cfg.Subscription}, cfg.Registerer)
	for _, c := range []prometheus.Collector{
		m.attempts, m.alerts, m.dead, m.seconds, m.act, m.long, m.superseded, m.verdicts,
		gauge("forebay_lane_open_actions", "Open actions loaded from the ledger.",
			func() float64 { return float64(s.q.open) }),
		gauge("forebay_lane_waiting_lanes", "Lanes whose head waits for its next attempt, or for a guard.",
			func() float64 { return float64(len(s.q.timers.heap)) }),
		gauge("forebay_lane_resting_lanes", "Lanes that are out of memory, since the window is full and their head waits for its next attempt or its destination. At 1048576 no more are taken out: those that wait then fill the window, and the subscription's other lanes wait behind them.",
			func() float64 { return float64(s.q.spilledLanes()) }),
		gauge("forebay_lane_parked_lanes", "Lanes that stand at a dead or unknown head.", s.q.parkedLanes),
		gauge("forebay_lane_forgotten_actions", "Actions that are open in the ledger and in no lane, so that they never run: a fault of Forebay. At least so many: the ledger is read in pages.",
			s.q.forgotten),
		gauge("forebay_lane_away_lanes", "Lanes whose head a destination has taken and not ended.",
			func() float64 { return float64(s.q.long.count) }),
		gauge("forebay_lane_unrecorded_results", "Results that wait for the ledger.",
			func() float64 { return float64(s.q.results.unrecorded()) }),
		gauge("forebay_lane_payload_bytes", "Payload bytes held.",
			func() float64 { return float64(s.q.budget.bytes()) }),
		gauges{s, prometheus.NewDesc("forebay_lane_oldest_seconds", "For how long the first open action of a claimed partition has been to run, 0 if none is. "+
			"What stands behind a dead action is left out, and what its destination has taken and not ended.", []string{"topic", "partition"}, nil), s.q.partitionAges},
		gauges{s, prometheus.NewDesc("forebay_lane_destination_oldest_seconds", "For how long the first open action of a destination "+
			"has been to run, of those that no other of their entity is before, 0 if none is. What forebay_lane_oldest_seconds leaves out is left out.",
			[]string{"destination"}, nil), s.q.destinationAges},
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// gauges are figures of the queues. They are no [prometheus.GaugeFunc]: the registry calls that one's function while it takes metrics from nobody.
// If the function waits for the lanes' lock while the lanes, under that lock, wait for a vec that hands its series over, all three wait for ever.
type gauges struct {
	s    *scheduler
	desc *prometheus.Desc
	read func(add func(value float64, labels ...string)) // under mu
}

// Describe implements [prometheus.Collector].
func (g gauges) Describe(all chan<- *prometheus.Desc) { all <- g.desc }

// Collect implements [prometheus.Collector]. Who takes the metrics may wait for the lock of the lanes, so that none is sent under it.
func (g gauges) Collect(all chan<- prometheus.Metric) {
	for _, m := range g.metrics() {
		all <- m
	}
}

func (g gauges) metrics() (list []prometheus.Metric) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.read(func(value float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...))
	})
	return list
}

// partitionAges are the ages of the first open action of each partition.
func (q *queues) partitionAges(add func(float64, ...string)) {
	seconds := map[ledger.Partition]float64{} // a partition may have two claims while one is given up
	for c, p := range q.partitions {
		age := seconds[c.Partition]
		for _, since := range q.oldest(p) {
			if !since.IsZero() {
				age = max(age, time.Since(since).Seconds())
			}
		}
		seconds[c.Partition] = age
	}
	for at, age := range seconds {
		add(age, at.Topic, strconv.Itoa(int(at.Number)))
	}
}

// destinationAges are the ages of the first open action of each destination.
func (q *queues) destinationAges(add func(float64, ...string)) {
	seconds := map[string]float64{}
	for _, d := range q.dispatch.order {
		seconds[d.name] = 0
	}
	for _, p := range q.partitions {
		for i, since := range q.oldest(p) {
			if name := q.dispatch.order[i].name; !since.IsZero() {
				seconds[name] = max(seconds[name], time.Since(since).Seconds())
			}
		}
	}
	for destination, age := range seconds {
		add(age, destination)
	}
}

func (q *queues) parkedLanes() float64 {
	n := 0
	for _, p := range q.partitions {
		n += len(p.parked)
	}
	return float64(n)
}

// destinationMetrics are one destination's, resolved once because attempts are many.
type destinationMetrics struct {
	attempts map[sink.Class]prometheus.Counter
	alerts   map[sink.Class]prometheus.Counter // of the classes that have them
	dead     prometheus.Counter
	seconds  prometheus.Observer
	act      prometheus.Observer
}

// of returns a destination's counters, looked up once.
func (m *metrics) of(destination string) destinationMetrics {
	d := destinationMetrics{
		attempts: map[sink.Class]prometheus.Counter{}, alerts: map[sink.Class]prometheus.Counter{},
		dead: m.dead.WithLabelValues(destination), seconds: m.seconds.WithLabelValues(destination), act: m.act.WithLabelValues(destination),
	}
	for _, end := range []string{string(ledger.Done), string(ledger.Failed), string(ledger.Dead), sink.Newer, endDeadline, endSilence} {
		m.long.WithLabelValues(destination, end) // so that a rate has the first
	}
	for _, c := range sink.Classes() {
		d.attempts[c] = m.attempts.WithLabelValues(destination, cmp.Or(string(c), "ok"))
		if c.Alerted() {
			d.alerts[c] = m.alerts.WithLabelValues(destination, string(c))
		}
	}
	return d
}

// count counts an attempt that ended with class.
func (d *destinationMetrics) count(class sink.Class) {
	counter, ok := d.attempts[class]
	if !ok { // a sink made a class up
		counter = d.attempts[sink.ClassBug]
	}
	counter.Inc()
}

// acted counts how long after its event was accepted an action was done, or taken to be finished later. What a replay runs again was accepted
// long ago on purpose, and an event without the time says nothing.
func (d *destinationMetrics) acted(e *entry, event *schemas.Event, now time.Time) {
	if e.Generation == 0 && !event.RecordedTime.IsZero() {
		d.act.Observe(max(0, now.Sub(event.RecordedTime).Seconds())) // below zero where two machines' clocks differ
	}
}
