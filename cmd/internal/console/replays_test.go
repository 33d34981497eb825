package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// A list that another ledger has a part of says so, and whose: else it looks whole.
func TestListsSayWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	f.elsewhere = []string{"acme.billing", "acme.refunds"}
	for _, list := range []string{"inbox", "gaps", "dlq", "approvals", "replays"} {
		get(t, h, "/console/"+list).says("p", "Without acme.billing, acme.refunds: another process has that ledger")
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	f.plan.Events, f.plan.Statuses = []string{"acme/fulfil/orders/e-1", "acme/fulfil/orders/e-2"}, []string{"filtered", "discarded"}
	s := get(t, h, "/console/replays?team=acme")
	s.says("tr", "acme.fulfil", "fill", "planned", "30", "by ada")
	s = get(t, h, s.link("1"))
	s.says("p", "30 events run, with 60 actions at most, in 3s at 10 a second; with more than 5 dead letters it ends. Nothing was done yet.")
	s.says("tr", "order.changed", "28")
	s.says("div", "Statuses", "filtered, discarded")
	if s.link("acme/fulfil/orders/e-2") != "/console/event?id=acme%2Ffulfil%2Forders%2Fe-2" {
		t.Error("no way to an event that the plan names")
	}
	s.says("button", "Cancel replay 1")
	form := values(s)
	if s := post(t, h, replayURL+"/start", form); s.status != http.StatusBadRequest || f.plan.State != "planned" {
		t.Errorf("without a reason: %d", s.status)
	}
	typed := values(post(t, h, replayURL+"/cancel", url.Values{"by": {"jo"}})) // of the last form
	if typed.Get("by") != "jo" {
		t.Errorf("the form has forgotten what was typed: %v", typed)
	}
	form.Set("reason", "the filter was wrong")
	for _, want := range []int{http.StatusSeeOther, http.StatusConflict} {
		if s := post(t, h, replayURL+"/start", form); s.status != want {
			t.Errorf("started: %d, want %d", s.status, want)
		}
	}
	f.plan.Range.Passed, f.plan.Applied, f.plan.Late, f.plan.Done, f.plan.Errors = 50, 20, 2, 7, 1
	s = get(t, h, replayURL)
	s.says("div", "Started", "by console: the filter was wrong")
	s.says("p", "25 % passed: 22 ran (2 late), 7 done before, 0 stale, 0 wait, 0 rejected; 1 dead letters.")
	if bar := s.all("progress"); len(bar) != 1 || attr(bar[0], "value") != "50" || attr(bar[0], "max") != "200" {
		t.Error("the bar is not at 50 of 200")
	}
	if s.link("Look again") != replayURL {
		t.Error("it cannot be looked at again")
	}
	form.Set("reason", "too many die")
	if s := post(t, h, replayURL+"/cancel", form); s.status != http.StatusSeeOther {
		t.Errorf("cancelled: %d", s.status)
	}
	f.plan.Left = "forebay replay plan --subscription acme.fulfil --from-offset 1=50"
	s = get(t, h, replayURL)
	s.says("div", "Cancelled", "by console: too many die")
	s.says("p", "Left: forebay replay plan --subscription acme.fulfil --from-offset 1=50")
	if len(s.all("form")) != 0 {
		t.Error("what has ended can be ended again")
	}
	if s := get(t, h, "/console/replays/x"); s.status != http.StatusBadRequest {
		t.Errorf("no id: %d", s.status)
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.plan.Mode, f.plan.State, f.plan.StartedAt = "shadow", "done", &at
	f.plan.Applied, f.plan.Stale, f.plan.Range.Passed = 12, 3, 200
	f.plan.Shadow = []api.ReplayShadow{{Type: "order.changed", Was: "filtered", Would: "applied", Differs: "new", Events: 12}}
	f.plan.Differences = []api.ReplayDifference{{Event: "acme/fulfil/orders/e-2", Type: "order.changed", Entity: "o-1", Was: "filtered", Would: "applied", Differs: "new", Runs: "run to acme/agent"}}
	h := f.handler(t, nil)
	s := get(t, h, replayURL)
	s.says("p", "100 % passed: 12 would run (0 late), 3 stale, 0 wait, 0 rejected.")
	s.says("tr", "order.changed", "filtered", "applied", "did not run, and would", "12")
	s.says("tr", "o-1", "run to acme/agent")
	get(t, h, s.link("acme/fulfil/orders/e-2")).says("h1", "Event")
}
