package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewHealth makes the handler of the health listener: /livez, /readyz and /metrics for whoever reaches it, under any name, and nothing
// else. Probes and Prometheus ask it from other hosts.
func NewHealth(ready func(ctx context.Context) []Check, g prometheus.Gatherer) http.Handler {
	mux := probes(ready)
	mux.Handle("GET /metrics", metrics(g))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, Problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound,
			Detail: "this listener has /livez, /readyz and /metrics; all else is asked at listen.operator"})
	})
	return mux
}

// probes are what says whether the process lives, and whether it can work.
func probes(ready func(ctx context.Context) []Check) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, map[string]bool{"live": true}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		body, status := Readiness{Ready: true, Checks: ready(ctx)}, http.StatusOK
		for _, c := range body.Checks {
			if !c.OK {
				body.Ready, status = false, http.StatusServiceUnavailable
			}
		}
		write(w, status, body)
	})
	return mux
}

func metrics(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{})
}
