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

	got := h.charts(at.Add(2*time.Minute + 10*time.Second))
	if len(got) != 1 || got[0].Most != 60 {
		t.Fatalf("charts: %+v", got)
	}
	var legend []string
	for _, l := range got[0].Legend {
		legend = append(legend, l.Name, number(&l.Count))
	}
	if diff := cmp.Diff([]string{"accepted", "40", "kept in quarantine", "20", "not taken", "20"}, legend); diff != "" {
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
	if got := h.charts(at.Add(62 * time.Minute)); len(got) != 0 {
		t.Errorf("an hour later there is %+v", got)
	}
}

// TestOverviewDrawsTheLastHour: the charts are on the page, with numbers for who does not see them.
func TestOverviewDrawsTheLastHour(t *testing.T) {
	t.Parallel()
	f := newFake()
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forebay_lane_attempts_total", Help: "Attempts."}, []string{"class"})
	cfg := f.config()
	cfg.Gatherer.(*prometheus.Registry).MustRegister(attempts)
	c := pagesOf(t, cfg)
	c.history.sample(time.Now())
	attempts.WithLabelValues("ok").Add(7)
	attempts.WithLabelValues("unavailable").Add(2)
	c.history.sample(time.Now())
	s := get(t, c, "/console/")
	s.says("figure", "Attempts, at most 9 a minute", "7 done", "2 failed")
	s.says("title", "Attempts of the last hour, a bar a minute; most in a minute: 9")
	if strings.Contains(text(s.root), "Deliveries, at most") {
		t.Error("a chart of nothing is drawn")
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
	if got, want := c.history.acted(now), (&acceptToAct{101, "at most 100ms", "at most 2.0s"}); *got != *want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for range 200 {
		act.WithLabelValues("pay.settle").Observe(60)
	}
	c.history.sample(now)
	if got := c.history.acted(now); got.P50 != "more than what is measured" {
		t.Errorf("%+v", got)
	}
	if later := now.Add(time.Hour); c.history.acted(later) != nil || c.history.refusals(later) != nil {
		t.Error("an hour later it is not forgotten")
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
