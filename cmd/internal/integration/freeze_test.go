package integration

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/testrig"
)

// TestFrozenStreamWakesUp stops a stream process with SIGSTOP for longer than its session, lets the other take over,
// and wakes it while the load goes on: its fence is gone, so that all that it still can do is the calls it was in.
func TestFrozenStreamWakesUp(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 2 * time.Millisecond})
		r.serve("intake")
		frozen := r.serve("stream")
		other := r.serve("stream")
		v := load(t, r, slowLoad, func() []time.Time {
			if n := r.owned(frozen); n == 0 || n == 6 {
				t.Fatalf("the process to freeze owns %d of 6 partitions", n)
			}
			stopped := time.Now()
			frozen.signal(syscall.SIGSTOP)
			r.waitOwned(other, 6)
			woken := time.Now()
			frozen.signal(syscall.SIGCONT)
			r.waitOwned(frozen, 3)
			return []time.Time{stopped, woken}
		})
		v.requireComplete(t)
		v.requireOrderOfFirstCalls(t)
		if n := int64(len(v.overtaken)); n > r.agent.most.Load() {
			t.Errorf("%d calls came again after newer ones; at most %d were in flight at a time", n, r.agent.most.Load())
		}
	})
}

// signal sends s.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// owned is how many partitions of the GitHub subscription a process runs.
func (r *rig) owned(p *process) int {
	r.t.Helper()
	out, err := r.try(p.operator, "subscriptions", "list", "-o", "json")
	if err != nil {
		r.t.Fatal(err)
	}
	var page struct {
		Items []struct {
			Subscription string
			Partitions   []struct{ State string }
		}
	}
	if err := json.Unmarshal(out, &page); err != nil {
		r.t.Fatalf("subscriptions list: %v in %s", err, out)
	}
	n := 0
	for _, s := range page.Items {
		for _, part := range s.Partitions {
			if s.Subscription == "triage" && part.State == "running" {
				n++
			}
		}
	}
	return n
}

// waitOwned waits until a process runs exactly n partitions of the GitHub subscription.
func (r *rig) waitOwned(p *process, n int) {
	r.t.Helper()
	got, deadline := -1, time.Now().Add(40*time.Second)
	for time.Now().Before(deadline) {
		if got = r.owned(p); got == n {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	r.t.Fatalf("the process runs %d partitions, want %d", got, n)
}
