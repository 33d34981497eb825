package lane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) lines(t *testing.T) (out []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.buf.String()) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestOneLinePerAttempt(t *testing.T) {
	var out safeBuffer
	in(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&out, nil)) }, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt == 1 {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		}
		r.add("a")
		time.Sleep(time.Minute)
		lines := out.lines(t)
		same(t, "lines", len(lines), 2)
		same(t, "keys of a failure", slices.Sorted(maps.Keys(lines[0])), []string{
			"action_id", "attempt", "class", "code", "destination", "entity", "error", "event_id", "latency", "level", "msg",
			"next_in", "source", "status", "subscription", "time",
		})
		for i, want := range []string{"WARN a#1 1 unavailable 500 failed", "INFO a#1 2  200 done"} {
			l := lines[i]
			same(t, "line", fmt.Sprint(l["level"], " ", l["event_id"], " ", l["attempt"], " ", l["class"], " ", l["code"], " ", l["status"]), want)
		}
	})
}

// What an error says to the process's log alone is not in the ledger.
func TestDetailIsForTheLogAlone(t *testing.T) {
	var out safeBuffer
	in(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&out, nil)) }, func(t *testing.T, r *rig) {
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			return sink.Outcome{}, fmt.Errorf("around: %w", &sink.AttemptError{Class: sink.ClassForbidden, Err: inner{}, Untouched: true})
		}
		r.add("a")
		synctest.Wait()
		same(t, "the log", out.lines(t)[0]["detail"], any("10.1.2.3"))
		same(t, "the ledger", r.mem.resultsOf(1)[0].Error, "around: forbidden: it is refused")
	})
}

type inner struct{}

func (inner) Error() string  { return "it is refused" }
func (inner) ForLog() string { return "10.1.2.3" }

func TestPanicLeavesItsStackInTheLog(t *testing.T) {
	var out safeBuffer
	in(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&out, nil)) }, func(t *testing.T, r *rig) {
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) { panic("boom") }
		r.add("a")
		synctest.Wait()
		first := out.lines(t)[0]
		if stack := fmt.Sprint(first["stack"]); !strings.Contains(stack, "observe_test.go") {
			t.Errorf("stack %q does not show where it happened", stack)
		}
		if res := r.mem.resultsOf(1)[0]; strings.Contains(res.Error, "boom") {
			t.Errorf("the recorded error %q shows what the sink panicked with, which may hold anything", res.Error)
		}
	})
}

func TestAliveIsLoggedWhenItChanges(t *testing.T) {
	var out safeBuffer
	alive := false
	var mu sync.Mutex
	change := func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&out, nil))
		c.Alive = func() bool { mu.Lock(); defer mu.Unlock(); return alive }
	}
	in(t, change, func(t *testing.T, r *rig) {
		r.add("a", "b", "c")
		time.Sleep(time.Hour)
		same(t, "lines while away", len(out.lines(t)), 1)
		mu.Lock()
		alive = true
		mu.Unlock()
		time.Sleep(time.Second)
		same(t, "lines: away, back, three attempts", len(out.lines(t)), 5)
	})
}

func TestGauges(t *testing.T) {
	reg := prometheus.NewRegistry()
	in(t, func(c *Config) { c.Registerer = reg }, func(t *testing.T, r *rig) {
		release, _ := hanging(r)
		hang := r.sink.do
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			switch a.Event.Entity {
			case "dead":
				return failWith(sink.ClassRejected)(ctx, a)
			case "retry":
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return hang(ctx, a)
		}
		defer close(release)
		r.add("dead", "dead", "hang", "hang")
		synctest.Wait()
		want := func(name string, value int) {
			t.Helper()
			text := fmt.Sprintf("# TYPE %s gauge\n%s{subscription=\"acme.triage\"} %d\n", name, name, value)
			got, err := testutil.GatherAndCount(reg, name)
			if err != nil || got != 1 {
				t.Fatalf("%s: %d series, %v", name, got, err)
			}
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == name && f.GetMetric()[0].GetGauge().GetValue() != float64(value) {
					t.Errorf("got %v, want %s", f.GetMetric()[0].GetGauge().GetValue(), text)
				}
			}
		}
		want("forebay_lane_open_actions", 2)
		want("forebay_lane_parked_lanes", 1)
		want("forebay_lane_waiting_lanes", 0)
		want("forebay_lane_payload_bytes", 2*(512+len(`{"n":1}`))+sink.MaxResponse) // one is under way, and may be answered
		want("forebay_lane_unrecorded_results", 0)
		r.add("retry")
		synctest.Wait()
		want("forebay_lane_waiting_lanes", 1)
		want("forebay_lane_open_actions", 3)
	})
}

// TestAcceptToAct: the time from acceptance is counted once, with the first success, over all attempts, and not of what a replay runs again.
func TestAcceptToAct(t *testing.T) {
	reg := prometheus.NewRegistry()
	in(t, func(c *Config) { c.Registerer = reg }, func(t *testing.T, r *rig) {
		r.sink.do = func(ctx context.Context, a sink.Action) (sink.Outcome, error) {
			if a.Attempt == 1 {
				return failWith(sink.ClassBusy)(ctx, a)
			}
			return sink.Outcome{Code: 200}, nil
		}
		began := time.Now()
		items := []Item{r.make("a", nil), r.make("b", func(a *ledger.Action) { a.Generation = 7 }), r.make("c", nil)}
		items[0].Event.RecordedTime = began.Add(-time.Minute)
		items[1].Event.RecordedTime = began.Add(-30 * 24 * time.Hour)
		r.Add(r.claim, items)
		time.Sleep(10 * time.Minute)
		same(t, "done", r.mem.resultsOf(1)[1].Status, ledger.Done)
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "forebay_lane_accept_to_act_seconds" {
				h := f.GetMetric()[0].GetHistogram()
				same(t, "observations", h.GetSampleCount(), uint64(1))
				if sum := h.GetSampleSum(); sum <= 60 || sum > 600 { // with the wait for the second attempt
					t.Errorf("%v seconds", sum)
				}
				return
			}
		}
		t.Error("there is no such metric")
	})
}

func TestResultsAreBoundedAndClean(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		r.sink.do = func(context.Context, sink.Action) (sink.Outcome, error) {
			return sink.Outcome{Code: 400, Response: make([]byte, 100_000)}, &sink.AttemptError{
				Class: sink.ClassRejected, Err: errors.New("a\x00b\nc\xff" + strings.Repeat("ü", 5000)),
			}
		}
		r.add("a")
		synctest.Wait()
		res := r.mem.resultsOf(1)[0]
		same(t, "response", len(res.Response), sink.MaxResponse)
		same(t, "dead", res.Status, ledger.Dead)
		if len(res.Error) > maxError || !utf8.ValidString(res.Error) || strings.ContainsAny(res.Error, "\x00\n") {
			t.Errorf("error %q", res.Error)
		}
		if !strings.HasPrefix(res.Error, "rejected: a b cü") {
			t.Errorf("error begins %q", res.Error[:20])
		}
	})
}
