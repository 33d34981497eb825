package streamtest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter returns the value of a counter, summed over its labels.
func Counter(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
