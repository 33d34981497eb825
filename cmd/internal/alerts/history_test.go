package alerts

import (
	"testing"
	"time"
)

// Of each metric are kept the samples that its rules ask back for: of those that are asked for their latest alone, none before it.
func TestHistoryKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	h := NewHistory(Rules(Defaults()))
	const lag, deliveries = "forebay_stream_lag_seconds", "forebay_ingest_deliveries_total"
	all := []played{{name: lag, labels: map[string]string{"subscription": "acme.fulfil", "partition": "1"}}, {name: lag, labels: map[string]string{"subscription": "acme.fulfil", "partition": "2"}},
		{name: deliveries, labels: map[string]string{"team": "acme", "reason": "mismatch"}}}
	const steps = 1000
	for i := range all {
		for range steps {
			all[i].values = append(all[i].values, new(1.0))
		}
	}
	all[1].values = all[1].values[:steps-1]
	for step := range steps {
		h.Record(gathered(all, step), time.Unix(0, 0).Add(time.Duration(step)*pointsEvery))
	}
	if len(h.series[lag]) != 1 {
		t.Errorf("%d partitions have a lag", len(h.series[lag]))
	}
	for _, s := range h.series[lag] {
		if len(s.points) != 0 || s.last.value != 1 {
			t.Errorf("of the lag are kept %+v", s)
		}
	}
	for _, s := range h.series[deliveries] {
		if least := int(70 * time.Minute / pointsEvery); len(s.points) < least || len(s.points) > 3*least {
			t.Errorf("of the deliveries are kept %d samples", len(s.points))
		}
	}
}
