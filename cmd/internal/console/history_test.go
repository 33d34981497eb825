package console

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestHistory: what was counted is in the minute in which it was, what was counted before the first look is in none, and an hour later all is
// forgotten.
func TestHistory(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forebay_ingest_deliveries_total", Help: "Deliveries."}, []string{"team", "outcome"})
	r.MustRegister(deliveries)
	count := func(outcome string, n float64) { deliveries.WithLabelValues("acme", outcome).Add(n) }
	h := &history{gather: r}
	count("accepted", 1000) // before this process was looked at
	h.sample(at)
	count("accepted", 30)
	h.sample(at.Add(10 * time.Second))
	count("accepted", 10)
	count("refused", 15)
	count("too_large", 5)
	h.sample(at.Add(50 * time.Second))
	count("quarantined", 20)
	h.sample(at.Add(2 * time.Minute))
	deliveries.Reset() // as after a reload: what is less was not counted backwards
	count("accepted", 3)
	h.sample(at.Add(2*time.Minute + 10*time.Second))

	got := h.report(at.Add(2*time.Minute + 10*time.Second)).Charts
	if len(got) != 2 || got[0].Caption != "Deliveries, at most 60 a minute" || got[1].Caption != "Refusals, at most 20 a minute" {
		t.Fatalf("charts: %+v", got)
	}
	if diff := cmp.Diff([]legend{{"c-good", "40 accepted"}, {"c-wait", "20 kept in quarantine"}, {"c-bad", "20 not taken"}}, got[0].Legend); diff != "" {
		t.Error(diff)
	}
	want := []bar{
		{X: 57 * 6, Y: 24, Width: 5, Height: 48, Class: "c-good", Title: "2 minutes ago: 40 accepted"}, // 40 of 60, of 72 pixels
		{X: 57 * 6, Y: 0, Width: 5, Height: 24, Class: "c-bad", Title: "2 minutes ago: 20 not taken"},
		{X: 59 * 6, Y: 48, Width: 5, Height: 24, Class: "c-wait", Title: "this minute: 20 kept in quarantine"},
	}
	if diff := cmp.Diff(want, got[0].Bars); diff != "" {
		t.Error(diff)
	}
	h.sample(at.Add(62 * time.Minute))
	if got := h.report(at.Add(62 * time.Minute)).Charts; len(got) != 0 {
		t.Errorf("an hour later there is %+v", got)
	}
}

// TestOverviewSaysWhyAndHowFast: why deliveries were refused in the last hour, the most frequent reason first, and how long it took from
// acceptance to act.
func TestOverviewSaysWhyAndHowFast(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	came := prometheus.NewCounterVec(prometheus.CounterOpts{Name: deliveriesMetric, Help: "Deliveries."}, []string{"team", "source", "outcome", "reason"})
	act := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: actMetric, Help: "Seconds.", Buckets: []float64{0.005, 0.1, 2}}, []string{"subscription"})
	r.MustRegister(came, act)
	cfg := newFake().config()
	cfg.Gatherer = r
	c := pagesOf(t, cfg)
	came.WithLabelValues("acme", "orders", "unauthenticated", "mismatch").Add(1000) // before this process was looked at
	now := time.Now().Add(-time.Minute)
	c.history.sample(now)
	if said := text(get(t, c, "/console/").root); strings.Contains(said, "Refusals") || strings.Contains(said, "Accept to act") {
		t.Errorf("of nothing the page says %s", said)
	}
	came.WithLabelValues("acme", "orders", "unauthenticated", "mismatch").Add(4)
	came.WithLabelValues("acme", "orders", "unauthenticated", "too_old").Add(9)
	came.WithLabelValues("pay", "stripe", "unauthenticated", "mismatch").Add(2)
	came.WithLabelValues("pay", "stripe", "quarantined", "no_entity").Add(50)
	came.WithLabelValues("pay", "stripe", "accepted", "").Add(50)
	for range 98 {
		act.WithLabelValues("acme.fulfil").Observe(0.05)
	}
	act.WithLabelValues("pay.settle").Observe(1)
	act.WithLabelValues("pay.settle").Observe(1)
	c.history.sample(now)
	s := get(t, c, "/console/")
	s.says("p", "of 100 actions: p50 at most 100ms, p99 at most 2.0s.")
	s.says("figure", "Refusals, at most 15 a minute", "9 too_old (unauthenticated)", "6 mismatch (unauthenticated)")
	s.says("figure", "Accept to act, p99 of a minute at most 2.0s", "p50 at most 100ms", "p99 at most 2.0s")
	s.says("tr", "too_old", "unauthenticated", "9")
	s.says("tr", "mismatch", "unauthenticated", "6")
	if said := text(s.root); strings.Contains(said, "no_entity") || strings.Index(said, "too_old") > strings.Index(said, "mismatch") {
		t.Errorf("the page says %s", said)
	}
	act.DeletePartialMatch(prometheus.Labels{"subscription": "acme.fulfil"}) // as after a reload: less was not measured backwards
	for range 8 {
		act.WithLabelValues("pay.settle").Observe(60)
	}
	c.history.sample(now)
	act.WithLabelValues("pay.settle").Observe(60)
	c.history.sample(now)
	if got, want := c.history.report(now).Acted, (&acceptToAct{101, "at most 100ms", "at most 2.0s"}); *got != *want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for range 200 {
		act.WithLabelValues("pay.settle").Observe(60)
	}
	c.history.sample(now)
	if got := c.history.report(now).Acted; got.P50 != "more than what is measured" {
		t.Errorf("%+v", got)
	}
	if later := c.history.report(now.Add(time.Hour)); later.Acted != nil || later.Refusals != nil || later.Charts != nil {
		t.Error("an hour later it is not forgotten")
	}
}

