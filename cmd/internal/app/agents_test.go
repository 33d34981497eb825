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
	"github.com/forebay-io/forebay/schemas/trace"
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
	if !rig.Until(time.Minute, func() bool {
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
	if !rig.Until(time.Minute, func() bool {
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

// A result is taken by any process of the stream role. One without it says where to ask.
func TestProcessWithoutLedgerSaysWhereToAsk(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	address := withAgents(t, r, "{deadline: 10m}")
	p := r.run(config.RoleIntake)
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
		"/v1/actions/act_1": keysOf(tokenSecret).Action([16]byte{1}, ledger.AttemptRef{Fence: 1, LaneSeq: 1, Attempt: 1, Epoch: 1}, "act_1", trace.Place{}).Reveal(),
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

// TestResultsAreTakenToTheEnd: a process that stops takes results for as long as what it has called runs: one that is refused is work that is done
// again.
func TestResultsAreTakenToTheEnd(t *testing.T) {
	t.Parallel()
	a, held := newTaker(t), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Config.Handler.ServeHTTP(w, r)
		if r.Header.Get("Ce-Id") == "slow-1" {
			<-held
		}
	}))
	t.Cleanup(front.Close)
	r := deploy(t, front.URL, newLedger(t), true)
	withAgents(t, r, "{deadline: 10m}")
	p := r.run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("o", 1))
	call := a.wait(t, "o-1", 1)[0]
	url, token := call.Get("Forebay-Result-Url"), call.Get("Forebay-Action-Token")
	getUntil(t, strings.TrimSuffix(url, "/result"), token, func(body string) bool { return strings.Contains(body, `"status":"processing"`) })
	p.accepted("orders", "orders-secret", order("slow", 1))
	a.wait(t, "slow-1", 1)
	p.stop()
	p.unready("stopping")
	if status, body := ask(t, "POST", url, token, `{"status": "done"}`); status != http.StatusAccepted {
		t.Errorf("a result while the process stops: %d %s", status, body)
	}
	release()
	p.clean()
}
