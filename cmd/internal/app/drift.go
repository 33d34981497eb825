package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/drift"
)

// driftOf returns what a recorder has noticed, as the API has it.
func driftOf(r *drift.Recorder) *api.Drift {
	changes, types := r.Report()
	d := &api.Drift{Items: []api.DriftItem{}, Types: []api.DriftType{}}
	for _, c := range changes {
		d.Items = append(d.Items, api.DriftItem{Team: c.Team, Source: c.Source, Type: c.Type, Field: c.Field, Change: c.Change, Was: c.Was, Is: c.Is, Since: c.Since.UTC()})
	}
	for _, t := range types {
		d.Types = append(d.Types, api.DriftType{Team: t.Team, Source: t.Source, Type: t.Type, Samples: t.Samples, Learning: t.Learning, More: t.More})
	}
	return d
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
