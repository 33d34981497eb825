package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/drift"
)

// driftOf returns what a recorder has noticed, as the API has it.
func driftOf(r *drift.Recorder) *api.Drift {
	changes, types := r.Report()
	for i := range changes {
		changes[i].Since = changes[i].Since.UTC()
	}
	return &api.Drift{Items: append([]api.DriftItem{}, changes...), Types: append([]api.DriftType{}, types...)}
}

// driftGauge is the metric forebay_ingest_drift_fields: it is counted when it is asked for.
type driftGauge struct {
	recorder *drift.Recorder
	desc     *prometheus.Desc
}

func newDriftGauge(r *drift.Recorder) *driftGauge {
	return &driftGauge{r, prometheus.NewDesc("forebay_ingest_drift_fields",
		"Fields of bodies that are new, gone or of another kind than in the first bodies since the process began.", []string{"team", "source", "change"}, nil)}
}

// Describe implements [prometheus.Collector].
func (g *driftGauge) Describe(all chan<- *prometheus.Desc) { all <- g.desc }

// Collect implements [prometheus.Collector].
func (g *driftGauge) Collect(all chan<- prometheus.Metric) {
	changes, _ := g.recorder.Report()
	count := map[[3]string]float64{}
	for _, c := range changes {
		count[[3]string{c.Team, c.Source, c.Change}]++
	}
	for labels, n := range count {
		all <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, n, labels[:]...)
	}
}
