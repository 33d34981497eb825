package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/samples"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// variables are what the examples ask for.
var variables = map[string]string{
	"FOREBAY_POSTGRES_URL": "postgres://127.0.0.1:1/none", "GITHUB_SECRET": "github-secret-of-examples", "GITHUB_TOKEN": "github_pat_0000",
	"MONITOR_SECRET": "monitor-secret-of-examples", "PAGERDUTY_ROUTING_KEY": "0123456789abcdef0123456789abcdef",
	"STRIPE_SECRET": "whsec_stripe-secret", "SLACK_TOKEN": "xoxb-0000", "SLACK_CHANNEL": "C0123456789",
}

func exampleText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/examples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExamplesCheck: every example is right as it is.
func TestExamplesCheck(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../../../deploy/examples")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".yaml")
		if !ok {
			continue
		}
		n++
		c, err := config.Load(config.Options{Path: e.Name(), Data: []byte(exampleText(t, name)),
			Lookup: func(v string) (string, bool) { value, ok := variables[v]; return value, ok }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if problems := Check(c, nil); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if tried, err := CheckSamples(c); err != nil || len(tried.Problems) > 0 {
			t.Errorf("%s: %v, %v", name, tried, err)
		}
		if notes := c.Notes(); len(notes) > 0 {
			t.Errorf("%s: %v", name, notes)
		}
	}
	if n != 3 {
		t.Errorf("%d examples", n)
	}
}

// outside is an API that an example calls: it remembers the calls that act and answers them all.
type outside struct {
	*httptest.Server
	faults *sinktest.Faults

	mu    sync.Mutex
	calls []map[string]any // the bodies, with the path as "path"
	made  []time.Time      // of each call
	token string           // GitHub's, without which it lets nobody in; empty: any
	lag   time.Duration    // how long lists lack what was made
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	o.faults = &sinktest.Faults{Fake: o}
	o.Server = httptest.NewUnstartedServer(o.faults)
	o.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	o.Start()
	t.Cleanup(o.Close)
	return o
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if o.token != "" && (r.Header.Get("Authorization") != "Bearer "+o.token || r.Header.Get("Accept") != "application/vnd.github+json") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch {
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/repos/"):
		_ = json.NewEncoder(w).Encode(o.of(r.URL.Path))
		return
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "messages": o.of("/chat.postMessage")})
		return
	}
	call := map[string]any{}
	_ = json.Unmarshal(body, &call)
	call["path"] = r.URL.Path
	o.calls, o.made = append(o.calls, call), append(o.made, time.Now())
	if r.URL.Path == "/v2/enqueue" {
		w.WriteHeader(http.StatusAccepted)
	}
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// of are the things that were made by calls to a path.
func (o *outside) of(path string) []map[string]any {
	list := []map[string]any{}
	for i, c := range o.calls {
		if c["path"] == path && time.Since(o.made[i]) >= o.lag {
			list = append(list, c)
		}
	}
	return list
}

func (o *outside) all() []map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

// example runs an example as it is, but for the addresses of its parts.
func example(t *testing.T, name, kind string, o *outside) *process {
	t.Helper()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	edits := []string{
		`["127.0.0.1:9092"]`, fmt.Sprintf("[%q], session_timeout: 6s", r.cluster.ListenAddrs()[0]),
		"teams:\n  acme:\n", "listen: {intake: \"127.0.0.1:0\", operator: \"127.0.0.1:0\"}\ntopics: {partitions: 3, replication: 1, retention: 1d}\nteams:\n  acme:\n",
		"type: " + kind + "\n", fmt.Sprintf("type: %s\n        base_url: %s\n        allow_networks: [127.0.0.0/8]\n", kind, o.URL),
		`url: "${env:FOREBAY_POSTGRES_URL}"`, newLedger(t).String(),
	}
	for v, value := range variables {
		edits = append(edits, "${env:"+v+"}", value)
	}
	r.text = strings.NewReplacer(edits...).Replace(exampleText(t, name))
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)
	return p
}

