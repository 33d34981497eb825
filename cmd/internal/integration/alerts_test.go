package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// pager is a receiver of alerts: it keeps what it is told.
type pager struct {
	*httptest.Server
	mu   sync.Mutex
	told []page
}

// page is a message about an alert.
type page struct {
	Status, Alert, Severity, Summary, Team string
	Labels                                 map[string]string
	Since                                  time.Time
	RunbookURL                             string `json:"runbook_url"`

	event string
}

func newPager(t *testing.T) *pager {
	p := &pager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		told := page{event: r.Header.Get("Ce-Type")}
		if err != nil || json.Unmarshal(body, &told) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		p.told = append(p.told, told)
		p.mu.Unlock()
	}))
	t.Cleanup(p.Close)
	return p
}

// of returns what was told of an alert.
func (p *pager) of(alert string) (list []page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.told {
		if m.Alert == alert {
			list = append(list, m)
		}
	}
	return list
}

// wait waits until so much was told of an alert, and returns the last of it.
func (p *pager) wait(t *testing.T, alert string, n int) page {
	t.Helper()
	if !rig.Until(90*time.Second, func() bool { return len(p.of(alert)) >= n }) {
		t.Fatalf("of %s was told %+v, want %d messages", alert, p.of(alert), n)
	}
	return p.of(alert)[n-1]
}

// alertsOf adds alerts to a deployment, which are told to a pager.
func (r *deployment) alertsOf(p *pager) {
	r.edit("teams:\n  "+r.team+":\n", "alerts:\n  every: 1s\n  receivers:\n    oncall: {type: http, url: \""+p.URL+"/alerts\", allow_networks: [127.0.0.0/8]}\nteams:\n  "+r.team+":\n")
}

// TestAlertReachesItsReceiver: a destination refuses, an entity stands still. Who knows of that has no process tell of it, for a time, with a
// reason; it is listed meanwhile. Once the silence is ended, two processes tell it once; mended and replayed, it is told once that it has ended.
func TestAlertReachesItsReceiver(t *testing.T) {
	t.Parallel()
	r, pager := deploy(t, rig.Fake(t), options{}), newPager(t)
	r.alertsOf(pager)
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(call) bool { return !mended.Load() })
	p := r.serve("intake,stream")
	r.serve("stream")
	silence := func(args ...string) (s struct {
		ID                  int64
		Alert, Team, Reason string
	}) {
		t.Helper()
		if err := json.Unmarshal(r.ask(p, append([]string{"alerts", "-o", "json"}, args...)...), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	made := silence("silence", "ForebayLaneParked", "--team", r.team, "--for", "1h", "--reason", "it is known")
	if made.ID == 0 || made.Team != r.team || made.Reason != "it is known" {
		t.Errorf("%+v", made)
	}
	r.deliver(issue(7, 1, 1))
	r.waitDead(p, 1)
	if first := pager.wait(t, "ForebayDeadLetter", 1); first.Labels["destination"] != r.team+"/agent" {
		t.Errorf("%+v", first)
	}
	silenced := func() bool { // listed as such, it was found and not told
		var list struct {
			Items []struct {
				Alert         string
				SilencedUntil *time.Time `json:"silenced_until"`
			}
		}
		err := p.get("/v1/alerts", nil, &list)
		for _, i := range list.Items {
			if i.Alert == "ForebayLaneParked" {
				return err == nil && i.SilencedUntil != nil && time.Until(*i.SilencedUntil) > 50*time.Minute
			}
		}
		return false
	}
	until(t, "the alert fires and is silenced", silenced)
	if told := pager.of("ForebayLaneParked"); len(told) != 0 {
		t.Errorf("silenced, and told %+v", told)
	}
	if ended := silence("unsilence", "ForebayLaneParked", "--reason", "mended"); ended.ID != made.ID {
		t.Errorf("%+v", ended)
	}
	began := pager.wait(t, "ForebayLaneParked", 1)
	if began.Status != "firing" || began.event != "forebay.alert.firing" || began.Severity != "warning" || began.Team != r.team || began.Labels["subscription"] != r.team+".triage" ||
		began.Since.IsZero() || began.RunbookURL != "https://github.com/forebay-io/forebay/blob/main/deploy/runbooks/ForebayLaneParked.md" {
		t.Errorf("%+v", began)
	}
	mended.Store(true)
	if got, err := r.dlq(p, "replay", "--team", r.team, "--reason", "mended"); err != nil || len(got) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	if ended := pager.wait(t, "ForebayLaneParked", 2); ended.Status != "resolved" || ended.event != "forebay.alert.resolved" || !ended.Since.Equal(began.Since) {
		t.Errorf("%+v", ended)
	}
	for _, alert := range []string{"ForebayLaneParked", "ForebayDeadLetter"} {
		var statuses []string
		for _, m := range pager.of(alert) {
			statuses = append(statuses, m.Status)
		}
		if want := []string{"firing", "resolved"}[:len(statuses)]; !slices.Equal(statuses, want) {
			t.Errorf("of %s was told %v", alert, statuses)
		}
	}
	var kept []string
	for line := range strings.Lines(string(r.ask(p, "audit", "list", "-o", "jsonl"))) {
		var row struct{ Action, Object, Reason, Outcome string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, strings.Join([]string{row.Action, row.Object, row.Reason, row.Outcome}, " "))
	}
	if want := "alert.silence ForebayLaneParked it is known done"; !slices.Contains(kept, want) {
		t.Errorf("the audit has %q, not %q", kept, want)
	}
}
