package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestAlerts: each alert with its state, value, runbook and silences.
func TestAlerts(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/alerts")
	s.says("p", "1 fire, 0 pend")
	s.says("tr", "ForebayLag warning", "firing", "subscription acme.fulfil, topic events.acme.orders", "612.5", "is 10m 12s behind", "Runbook", "Silence…")
	s.says("tr", "ForebayDeadLetter", "quiet")
	s.says("tr", "7", "ForebayDeadLetter", "acme", "ada", "the shop moves", "End…")
	if got := s.link("Runbook"); got != "https://github.com/forebay-io/forebay/blob/main/deploy/runbooks/ForebayLag.md" {
		t.Errorf("the runbook is at %s", got)
	}
	for i := range f.alerts.Items {
		f.alerts.Items[i].State = api.AlertOff
	}
	get(t, h, "/console/alerts").says("p", "This process evaluates no alert")
	f.alerts.Silences = nil
	s = get(t, f.handler(t, func(c *api.Config) { c.Inbox = nil }), "/console/alerts")
	s.says("p", "Nothing is silenced.")
	if strings.Contains(text(s.root), "Silence…") {
		t.Error("a process without a ledger offers to silence")
	}
}

// TestSilence: by a click, with a reason and an end, once, and ended by another.
func TestSilence(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	to := get(t, h, "/console/alerts").link("Silence…")
	s := get(t, h, to)
	s.says("p", "no process sends ForebayLag for team acme", "Nothing was done yet.")
	s.says("button", "Silence ForebayLag")
	form := url.Values{"after": {"7"}, "seconds": {"28800"}, "by": {"ada"}, "reason": {"the shop is slow today"}}
	if s := post(t, h, to, form); s.status != http.StatusSeeOther || s.header.Get("Location") != "/console/alerts" {
		t.Fatalf("%d %s", s.status, text(s.root))
	}
	want := []api.SilenceRequest{{Team: "acme", Seconds: 28800, Reason: "the shop is slow today", By: "ada"}}
	if diff := cmp.Diff(want, f.silenced); diff != "" {
		t.Error(diff)
	}
	if s := post(t, h, to, form); s.status != http.StatusConflict || len(f.silenced) != 1 {
		t.Errorf("sent twice: %d, %d silences", s.status, len(f.silenced))
	} else {
		s.says("p", "nothing was done: since this was shown, ada has silenced it until")
		s.says("p", "It is silenced already, for team acme")
	}
	form.Del("after")
	if s := post(t, h, to, form); s.status != http.StatusBadRequest || len(f.silenced) != 1 {
		t.Errorf("without the newest silence: %d", s.status)
	}
	if s := get(t, h, "/console/alerts/ForebayNothing/silence"); s.status != http.StatusNotFound {
		t.Errorf("no such alert: %d", s.status)
	}

	end := "/console/alerts/silences/101/end"
	get(t, h, end).says("p", "Once the silence is ended, an alert that fires is sent at once")
	if s := post(t, h, end, url.Values{}); s.status != http.StatusBadRequest || len(f.alerts.Silences) != 2 {
		t.Errorf("without a reason: %d", s.status)
	}
	if s := post(t, h, end, url.Values{"reason": {"it is fast again"}}); s.status != http.StatusSeeOther || len(f.alerts.Silences) != 1 {
		t.Errorf("%d %s", s.status, text(s.root))
	}
	if s := post(t, h, end, url.Values{"reason": {"once more"}}); s.status != http.StatusNotFound {
		t.Errorf("ended twice: %d", s.status)
	}
}

// TestAlertsOfATeam: who is of one team sees and silences what is that team's.
func TestAlertsOfATeam(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	if said := text(g.as("eve").get("/console/alerts").root); strings.Contains(said, "acme") || !strings.Contains(said, "ForebayDeadLetter") {
		t.Errorf("of another team: %s", said)
	}
	s := g.as("ann").get("/console/alerts")
	s.says("tr", "ForebayDeadLetter", "Silence for acme…")
	s.says("tr", "the shop moves", "End…")
	if said := text(g.as("viv").get("/console/alerts").root); strings.Contains(said, "Silence…") || strings.Contains(said, "End…") || !strings.Contains(said, "the shop moves") {
		t.Errorf("a viewer: %s", said)
	}
	g.alerts.Silences[0].Team = ""
	if s := g.as("ann").get("/console/alerts"); strings.Contains(text(s.root), "End…") {
		t.Error("a silence of all teams can be ended by somebody of one")
	}
	if s := g.as("eve").get("/console/alerts/silences/7/end"); s.status != http.StatusOK || strings.Contains(text(s.root), "End silence 7") {
		t.Errorf("%d %s", s.status, text(s.root))
	}
	g.alerts.Silences[0].Team = "acme"
	if s := g.as("eve").get("/console/alerts/silences/7/end"); s.status != http.StatusNotFound {
		t.Errorf("a silence of another team: %d", s.status)
	}
}
