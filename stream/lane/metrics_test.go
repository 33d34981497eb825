package lane

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Of a destination there are series of all that can become of long work, before anything has: a rate over them has the first, too.
func TestLongBeginsAtZero(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(&scheduler{}, &Config{Subscription: "acme.triage", Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	m.of("agent")
	before := testutil.CollectAndCount(m.long)
	for _, end := range []string{"done", "failed", "dead_letter", "newer", "deadline", "silence"} {
		m.long.WithLabelValues("agent", end)
	}
	if after := testutil.CollectAndCount(m.long); before != 6 || after != 6 {
		t.Errorf("%d series, and %d once all have ended", before, after)
	}
}
