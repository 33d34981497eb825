package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/callback"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// taker is a destination that takes every action with 202, and keeps how it is to be finished.
type taker struct {
	*httptest.Server
	mu    sync.Mutex
	calls []http.Header
}

func newTaker(t *testing.T) *taker {
	a := &taker{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.calls = append(a.calls, r.Header)
		a.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(a.Close)
	return a
}

// wait returns the calls for an event once there are n of them.
func (a *taker) wait(t *testing.T, event string, n int) []http.Header {
	t.Helper()
	var calls []http.Header
	if !rig.Until(30*time.Second, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		calls = nil
		for _, h := range a.calls {
			if h.Get("Ce-Id") == event {
				calls = append(calls, h)
			}
		}
		return len(calls) >= n
	}) {
		t.Fatalf("%d calls for %s, want %d", len(calls), event, n)
	}
	return calls
}

const tokenSecret = "the-server's-secret-of-32-characters-and-more"

// withAgents is a deployment whose destination may finish later.
func withAgents(t *testing.T, r *deployment, long string) (address string) {
	t.Helper()
	address = rig.FreeAddress(t)
	r.text = strings.NewReplacer(
		`operator: "127.0.0.1:0"}`, fmt.Sprintf(`operator: "127.0.0.1:0", agents: %q}`+"\nagents: {public_url: \"http://%s\", secrets: [%q]}", address, address, tokenSecret),
		"retry: {", "long: "+long+", retry: {",
	).Replace(r.text)
	return address
}

// ask asks a URL with a token, and gives status and body.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// getUntil asks until the answer is there.
func getUntil(t *testing.T, url, token string, ok func(body string) bool) string {
	t.Helper()
	var status int
	var body string
	if !rig.Until(20*time.Second, func() bool {
		status, body = ask(t, "GET", url, token, "")
		return status != http.StatusOK || ok(body)
	}) || status != http.StatusOK {
		t.Fatalf("%d, still %s", status, body)
	}
	return body
}

// statusOf posts an order and gives the status_url of the answer.
func (p *process) statusOf(name string, rev int) string {
	p.t.Helper()
	status, body := p.post("orders", "orders-secret", order(name, rev))
	var answer struct {
		ID        string `json:"id"`
		StatusURL string `json:"status_url"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusAccepted || answer.ID != fmt.Sprintf("%s-%d", name, rev) {
		p.t.Fatalf("%d %s %v", status, body, err)
	}
	return answer.StatusURL
}

func is(status string) func(string) bool {
	return func(body string) bool { return strings.Contains(body, `"status":"`+status+`","subscriptions"`) }
}

// From 202 of the intake to done, with a destination that finishes later: its lane waits, others do not, the token opens one
// attempt alone, and nothing shows it.
func TestLongWorkFromIntakeToResult(t *testing.T) {
	t.Parallel()
	a := newTaker(t)
	r := deploy(t, a.URL, database(t), true)
	address := withAgents(t, r, "{deadline: 10m, heartbeat: 5m}")
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	first := p.statusOf("o", 1)
	if !strings.HasPrefix(first, "http://"+address+"/v1/events/acme/orders/o-1?token=fbe1_") {
		t.Fatal(first)
	}
	second, other := p.statusOf("o", 2), p.statusOf("p", 1)
	call, beside := a.wait(t, "o-1", 1)[0], a.wait(t, "p-1", 1)[0]
	url, token := call.Get("Forebay-Result-Url"), call.Get("Forebay-Action-Token")
	action := strings.TrimSuffix(url, "/result")
	if action != "http://"+address+"/v1/actions/"+call.Get("Idempotency-Key") || call.Get("Forebay-Deadline") != "600" || call.Get("Forebay-Heartbeat") != "300" {
		t.Errorf("%v", call)
	}
	getUntil(t, first, "", is("processing"))
	getUntil(t, second, "", is("received"))
	body := getUntil(t, action, token, func(body string) bool { return strings.Contains(body, `"status":"processing"`) })
	if !strings.Contains(body, `"result_by":"`) || !strings.Contains(body, `"heartbeat_by":"`) {
		t.Error(body)
	}
	if status, body := ask(t, "POST", call.Get("Forebay-Heartbeat-Url"), token, ""); status != 200 {
		t.Error(status, body)
	}
	if status, body := ask(t, "POST", beside.Get("Forebay-Result-Url"), token, `{"status":"done"}`); status != 401 {
		t.Errorf("the token of another action: %d %s", status, body)
	}
	for i, tt := range []struct {
		body string
		want int
	}{{`{"status":"done","code":200,"response":"merged"}`, 202}, {`{"status":"done","code":200,"response":"merged"}`, 200}, {`{"status":"dead"}`, 409}} {
		if status, body := ask(t, "POST", url, token, tt.body); status != tt.want {
			t.Errorf("%d: %d %s, want %d", i, status, body, tt.want)
		}
	}
	getUntil(t, first, "", is("done"))
	a.wait(t, "o-2", 1) // it was behind o-1
	getUntil(t, other, "", is("processing"))
	if body := getUntil(t, action, token, func(string) bool { return true }); !strings.Contains(body, `"result":{"status":"done","state":"applied"}`) {
		t.Error(body)
	}
	if status, body := ask(t, "POST", url+"?x", token, `{"status":"failed"}`); status != 409 {
		t.Errorf("after the end: %d %s", status, body)
	}
	if got := len(a.wait(t, "o-1", 1)); got != 1 {
		t.Errorf("%d calls", got)
	}
	if status, body := ask(t, "GET", "http://"+p.app.Addr("operator").String()+"/metrics", "", ""); status != 200 ||
		!strings.Contains(body, `forebay_lane_long_total{destination="acme/agent",end="done",subscription="acme.fulfil"} 1`) ||
		!strings.Contains(body, `forebay_agents_requests_total{question="result",status="202"} 1`) {
		t.Error("the metrics do not tell of it")
	}
	p.clean()
}

// A result is taken by any process of the stream role. One without it says where to ask.
func TestProcessWithoutLedgerSaysWhereToAsk(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", "", true)
	address := withAgents(t, r, "{deadline: 10m}")
	p := r.start(config.RoleIntake)
	p.ready()
	if p.app.Addr("agents") != nil {
		t.Error("the intake listens for agents")
	}
	url := p.statusOf("o", 1)
	path := strings.TrimPrefix(url, "http://"+address)
	for method, path := range map[string]string{"GET": path, "POST": "/v1/actions/act_1/result"} {
		status, body := ask(t, method, "http://"+p.app.Addr("intake").String()+path, "", "")
		if status != http.StatusMisdirectedRequest || !strings.Contains(body, "has no ledger; ask http://"+address) || !strings.Contains(body, "--roles stream") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	p.clean()
}

// Until Postgres has answered there is nothing to say.
func TestLedgerIsNotOpenYet(t *testing.T) {
	t.Parallel()
	h, err := callback.New(callback.Config{Keys: keysOf(tokenSecret), Ledger: reportLedger{&streams{}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	for path, token := range map[string]string{
		"/v1/actions/act_1": keysOf(tokenSecret).Action([16]byte{1}, ledger.AttemptRef{Fence: 1, LaneSeq: 1, Attempt: 1, Epoch: 1}, "act_1").Reveal(),
		"/v1/events/a/b/c":  keysOf(tokenSecret).Event("a", "b", "c"),
	} {
		if status, body := ask(t, "GET", server.URL+path, token, ""); status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func keysOf(secret string) *callback.Keys {
	return callback.NewKeys([]schemas.Secret{schemas.NewSecret(secret)})
}
