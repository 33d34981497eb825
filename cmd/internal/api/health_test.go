package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The health listener answers probes under any name, also while the process is not ready, and has nothing else.
func TestHealth(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "forebay_seen", Help: "A value."}))
	checks := []Check{{Name: "intake", Error: "no broker answers"}}
	var live error
	h := NewHealth(func() error { return live }, func(context.Context, bool) []Check { return checks }, registry)
	get := func(method, path, host string) (int, string) {
		r := httptest.NewRequest(method, path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, host := range []string{"forebay.svc", ""} {
		for path, want := range map[string]string{"/livez": `"live":true`, "/readyz": "no broker answers", "/metrics": "forebay_seen 0"} {
			status := http.StatusOK
			if path == "/readyz" {
				status = http.StatusServiceUnavailable
			}
			if got, body := get("GET", path, host); got != status || !strings.Contains(body, want) {
				t.Errorf("%s as %q: %d %s", path, host, got, body)
			}
		}
		for _, path := range []string{"/", "/v1/inbox", "/v1/sources", "/v1/dlq", "/metrics/", "/v1/in/acme/github", "/v1/destinations/acme/coder/pause"} {
			if got, body := get("GET", path, host); got != http.StatusNotFound || strings.Contains(body, "items") {
				t.Errorf("%s as %q: %d %s", path, host, got, body)
			}
		}
		for _, path := range []string{"/livez", "/readyz", "/metrics", "/v1/destinations/acme/coder/pause"} {
			if got, _ := get("POST", path, host); got < 400 {
				t.Errorf("POST %s as %q: %d", path, host, got)
			}
		}
	}
	live = errors.New("stands still")
	if got, body := get("GET", "/livez", "forebay.svc"); got != http.StatusServiceUnavailable || body != `{"live":false,"error":"stands still"}`+"\n" {
		t.Errorf("once it does not live: %d %s", got, body)
	}
	checks[0] = Check{Name: "intake", OK: true}
	if got, body := get("GET", "/readyz", "forebay.svc"); got != http.StatusOK {
		t.Errorf("once it is ready: %d %s", got, body)
	}
}

// However many ask for metrics, one of them has them gathered at a time; those that have waited meanwhile share what is gathered next.
func TestMetricsOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gathering, gathered atomic.Int32
		h := NewHealth(nil, nil, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			gathered.Add(1)
			if n := gathering.Add(1); n > 1 {
				t.Errorf("%d gather at once", n)
			}
			defer gathering.Add(-1)
			<-time.After(time.Second)
			return nil, nil
		}))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil)); w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" {
					t.Errorf("%d %v", w.Code, w.Header())
				}
			})
		}
		all.Wait()
		if n := gathered.Load(); n != 2 {
			t.Errorf("gathered %d times for eight who ask at once", n)
		}
	})
}
