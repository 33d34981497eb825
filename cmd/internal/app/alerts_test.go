package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// What Slack and PagerDuty are told of an alert without any params but the channel: what it is, and the page about it. For PagerDuty the
// alert with its labels is the incident, which the second message ends.
func TestReceiversAreToldInWords(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string][]map[string]any{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body map[string]any
		_ = json.Unmarshal(text, &body)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = append(got[r.URL.Path], body)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v2/enqueue" {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, `{"ok":true,"status":"success","ts":"1.2","channel":"C0123456789"}`)
	}))
	t.Cleanup(api.Close)
	file, err := config.Load(config.Options{Path: "forebay.yaml", Data: fmt.Appendf(nil, `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://x@127.0.0.1/x"}
alerts:
  receivers:
    room: {type: slack, token: xoxb-1, base_url: %[1]q, params: {channel: C0123456789}, allow_networks: [127.0.0.0/8]}
    oncall: {type: pagerduty, routing_key: key, base_url: %[1]q, allow_networks: [127.0.0.0/8]}
`, api.URL)})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"firing", "resolved"} {
		body := `{"status":"` + status + `","alert":"ForebayLag","severity":"warning","summary":"acme.fulfil is behind <!here>.","labels":{"subscription":"acme.fulfil"},"runbook_url":"https://x.example/ForebayLag.md"}`
		for _, name := range []string{"room", "oncall"} {
			s, err := newSink(file, file.Alerts.Destination(name), nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			a := sink.Action{ID: schemas.NewActionID("_forebay.alerts", 0, "/_forebay/alerts", status, name), Attempt: 1, Event: &schemas.Event{ID: status, Source: "/_forebay/alerts",
				Type: "forebay.alert." + status, Entity: `ForebayLag{subscription="acme.fulfil"}`, Time: time.Unix(0, 0).UTC(), Data: []byte(body)}}
			if _, err := s.Do(t.Context(), a); err != nil {
				t.Fatal(name, err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var texts, events []string
	for path, calls := range got {
		for _, c := range calls {
			if path == "/v2/enqueue" {
				text, _ := json.Marshal(c)
				events = append(events, string(text))
			} else {
				texts = append(texts, c["text"].(string))
			}
		}
	}
	if diff := cmp.Diff([]string{"Firing, warning: *ForebayLag*\nacme.fulfil is behind &lt;!here&gt;.\nhttps://x.example/ForebayLag.md",
		"Resolved, warning: *ForebayLag*\nacme.fulfil is behind &lt;!here&gt;.\nhttps://x.example/ForebayLag.md"}, texts); diff != "" {
		t.Error(diff)
	}
	event := func(action string) string {
		return `{"client":"Forebay","dedup_key":"/_forebay/alerts/ForebayLag{subscription=\"acme.fulfil\"}","event_action":"` + action + `","links":[{"href":"https://x.example/ForebayLag.md","text":"Runbook"}],` +
			`"payload":{"class":"ForebayLag","custom_details":{"labels":{"subscription":"acme.fulfil"}},"severity":"warning","source":"/_forebay/alerts","summary":"ForebayLag: acme.fulfil is behind \u003c!here\u003e.","timestamp":"1970-01-01T00:00:00Z"},"routing_key":"key"}`
	}
	if diff := cmp.Diff([]string{event("trigger"), event("resolve")}, events); diff != "" {
		t.Error(diff)
	}
}

// A process is known by its host and the port that no other process there has.
func TestInstanceOfAlerts(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(fmt.Sprintf(deploymentText, "127.0.0.1:1", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:1"), `operator: "127.0.0.1:0"`, `operator: "127.0.0.1:9080"`, 1)
	r := &deployment{t: t, text: text}
	a := &App{}
	a.current.Store(r.load(config.RoleIntake))
	if got := a.instance(); got != host+":9080" {
		t.Errorf("it is %s", got)
	}
}
