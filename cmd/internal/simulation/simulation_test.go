package simulation

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	oneSeed = flag.Int64("seed", -1, "run this seed alone, and print its trace")
	seeds   = flag.Int("seeds", 100, "how many seeds to run")
	first   = flag.Bool("first", false, "end with the first seed that fails")

	caught atomic.Bool
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation runs worlds and judges them.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if !tagged {
		runWithSynctests(t)
		return
	}
	if *oneSeed >= 0 {
		simulate(t, uint64(*oneSeed), slog.LevelDebug)
		return
	}
	for seed := range *seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			if *first && caught.Load() {
				t.SkipNow()
			}
			defer func() { // a bubble that fails ends its test at once
				if t.Failed() {
					caught.Store(true)
				}
			}()
			simulate(t, uint64(seed), slog.LevelInfo)
		})
	}
}

// runWithSynctests runs this test in a binary of its own: kgo holds locks while it waits for brokers, and only with the tag synctests are
// they such that virtual time goes on meanwhile. It is built without the race detector: a thousand worlds are to be seen.
func runWithSynctests(t *testing.T) {
	args := []string{"test", "-tags=synctests", "-v=" + strconv.FormatBool(*oneSeed >= 0), "-count=1", "-timeout=20m", "-run=^TestSimulation$", ".",
		fmt.Sprintf("-seeds=%d", howMany())}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "seed" || f.Name == "seeds" || f.Name == "first" {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if err != nil {
		t.Fail()
	}
}

// howMany returns how many seeds are run if no flag says so.
func howMany() int {
	switch {
	case os.Getenv("CI") != "":
		return 1000
	case testing.Short():
		return 10
	}
	return *seeds
}

func simulate(t *testing.T, seed uint64, level slog.Level) {
	synctest.Test(t, func(t *testing.T) {
		p := draw(seed)
		tr := &trace{start: time.Now(), level: level, decided: map[string]bool{}, misplaced: map[string]string{}}
		w := build(t, p, tr)
		w.run()
		w.end()
		for _, text := range tr.faults {
			t.Errorf("reports a fault of its own: %s", text)
		}
		for id, topic := range tr.misplaced {
			if !w.grown[topic] {
				t.Errorf("reports a fault of its own: %s is misplaced in %s, which has not grown", id, topic)
			}
		}
		for _, f := range judge(w.history()) {
			t.Errorf("%s: %s", f.rule, f.text)
		}
		if t.Failed() || *oneSeed >= 0 {
			t.Logf("%s\n%s\nagain: go test ./cmd/internal/simulation -run Simulation -seed=%d", p, tr, seed)
		}
	})
}
