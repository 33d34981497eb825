package simulation

import (
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	oneSeed = flag.Int64("seed", -1, "run this seed alone, and print its trace")
	seeds   = flag.Int("seeds", 100, "how many seeds to run")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation runs worlds and judges them.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *oneSeed >= 0 {
		simulate(t, uint64(*oneSeed), slog.LevelDebug)
		return
	}
	for seed := range *seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, uint64(seed), slog.LevelInfo)
		})
	}
}

func simulate(t *testing.T, seed uint64, level slog.Level) {
	synctest.Test(t, func(t *testing.T) {
		p := draw(seed)
		tr := &trace{start: time.Now(), level: level}
		w := build(t, p, tr)
		w.run()
		w.end()
		for _, f := range judge(w.history()) {
			t.Errorf("%s: %s", f.rule, f.text)
		}
		if t.Failed() {
			t.Logf("%s\n%s\nagain: go test ./cmd/internal/simulation -run Simulation -seed=%d", p, tr, seed)
		}
	})
}
