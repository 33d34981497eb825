package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

func TestIntakeScenario(t *testing.T) {
	t.Parallel()
	o := Options{Kafka: strings.Split(rig.Fake(t).Bootstrap(), ","), Round: 50 * time.Millisecond, Rounds: 1, Progress: t.Output()}
	r := newReport(o)
	if err := runIntake(t.Context(), o, intakeSizes{warm: 4, conns: []int{2, 3}}, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `intake/bare intake/bare_3`, `intake/cpu_ours_2 intake/cpu_bare_2 intake/cpu_ours_3 intake/cpu_bare_3`)
}
