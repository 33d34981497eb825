package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestTheLastHour: the overview counts what came, was decided and was tried in the last hour, over all teams, why deliveries were refused,
// and how long it took from acceptance to act. What was counted before the first look is left out, and an hour later all is forgotten.
func TestTheLastHour(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	came := prometheus.NewCounterVec(prometheus.CounterOpts{Name: deliveriesMetric, Help: "Deliveries."}, []string{"team", "outcome", "reason"})
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forebay_stream_decisions_total", Help: "Decisions."}, []string{"subscription", "decision"})
	act := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: actMetric, Help: "Seconds.", Buckets: []float64{0.005, 0.1, 2}}, []string{"subscription"})
	r.MustRegister(came, decided, act)
	cfg := newFake().config()
	cfg.Gatherer = r
	c := pagesOf(t, cfg)
	came.WithLabelValues("acme", "accepted", "").Add(1000) // before this process was looked at
	act.WithLabelValues("pay.settle").Observe(60)
	now := time.Now()
	if s := get(t, c, "/console/"); strings.Contains(text(s.root), "The last hour") {
		t.Errorf("of nothing the page says %s", text(s.root))
	}
	came.WithLabelValues("acme", "accepted", "").Add(30)
	came.WithLabelValues("pay", "accepted", "").Add(20)
	came.WithLabelValues("pay", "quarantined", "no_entity").Add(60)
	came.WithLabelValues("pay", "unauthenticated", "mismatch").Add(4)
	came.WithLabelValues("acme", "unauthenticated", "mismatch").Add(2)
	came.WithLabelValues("acme", "unauthenticated", "too_old").Add(9)
	decided.WithLabelValues("acme.fulfil", "applied").Add(50)
	for range 98 {
		act.WithLabelValues("acme.fulfil").Observe(0.05)
	}
	act.WithLabelValues("pay.settle").Observe(1)
	act.WithLabelValues("pay.settle").Observe(1)
	s := get(t, c, "/console/")
	s.says("div", "Deliveries", "60 quarantined, 50 accepted, 15 unauthenticated")
	s.says("div", "Refused, by reason", "9 too_old (unauthenticated), 6 mismatch (unauthenticated)")
	s.says("div", "Accept to act", "p50 at most 100ms, p99 at most 2.0s, of 100 actions")
	decided.Reset() // as after a reload: what is less was not counted backwards
	decided.WithLabelValues("acme.fulfil", "applied").Add(3)
	c.hour.sample(now)
	decided.WithLabelValues("acme.fulfil", "applied").Add(4)
	decided.WithLabelValues("acme.fulfil", "stale").Add(1)
	for range 200 {
		act.WithLabelValues("pay.settle").Observe(60)
	}
	want := []hourText{{"Deliveries", "60 quarantined, 50 accepted, 15 unauthenticated"}, {"Refused, by reason", "9 too_old (unauthenticated), 6 mismatch (unauthenticated)"},
		{"Decisions", "54 applied, 1 stale"}, {"Accept to act", "p50 more than what is measured, p99 more than what is measured, of 300 actions"}}
	if diff := cmp.Diff(want, c.hour.report(now)); diff != "" {
		t.Error(diff)
	}
	if later := c.hour.report(now.Add(62 * time.Minute)); later != nil {
		t.Errorf("an hour later there is %+v", later)
	}
}
