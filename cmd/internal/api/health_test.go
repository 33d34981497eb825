package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The health listener answers probes under any name, also while the process is not ready, and has nothing else.
func TestHealth(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "forebay_seen", Help: "A value."}))
	checks := []Check{{Name: "intake", Error: "no broker answers"}}
	h := NewHealth(func(context.Context) []Check { return checks }, registry)
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
	checks[0] = Check{Name: "intake", OK: true}
	if got, body := get("GET", "/readyz", "forebay.svc"); got != http.StatusOK {
		t.Errorf("once it is ready: %d %s", got, body)
	}
}
