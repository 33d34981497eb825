package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// attempted is a registry with attempts at two destinations, by two teams.
func attempted() *prometheus.Registry {
	r := prometheus.NewRegistry()
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: attemptsMetric}, []string{"destination", "class", "subscription"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: durationMetric, Buckets: []float64{0.01, 0.1, 1}}, []string{"destination", "subscription"})
	r.MustRegister(attempts, took)
	attempts.WithLabelValues("acme/agent", "ok", "acme.fulfil").Add(7)
	attempts.WithLabelValues("acme/agent", "invalid", "acme.fulfil").Add(2)
	attempts.WithLabelValues("acme/agent", "ok", "pay.triage").Add(100)
	attempts.WithLabelValues("pagers", "ok", "acme.fulfil").Add(50)
	for range 8 {
		took.WithLabelValues("acme/agent", "acme.fulfil").Observe(0.05)
	}
	took.WithLabelValues("acme/agent", "acme.fulfil").Observe(7)
	return r
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.to[0].Breaker, f.to[0].Team, f.to[0].Rate = "open", "acme", &api.RateItem{Limit: 10, Per: "1m", Burst: 20, OnLimit: "queue"}
	f.to = append(f.to, api.DestinationItem{Destination: "pagers", Teams: []string{"acme"}})
	registry := attempted()
	cfg := f.config()
	cfg.Gatherer = registry
	c := pagesOf(t, cfg)
	get(t, c, "/console/destinations?team=pay").says("p", "There is none of pay")
	s := get(t, c, "/console/destinations")
	s.says("tr", "acme/agent", "http", "open", "1/64", "at most 10 in 1m, 20 at once (queue)", "9", "nothing gets through since")
	s.says("tr", "pagers", "not limited")
	s = get(t, c, s.link("acme/agent"))
	s.says("tr", "ok", "107")
	s.says("tr", "invalid", "2")
	s.says("div", "Latency", "9 attempts of this process since it began; half took at most 100ms, 95 of 100 more than what is measured")
	s.says("div", "Rate", "at most 10 in 1m, 20 at once (queue)")
	if s := get(t, c, "/console/destinations/acme/none"); s.status != http.StatusNotFound {
		t.Errorf("no such destination: %d", s.status)
	}
	r, err := http.NewRequestWithContext(api.As(t.Context(), &access.Who{Role: "viewer", Teams: []string{"acme"}}), http.MethodGet, "http://127.0.0.1"+destinationURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	s = send(t, c, r)
	s.says("tr", "ok", "7") // and not what the other team has attempted
	if len(s.all("form")) != 0 || strings.Contains(text(s.root), "Pause") {
		t.Error("a viewer is shown a form")
	}
}

func TestPauseOfADestination(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, destinationURL)
	s.says("p", "Nothing is attempted there any more, in all processes, until it is resumed; what is under way ends: 0 actions wait in this process, 1 attempts are under way.")
	s.says("div", "Latency", "this process has attempted nothing there since it began")
	form := values(s)
	if s := post(t, h, destinationURL+"/pause", form); s.status != http.StatusBadRequest || f.to[0].Paused != nil {
		t.Errorf("without a reason: %d", s.status)
	}
	form.Set("reason", "it is moved")
	for _, want := range []int{http.StatusSeeOther, http.StatusConflict} {
		if s := post(t, h, destinationURL+"/pause", form); s.status != want || f.pausedAt != "acme/agent" {
			t.Errorf("paused %s: %d, want %d", f.pausedAt, s.status, want)
		}
	}
	s = get(t, h, destinationURL)
	s.says("div", "State", "by console: it is moved")
	s.says("button", "Resume acme/agent")
	if s := post(t, h, destinationURL+"/resume", form); s.status != http.StatusSeeOther || f.to[0].Paused != nil {
		t.Errorf("resumed: %d", s.status)
	}
	if s := post(t, h, "/console/destinations/pagers/pause", form); s.header.Get("Location") != "/console/destinations/pagers" || f.pausedAt != "/pagers" {
		t.Errorf("a shared one: %d, paused %s", s.status, f.pausedAt)
	}
}
