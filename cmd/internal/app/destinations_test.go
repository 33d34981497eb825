package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/sink"
)

// destination waits until the agent is as check wants it, in this process.
func (p *process) destination(what string, check func(*api.DestinationItem) bool) *api.DestinationItem {
	p.t.Helper()
	var item *api.DestinationItem
	var err error
	if !rig.Until(time.Minute, func() bool {
		item, err = p.api.Destination(p.t.Context(), "acme", "agent")
		return err == nil && check(item)
	}) {
		p.t.Fatalf("%s: %+v %v", what, item, err)
	}
	return item
}

func isPaused(i *api.DestinationItem) bool  { return i.State == "paused" }
func isResumed(i *api.DestinationItem) bool { return i.Paused == nil }

// TestPauseHoldsInAllProcesses and outlives them: paused in one, nothing is attempted by the other, nor by the one that
// is started after both; resumed in any, what has waited runs at its first attempt.
func TestPauseHoldsInAllProcesses(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	intake := r.run(config.RoleIntake)
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
	next := r.run(config.RoleStream)
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
	if err != nil || len(items.Items) != 4 || slices.ContainsFunc(items.Items, func(i api.InboxItem) bool { return i.Attempts > 1 }) {
		t.Errorf("%+v %v", items, err)
	}
}

// TestGoneDestinationIsPaused once the place says that it is gone. What has waited runs once somebody resumes.
func TestGoneDestinationIsPaused(t *testing.T) {
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
	p := deploy(t, gone.URL, newLedger(t), true).run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("a", 1))
	item := p.destination("paused by itself", isPaused)
	if item.Paused.By != "forebay" || item.Paused.Class != "rejected" || !strings.Contains(item.Paused.Reason, "410") {
		t.Errorf("%+v", item.Paused)
	}
	p.accepted("orders", "orders-secret", order("b", 1))
	p.destination("the second event waits", func(i *api.DestinationItem) bool { return i.Waiting == 1 })
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want the one that was answered 410", n)
	}
	status.Store(http.StatusOK)
	if _, err := p.api.Resume(t.Context(), "acme", "agent", api.PauseRequest{By: "ann", Reason: "it is back"}); err != nil {
		t.Fatal(err)
	}
	p.destination("resumed", isResumed)
	for range 2 { // the second is what has waited
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatal("what has waited never ran")
		}
	}
}

// TestDeadDestinationWaitsForAnOperator: nobody answers at a destination, and an action waits. After two minutes of that it is listed as down, and whether
// it is tried, which it is not while its subscription is paused; paused, as paused; and once it answers, as neither.
func TestDeadDestinationWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	var dead atomic.Bool
	dead.Store(true)
	var tried atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tried.Add(1); dead.Load() {
			panic(http.ErrAbortHandler) // the connection is closed without an answer
		}
		agent.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	r := deploy(t, front.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "retry: {min: 10ms, max: 100ms}", "retry: {min: 10ms, max: 1s, attempts: 100}", 1) // or a slow machine uses them up
	p := r.run(config.RoleIntake, config.RoleStream)
	listed := func(after time.Duration) []string {
		t.Helper()
		l := look{at: time.Now().Add(after), unknown: map[string]string{}}
		p.app.waits.ofDestinations(t.Context(), &l)
		var rows []string
		for _, row := range l.rows {
			rows = append(rows, row.Kind+" "+row.ID+" "+row.Team+": "+row.Command)
		}
		return rows
	}
	p.accepted("orders", "orders-secret", order("a", 1))
	p.destination("it fails", func(i *api.DestinationItem) bool { return i.FailingSince != nil && i.Waiting == 1 })
	if got := listed(0); got != nil {
		t.Errorf("at once: %q", got)
	}
	down := []string{"destination_down acme/agent acme: forebay destinations get acme/agent"}
	if !rig.Until(time.Minute, func() bool { // whatever is done with its only action
		if got := listed(downAfter); !slices.Equal(got, down) {
			t.Errorf("it is not listed as down: %q", got)
			return true
		}
		return tried.Load() >= 10
	}) {
		t.Error("it is not tried again and again")
	}
	says := func(detail string) bool { // not while an attempt is just beginning
		l := look{at: time.Now().Add(downAfter), unknown: map[string]string{}}
		p.app.waits.ofDestinations(t.Context(), &l)
		return len(l.rows) > 0 && strings.Contains(l.rows[0].Detail, detail)
	}
	if !rig.Until(time.Minute, func() bool { return says("tried again") }) {
		t.Error("it is said not to be tried")
	}
	ask := api.PauseRequest{By: "ann", Reason: "it moves"}
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", ask); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return says("none is tried now") }) {
		t.Error("what a paused subscription has is said to be tried")
	}
	if _, err := p.api.ResumeSubscription(t.Context(), "acme", "fulfil", ask); err != nil {
		t.Fatal(err)
	}
	if _, err := p.api.Pause(t.Context(), "acme", "agent", ask); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"paused_destination acme/agent acme: forebay destinations resume acme/agent --reason TEXT"}, listed(downAfter)); diff != "" {
		t.Error(diff)
	}
	dead.Store(false)
	if _, err := p.api.Resume(t.Context(), "acme", "agent", ask); err != nil {
		t.Fatal(err)
	}
	p.destination("it answers", func(i *api.DestinationItem) bool { return i.FailingSince == nil && i.Waiting+i.Running == 0 })
	if got := listed(downAfter); got != nil {
		t.Errorf("it answers: %q", got)
	}
}