// sampleRequest is a request of a sample's kind with this body.
func sampleRequest(body []byte, headers ...string) *verify.Request {
	r := &verify.Request{Method: "POST", Body: body, Header: http.Header{"Content-Type": {"application/json"}}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// edited is a sample's body with values set at paths such as data.object.amount_due.
func edited(t *testing.T, sample string, values map[string]any) []byte {
	t.Helper()
	s, err := samples.Lookup(sample)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	d := json.NewDecoder(bytes.NewReader(s.Body))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		t.Fatal(err)
	}
	for path, value := range values {
		at, steps := body, strings.Split(path, ".")
		for _, step := range steps[:len(steps)-1] {
			at = at[step].(map[string]any)
		}
		at[steps[len(steps)-1]] = value
	}
	out, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExampleIssueTriage opens an issue that GitHub delivers twice, whose comment's answer is lost and which its list lacks for a while:
// one label call, one comment, in order.
func TestExampleIssueTriage(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	o.token, o.lag = variables["GITHUB_TOKEN"], time.Second
	o.faults.Break(nil, &sinktest.AfterActing) // the comment's
	p := example(t, "issue-triage", "github", o)
	opened := edited(t, "github/issues.labeled", map[string]any{"action": "opened", "issue.title": "Panic at start"})
	labeled := edited(t, "github/issues.labeled", nil)
	p.accepted("github", variables["GITHUB_SECRET"], sampleRequest(opened, "X-GitHub-Event", "issues", "X-GitHub-Delivery", "d-1"))
	p.accepted("github", variables["GITHUB_SECRET"], sampleRequest(labeled, "X-GitHub-Event", "issues", "X-GitHub-Delivery", "d-2"))
	p.accepted("github", variables["GITHUB_SECRET"], sampleRequest(opened, "X-GitHub-Event", "issues", "X-GitHub-Delivery", "d-1"))
	p.item("triage", "github", bodyID(opened), "applied", "done")
	p.item("triage", "github", bodyID(labeled), "filtered", "")
	p.repeated("triage", "github", bodyID(opened), 1)

	d, err := p.api.Item(t.Context(), "acme", "triage", "github", bodyID(opened))
	if err != nil {
		t.Fatal(err)
	}
	answer := d.Actions[1]
	if answer.Name != "answer" || len(answer.Attempts) != 2 || answer.Attempts[0].Class != "network" || !strings.Contains(answer.Attempts[1].Response, "of an earlier attempt is there") {
		t.Errorf("%+v", answer)
	}
	want := []map[string]any{
		{"path": "/repos/Codertocat/Hello-World/issues/1/labels", "labels": []any{"needs-triage", "bug"}},
		{"path": "/repos/Codertocat/Hello-World/issues/1/comments",
			"body": "Thank you, @Codertocat. Somebody will look at #1 within two working days.\n\n\n<!-- forebay:" + answer.ID + " -->"},
	}
	if diff := cmp.Diff(want, o.all()); diff != "" {
		t.Error(diff)
	}
	p.clean()
}

// TestExampleIncidentPage: down, up, and a down that comes too late; PagerDuty is away for the first call.
func TestExampleIncidentPage(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	away := sinktest.Refused(http.StatusServiceUnavailable)
	o.faults.Break(&away)
	p := example(t, "incident-page", "pagerduty", o)
	send := func(id, check, state string, minute int) {
		body := fmt.Appendf(nil, `{"id":%q,"check":%q,"state":%q,"message":"after %d min","at":"2026-03-01T10:%02d:00Z"}`, id, check, state, minute, minute)
		p.accepted("monitor", variables["MONITOR_SECRET"], sampleRequest(body))
	}
	send("a", "api/eu", "down", 1)
	p.item("incidents", "monitor", "a", "applied", "done")
	send("c", "api/eu", "up", 3)
	p.item("incidents", "monitor", "c", "applied", "done")
	send("b", "api/eu", "down", 2)
	send("a", "api/eu", "down", 1)
	p.item("incidents", "monitor", "b", "stale", "")

	event := func(action, id, state string, minute int) map[string]any {
		at := fmt.Sprintf("2026-03-01T10:%02d:00Z", minute)
		message := fmt.Sprintf("after %d min", minute)
		return map[string]any{
			"path": "/v2/enqueue", "routing_key": variables["PAGERDUTY_ROUTING_KEY"], "event_action": action, "dedup_key": "/acme/monitor/api%2Feu", "client": "Forebay",
			"payload": map[string]any{
				"summary": "api/eu is " + state + ": " + message, "source": "/acme/monitor", "severity": "error", "timestamp": at,
				"custom_details": map[string]any{"id": id, "check": "api/eu", "state": state, "message": message, "at": at},
			},
		}
	}
	if diff := cmp.Diff([]map[string]any{event("trigger", "a", "down", 1), event("resolve", "c", "up", 3)}, o.all()); diff != "" {
		t.Error(diff)
	}
	p.clean()
}

// TestExamplePaymentFollowUp: a payment fails, the answer of Slack is cut off, it is paid, and an older failure comes late.
func TestExamplePaymentFollowUp(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	o.faults.Break(&sinktest.WhileAnswering)
	p := example(t, "payment-follow-up", "slack", o)
	created := time.Now().Unix()
	send := func(id, typ string, second int64) {
		body := edited(t, "stripe/invoice.paid", map[string]any{
			"id": id, "type": typ, "created": created + second, "data.object.amount_due": 129905, "data.object.attempt_count": second,
			"data.object.customer_name": "<!channel> & Sons", "data.object.hosted_invoice_url": "https://invoice.stripe.com/i/1?s=ap",
		})
		p.accepted("stripe", variables["STRIPE_SECRET"], sampleRequest(body))
	}
	send("evt_2", "invoice.payment_failed", 2)
	p.item("payments", "stripe", "evt_2", "applied", "done")
	send("evt_3", "invoice.paid", 3)
	p.item("payments", "stripe", "evt_3", "applied", "done")
	send("evt_1", "invoice.payment_failed", 1)
	p.item("payments", "stripe", "evt_1", "stale", "")
	send("evt_4", "customer.created", 4)
	p.item("payments", "stripe", "evt_4", "filtered", "")

	var texts []string
	for _, call := range o.all() {
		if call["channel"] != variables["SLACK_CHANNEL"] {
			t.Errorf("%v", call)
		}
		texts = append(texts, call["text"].(string))
	}
	rest := " 1299.05 usd of &lt;!channel&gt; &amp; Sons (attempt %d), <https://invoice.stripe.com/i/1?s=ap|3DAA104C-0001>"
	if diff := cmp.Diff([]string{"Payment failed:" + fmt.Sprintf(rest, 2), "Paid:" + fmt.Sprintf(rest, 3)}, texts); diff != "" {
		t.Error(diff)
	}
	// An amount is in the currency's smallest unit, which is not always a hundredth.
	for n, amount := range []struct {
		currency string
		due      int
		text     string
	}{{"eur", 7, "0.07 eur"}, {"jpy", 129905, "129905 jpy"}, {"kwd", 129905, "129.905 kwd"}, {"kwd", 4, "0.004 kwd"}} {
		id := fmt.Sprintf("evt_1%d", n)
		p.accepted("stripe", variables["STRIPE_SECRET"], sampleRequest(edited(t, "stripe/invoice.paid", map[string]any{
			"id": id, "type": "invoice.paid", "created": created + 10 + int64(n), "data.object.amount_due": amount.due, "data.object.currency": amount.currency,
		})))
		p.item("payments", "stripe", id, "applied", "done")
		if all := o.all(); !strings.HasPrefix(all[len(all)-1]["text"].(string), "Paid: "+amount.text+" of ") {
			t.Errorf("%+v", all[len(all)-1])
		}
	}
	d, err := p.api.Item(t.Context(), "acme", "payments", "stripe", "evt_2")
	if err != nil || len(d.Actions[0].Attempts) != 2 || !strings.Contains(d.Actions[0].Attempts[1].Response, "of an earlier attempt is there") {
		t.Errorf("%+v, %v", d, err)
	}
	p.clean()
}
