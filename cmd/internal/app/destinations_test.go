package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// destination waits until the agent is as check wants it, in this process.
func (p *process) destination(what string, check func(*api.DestinationItem) bool) *api.DestinationItem {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(20 * time.Second); ; {
		item, err := p.api.Destination(p.t.Context(), "acme", "agent")
		if err == nil && check(item) {
			return item
		}
		select {
		case <-timeout:
			p.t.Fatalf("%s: %+v %v", what, item, err)
		case <-tick.C:
		}
	}
}

func isPaused(i *api.DestinationItem) bool  { return i.State == "paused" }
func isResumed(i *api.DestinationItem) bool { return i.Paused == nil }

// TestPauseHoldsInAllProcesses and outlives them: paused in one, nothing is attempted by the other, nor by the one that
// is started after both; resumed in any, what has waited runs at its first attempt.
func TestPauseHoldsInAllProcesses(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := newRig(t, agent.URL, database(t), true)
	intake := r.start(config.RoleIntake)
	intake.ready()
	one, other := r.start(config.RoleStream), r.start(config.RoleStream)
	one.ready()
	other.ready()
	ask := api.PauseRequest{By: "ann@ops", Reason: "they move"}
	if _, err := one.api.Pause(t.Context(), "acme", "agent", api.PauseRequest{By: "ann@ops"}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := one.api.Pause(t.Context(), "acme", "nothing", ask); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("what is not configured: %v", err)
	}
	if _, err := one.api.Resume(t.Context(), "acme", "agent", ask); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("resumed, and not paused: %v", err)
	}
	if item, err := one.api.Pause(t.Context(), "acme", "agent", api.PauseRequest{DryRun: true}); err != nil || item.Paused != nil {
		t.Errorf("dry run: %+v %v", item, err)
	}
	item, err := one.api.Pause(t.Context(), "acme", "agent", ask)
	if err != nil || item.State != "paused" || item.Paused.By != ask.By || item.Paused.Reason != ask.Reason || item.Type != "http" || item.Concurrency != 64 {
		t.Fatalf("%+v %v", item, err)
	}
	other.destination("the other process", isPaused)
	if _, err := other.api.Pause(t.Context(), "acme", "agent", api.PauseRequest{By: "bob", Reason: "me too"}); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "by ann@ops: they move") {
		t.Errorf("paused twice: %v", err)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		intake.accepted("orders", "orders-secret", order(name, 1))
	}
	one.clean()
	other.clean()
	next := r.start(config.RoleStream)
	next.ready()
	item = next.destination("a process started later has them all", func(i *api.DestinationItem) bool { return i.Waiting == 4 })
	if item.State != "paused" || item.Paused.By != ask.By || item.Running != 0 || item.ConsecutiveFailures != 0 {
		t.Errorf("%+v", item)
	}
	page, err := next.api.Destinations(t.Context())
	if err != nil || len(page.Items) != 1 || page.Items[0].Team != "acme" || page.Items[0].Destination != "agent" {
		t.Errorf("%+v %v", page, err)
	}
	agent.mu.Lock()
	if len(agent.calls) > 0 {
		t.Errorf("called although paused: %+v", agent.calls)
	}
	agent.mu.Unlock()
	if item, err := next.api.Resume(t.Context(), "acme", "agent", api.PauseRequest{By: "bob", Reason: "they are back"}); err != nil || item.Paused != nil {
		t.Errorf("%+v %v", item, err)
	}
	if calls := agent.wait(t, 4); len(calls) != 4 {
		t.Errorf("%+v", calls)
	}
	items, err := next.api.Items(t.Context(), api.InboxFilter{Team: "acme", Subscription: "fulfil"})
	for _, i := range items.Items {
		if i.Attempts > 1 || err != nil {
			t.Errorf("%+v %v", i, err)
		}
	}
}

// TestGoneDestinationIsPausedForAll: one process learns that the place is gone, the other has nothing to find out. What
// has waited runs once somebody resumes.
func TestGoneDestinationIsPausedForAll(t *testing.T) {
	t.Parallel()
	var status, calls atomic.Int32
	called := make(chan struct{}, 10)
	status.Store(http.StatusGone)
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		called <- struct{}{}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(gone.Close)
	r := newRig(t, gone.URL, database(t), true)
	intake := r.start(config.RoleIntake)
	intake.ready()
	one, other := r.start(config.RoleStream), r.start(config.RoleStream)
	one.ready()
	other.ready()
	intake.accepted("orders", "orders-secret", order("a", 1))
	for _, p := range []*process{one, other} {
		item := p.destination("paused by itself", isPaused)
		if item.Paused.By != "forebay" || item.Paused.Class != "rejected" || !strings.Contains(item.Paused.Reason, "status 410") {
			t.Errorf("%+v", item.Paused)
		}
	}
	intake.accepted("orders", "orders-secret", order("b", 1))
	one.destination("the second event waits in the process that owns it", func(i *api.DestinationItem) bool {
		there, err := other.api.Destination(t.Context(), "acme", "agent")
		return err == nil && i.Waiting+there.Waiting == 1
	})
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want the one that was answered 410", n)
	}
	status.Store(http.StatusOK)
	if _, err := other.api.Resume(t.Context(), "acme", "agent", api.PauseRequest{By: "ann", Reason: "it is back"}); err != nil {
		t.Fatal(err)
	}
	one.destination("resumed for all", isResumed)
	for range 2 { // the second is what has waited
		select {
		case <-called:
		case <-time.After(20 * time.Second):
			t.Fatal("what has waited never ran")
		}
	}
}

// TestProcessWithoutStreamHasNoDestinations and says so.
func TestProcessWithoutStreamHasNoDestinations(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	intake := newRig(t, agent.URL, "", true).start(config.RoleIntake)
	intake.ready()
	if _, err := intake.api.Destinations(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "--roles stream") {
		t.Error(err)
	}
}