// TestMissingDestinationIsListed: a destination is renamed in the file while an action is for it. It is listed under its old name, and as down after
// two minutes, until the file has that name again.
func TestMissingDestinationIsListed(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), true)
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	if _, err := p.api.Pause(t.Context(), "acme", "agent", api.PauseRequest{By: "ann", Reason: "it moves"}); err != nil { // so that its attempts are not used up
		t.Fatal(err)
	}
	p.accepted("orders", "orders-secret", order("a", 1))
	p.destination("it waits", func(i *api.DestinationItem) bool { return i.Waiting == 1 })
	before := r.text
	r.text = strings.NewReplacer("      agent:", "      worker:", "to: agent", "to: worker").Replace(before)
	r.reload(p, roles...)
	item := p.destination("renamed", func(i *api.DestinationItem) bool { return i.State == "missing" })
	if item.Waiting != 1 || item.FailingSince == nil {
		t.Errorf("%+v", item)
	}
	if !rig.Until(time.Minute, func() bool { // not while an attempt is under way
		l := look{at: time.Now().Add(downAfter), unknown: map[string]string{}}
		p.app.waits.ofDestinations(t.Context(), &l)
		return len(l.rows) == 1 && l.rows[0].ID == "acme/agent" && l.rows[0].Kind == api.KindDown && l.rows[0].Reason == "missing"
	}) {
		t.Error("it is not listed as down")
	}
	r.text = before
	r.reload(p, roles...)
	p.destination("its name is back", func(i *api.DestinationItem) bool { return i.State != "missing" && i.Waiting == 1 })
}

// TestPolicyOf: everything that the file says of a destination reaches it.
func TestPolicyOf(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "retry: {min: 10ms, max: 100ms}", `timeout: 3s, retry: {attempts: 4, within: 2h, min: 5s, max: 6m}, concurrency: 7,
        rate: {limit: 8, per: 9m, burst: 10, on_limit: error}, breaker: {failures: 11, window: 18s, wait: 12s, max_wait: 13m, floor: 19}, max_hold: 14m, recovery: 15m, pause: {failures: 16, after: 17h}`, 1)
	c := r.load(config.RoleStream)
	all, err := destinations(c, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	got := all["acme/agent"]
	defer got.Sink.Close(t.Context())
	policy := policyOf(config.NamedDestination{Destination: c.Teams["acme"].Destinations["agent"], Team: "acme", Name: "agent"}, got.Sink)
	want := destination.Policy{Concurrency: 7, MaxHold: 14 * time.Minute, Recovery: 15 * time.Minute, Endpoint: true, Agent: "agent",
		Rate:    destination.Rate{Limit: 8, Per: 9 * time.Minute, Burst: 10, OnLimit: destination.Error},
		Breaker: destination.Breaker{Failures: 11, Window: 18 * time.Second, Wait: 12 * time.Second, MaxWait: 13 * time.Minute, Floor: 19},
		Pause:   destination.AutoPause{Failures: 16, After: 17 * time.Hour}}
	if diff := cmp.Diff(want, policy); diff != "" {
		t.Errorf("policy (-want +got)\n%s", diff)
	}
	retry := sink.RetryPolicy{Attempts: 4, Within: 2 * time.Hour, Min: 5 * time.Second, Max: 6 * time.Minute}
	if diff := cmp.Diff(retry, got.Retry); diff != "" || got.Timeout != 3*time.Second {
		t.Errorf("timeout %s, retry (-want +got)\n%s", got.Timeout, diff)
	}
	for v, i := reflect.ValueOf(policy), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not in this test", v.Type().Field(i).Name)
		}
	}
}