// TestChartsOfWhyAndHowFast: of each minute of the last hour there is drawn why deliveries were refused, the most frequent reasons apart and
// the others together, within which of the histogram's buckets actions were done, and how far the last partition was behind.
func TestChartsOfWhyAndHowFast(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	came := prometheus.NewCounterVec(prometheus.CounterOpts{Name: deliveriesMetric, Help: "Deliveries."}, []string{"outcome", "reason"})
	act := prometheus.NewHistogram(prometheus.HistogramOpts{Name: actMetric, Help: "Seconds.", Buckets: []float64{0.005, 0.1, 2}})
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: lagMetric, Help: "Seconds."}, []string{"subscription", "partition"})
	r.MustRegister(came, act, lag)
	h := &history{gather: r}
	refuse := func(outcome, reason string, n float64) { came.WithLabelValues(outcome, reason).Add(n) }
	done := func(n int, seconds float64) {
		for range n {
			act.Observe(seconds)
		}
	}
	behind := func(subscription, partition string, seconds float64) {
		lag.WithLabelValues(subscription, partition).Set(seconds)
	}
	refuse("unauthenticated", "mismatch", 1000) // before this process was looked at
	done(1000, 60)
	h.sample(at)
	refuse("unauthenticated", "mismatch", 12)
	refuse("throttled", "source", 6)
	done(99, 0.05)
	done(1, 1)
	behind("acme.fulfil", "0", 3)
	behind("acme.fulfil", "1", 40)
	behind("pay.settle", "0", 8)
	h.sample(at.Add(10 * time.Second))
	behind("acme.fulfil", "1", 2) // the most of a minute counts
	h.sample(at.Add(20 * time.Second))
	refuse("too_large", "source", 4)
	refuse("slow", "timeout", 3)
	refuse("incomplete", "broken_off", 2)
	refuse("accepted", "", 50)
	done(60, 0.05)
	done(40, 1)
	behind("acme.fulfil", "0", 0)
	behind("acme.fulfil", "1", 0)
	h.sample(at.Add(time.Minute))
	lag.Reset() // its partitions are another process's now
	behind("pay.settle", "0", 0)
	h.sample(at.Add(2 * time.Minute))
	lag.Reset()
	done(1, 60)
	h.sample(at.Add(3 * time.Minute))

	const x0, x1, x2, x3 = 56 * 6, 57 * 6, 58 * 6, 59 * 6
	want := []chart{
		{"Refusals, at most 18 a minute", "Refusals of the last hour, a bar a minute; most in a minute: 18", 360, 72, []bar{
			{x0, 24, 5, 48, "c-bad", "3 minutes ago: 12 mismatch (unauthenticated)"},
			{x0, 0, 5, 24, "c-wait", "3 minutes ago: 6 source (throttled)"},
			{x1, 56, 5, 16, "c-other", "2 minutes ago: 4 source (too_large)"},
			{x1, 36, 5, 20, "c-quiet", "2 minutes ago: 5 for other reasons"},
		}, []legend{{"c-bad", "12 mismatch (unauthenticated)"}, {"c-wait", "6 source (throttled)"}, {"c-other", "4 source (too_large)"}, {"c-quiet", "5 for other reasons"}}},
		{"Accept to act, p99 of a minute more than what is measured",
			"Accept to act of the last hour, a bar a minute, a step of its height for each bucket of the histogram; p99 of a minute: more than what is measured", 360, 72, []bar{
				{x0, 48, 5, 24, "c-good", "3 minutes ago: p50 of 100 actions at most 100ms"}, // the first of three steps
				{x1, 48, 5, 24, "c-good", "2 minutes ago: p50 of 100 actions at most 100ms"},
				{x1, 24, 5, 24, "c-wait", "2 minutes ago: p99 of 100 actions at most 2.0s"},
				{x3, 0, 5, 72, "c-good", "this minute: p50 of 1 actions more than what is measured"},
			}, []legend{{"c-good", "p50 at most 100ms"}, {"c-wait", "p99 at most 2.0s"}}},
		{"Largest lag of a partition: 40.0s", "Lag of the last hour, a bar a minute, of the partition that is furthest behind; largest: 40.0s", 360, 72, []bar{
			{x0, 0, 5, 72, "c-wait", "3 minutes ago: 40.0s behind"},
			{x1, 58, 5, 14, "c-wait", "2 minutes ago: 8.0s behind"},
			{x2, 70, 5, 2, "c-good", "a minute ago: read to the end"}, // and of the last minute nothing is known
		}, []legend{{"c-wait", "behind in 2 of 3 minutes"}, {"c-good", "read to the end in 1"}}},
	}
	got := h.report(at.Add(3 * time.Minute)).Charts
	if diff := cmp.Diff(want, got[min(1, len(got)):]); diff != "" { // the first is of all deliveries
		t.Error(diff)
	}
	if later := h.report(at.Add(63 * time.Minute)).Charts; later != nil {
		t.Errorf("an hour later there is %+v", later)
	}
}

