package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestOverloadScenario: at a tiny size, what is accepted is in the log, and the figures are there.
func TestOverloadScenario(t *testing.T) {
	t.Parallel()
	o := Options{Kafka: strings.Split(rig.Fake(t).Bootstrap(), ","), Round: 200 * time.Millisecond, Rounds: 2, Progress: t.Output()}
	r := newReport(o)
	if err := runOverload(t.Context(), o, overloadSizes{warm: 4, conns: 2, times: 3, quiet: 20 * time.Millisecond}, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `overload/kept overload/p99 overload/quiet_p99 overload/quiet overload/memory`, ``)
	for _, x := range r.Ratios {
		if x.Ours <= 0 || x.Theirs <= 0 || x.Name == "overload/kept" && x.Ratio != 1 || x.Name == "overload/quiet" && x.Ratio > 1 {
			t.Errorf("%+v", x)
		}
	}
}
