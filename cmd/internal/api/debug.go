package api

import (
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// profile answers with a profile of the process. What the command line says is none of them: somebody may have written a secret there.
func profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); {
	case name == "profile":
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case runtimepprof.Lookup(name) != nil:
		pprof.Handler(name).ServeHTTP(w, r)
	default:
		write(w, http.StatusNotFound, problemOf(http.StatusNotFound, "no such profile: profile, trace, heap, allocs, goroutine, block, mutex and threadcreate are"))
	}
}

// runtimeMetrics answers with all that Go's runtime counts; /metrics has a part of it.
func runtimeMetrics() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	return metrics(all)
}