// slowly gathers, and has the first reading wait, once it is made, until release is closed.
type slowly struct {
	prometheus.Gatherer
	again         atomic.Bool
	made, release chan struct{}
}

func (s *slowly) Gather() ([]*dto.MetricFamily, error) {
	families, err := s.Gatherer.Gather()
	if !s.again.Swap(true) {
		close(s.made)
		<-s.release
	}
	return families, err
}

// TestHistoryIsReadInOrder: of two who look at once, the older reading does not count as a reset after the newer one.
func TestHistoryIsReadInOrder(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: attemptsMetric, Help: "Attempts."}, []string{"class"})
	r.MustRegister(attempts)
	count := func(n float64) { attempts.WithLabelValues("ok").Add(n) }
	h := &history{gather: r}
	count(1e6)
	h.sample(at)
	slow := &slowly{Gatherer: r, made: make(chan struct{}), release: make(chan struct{})}
	h.gather = slow
	count(1)
	var both sync.WaitGroup
	both.Go(func() { h.refresh(at.Add(2 * time.Second)) })
	<-slow.made
	count(1)
	newer := make(chan struct{})
	both.Go(func() { h.sample(at.Add(4 * time.Second)); close(newer) })
	select {
	case <-newer: // it has overtaken the first
	case <-time.After(100 * time.Millisecond): // it waits for the first
	}
	close(slow.release)
	both.Wait()
	h.sample(at.Add(6 * time.Second))
	if got := h.attemptsText(at.Add(6*time.Second), func(map[string]string) bool { return true }); got != "2 attempts of this process in the last 5 minutes" {
		t.Error(got)
	}
}