// TestHoldIsEnded: an answer that asks for no calls for an hour was a mistake. A resume ends the hold in the process that is asked and in all others, for
// what waits behind it and for the action that got the answer, and is in the audit.
func TestHoldIsEnded(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	busy.Store(true)
	agent := newAgent(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		agent.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	r := deploy(t, front.URL, newLedger(t), true)
	all := []*process{r.run(config.RoleIntake, config.RoleStream), r.run(config.RoleStream)}
	held := func(i *api.DestinationItem) bool { return i.OnHoldUntil != nil }
	sent := 0
	for _, p := range all {
		if !rig.Until(time.Minute, func() bool { // until a partition of each has had one
			all[0].accepted("orders", "orders-secret", order(fmt.Sprint("order", sent), 1))
			sent++
			i, err := p.api.Destination(t.Context(), "acme", "agent")
			return err == nil && held(i)
		}) {
			t.Fatal("a process is not on hold")
		}
	}
	busy.Store(false)
	ask := api.PauseRequest{By: "ann", Reason: "it meant a minute", DryRun: true}
	if i, err := all[1].api.Resume(t.Context(), "acme", "agent", ask); err != nil || !held(i) {
		t.Errorf("a dry run: %+v %v", i, err)
	}
	ask.DryRun = false
	if i, err := all[1].api.Resume(t.Context(), "acme", "agent", ask); err != nil || held(i) {
		t.Errorf("%+v %v", i, err)
	}
	for _, p := range all {
		p.destination("no hold", func(i *api.DestinationItem) bool { return !held(i) })
	}
	agent.wait(t, sent)
	audit, err := all[1].api.Changes(t.Context(), api.AuditFilter{Limit: 1})
	if err != nil || len(audit.Items) != 1 || audit.Items[0].Reason != ask.Reason || audit.Items[0].Outcome != api.OutcomeDone {
		t.Errorf("the audit: %+v %v", audit.Items, err)
	}
	for _, p := range all {
		p.clean()
	}
}

// TestProcessWithoutStreamHasNoDestinations and says so.
func TestProcessWithoutStreamHasNoDestinations(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	intake := deploy(t, agent.URL, nil, true).run(config.RoleIntake)
	if _, err := intake.api.Destinations(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "--roles stream") {
		t.Error(err)
	}
}

// TestRoomForAllDestinations: a subscription has room for all attempts that its destinations take at once, each counted once.
func TestRoomForAllDestinations(t *testing.T) {
	to := func(names ...string) *config.Subscription {
		sub := &config.Subscription{}
		for _, name := range names {
			sub.Actions = append(sub.Actions, config.Action{To: name})
		}
		return sub
	}
	c := &config.Config{Destinations: map[string]*config.Destination{"pagers": {Concurrency: 500, Teams: []string{"acme"}}}, Teams: map[string]*config.Team{"acme": {
		Destinations:  map[string]*config.Destination{"a": {Concurrency: 300}, "b": {Concurrency: 64}, "c": {Concurrency: 1000}},
		Subscriptions: map[string]*config.Subscription{"both": to("a", "b", "a"), "small": to("b"), "all": to("a", "b", "c"), "shared": to("b", "pagers", "pagers")},
	}}}
	for name, want := range map[string]int{"both": 364, "small": 256, "all": 1364, "shared": 564} {
		if got := inFlight(c, nameInTeam{"acme", name}); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// The rate of the file is told, of the destinations that have one.
func TestDestinationsTellTheirRates(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")
	for _, tt := range []struct {
		rate string
		want *api.RateItem
	}{{"", nil}, {"rate: {limit: 90, per: 60s, burst: 5, on_limit: error}, ", &api.RateItem{Limit: 90, Per: "1m", Burst: 5, OnLimit: "error"}}} {
		r := &deployment{t: t, text: strings.Replace(text, "agent: {", "agent: {"+tt.rate, 1)}
		a := r.app(config.RoleStream)
		item, err := destinationsAPI{a.stream}.Destination(t.Context(), "acme", "agent")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, item.Rate); d != "" {
			t.Errorf("%q: %s", tt.rate, d)
		}
		a.waits.close(t.Context())
	}
}
