//go:build kcl

package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestSeekWithKcl moves the stopped group with kcl: what it passes over does not run and is recorded as skipped, and what it goes back over is
// skipped as done. The Go module proxy does not have kcl, so the test is not among the others: build github.com/twmb/kcl from its sources, put
// it on PATH, and run
//
//	go run ./cmd/internal/withpostgres go test -tags kcl -run Kcl -v ./cmd/internal/integration
func TestSeekWithKcl(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")
	stream := r.serve("stream")
	seek := func(args ...string) {
		t.Helper()
		args = append([]string{"group", "seek", r.team + ".triage", "--no-config-file", "-B", k.Bootstrap()}, args...)
		out, err := exec.CommandContext(t.Context(), "kcl", args...).CombinedOutput()
		if t.Logf("kcl %s\n%s", strings.Join(args, " "), out); err != nil {
			t.Fatal(err)
		}
	}
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	stream.stop()
	r.deliverAll(entities, 2, issues)
	seek("--to", "end", "--dry-run")
	seek("--to", "end", "--yes")
	r.deliverAll(entities, 3, issues)
	stream = r.serve("stream")
	r.agent.waitActed(t, 2*entities, time.Minute)
	r.waitOwned(stream, 6)
	if seeks, skipped := r.moves(stream, "triage"); skipped != entities || seeks < 1 || seeks > 6 {
		t.Errorf("%d seeks over %d offsets are recorded, want %d offsets", seeks, skipped, entities)
	}
	stream.stop()
	seek("--to", "@-1h", "--yes") // before the first delivery
	r.deliverAll(entities, 4, issues)
	r.serve("stream")
	r.agent.waitActed(t, 3*entities, time.Minute)
	calls := r.agent.snapshot()
	if passed := slices.ContainsFunc(calls, func(c call) bool { return strings.HasPrefix(c.version, "2026-07-01T12:00:02") }); passed || len(calls) != 3*entities {
		t.Errorf("%d calls, want %d, and none of what was passed over: %+v", len(calls), 3*entities, calls)
	}
}
