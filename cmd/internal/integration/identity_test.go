package integration

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestCapturedDelivery has somebody who has seen one delivery of GitHub send it again with other headers, which GitHub does not sign:
// under six ids of deliveries it is the one event that it was, and under the name of another event it is none.
func TestCapturedDelivery(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		p := r.serve("intake,stream")
		captured := issue(7, 1, 1)
		send := func(name, id string) {
			t.Helper()
			req := captured.request(t.Context(), p.intake, r.team)
			req.Header.Set("X-GitHub-Event", name)
			req.Header.Set("X-GitHub-Delivery", id)
			if status := do(t, req); status != http.StatusAccepted {
				t.Errorf("%s %s was answered %d", name, id, status)
			}
		}
		send("issues", captured.guid())
		r.agent.waitActed(t, 1, time.Minute)
		for n := range 6 {
			send("issues", fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
		}
		others := []string{"issue_comment", "pull_request", "push", "star", "repository", "issues.opened"}
		for _, name := range others {
			send(name, captured.guid())
		}
		send("issues", captured.guid()) // as GitHub delivers again
		// One more of the entity: what came before it has been decided once it has run.
		last := issue(7, 1, 2)
		if err := r.sender.deliver(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		r.agent.waitActed(t, 2, time.Minute)
		for _, i := range waitItems(t, r, p, 2, "--status", "done") {
			if i.EventID == captured.id && i.Duplicates != 7 || i.EventID == last.id && i.Duplicates != 0 {
				t.Errorf("%s came again %d times", i.EventID, i.Duplicates)
			}
		}
		r.sender.accepted[captured.id] = captured
		r.requireOnce(t)
		if calls := r.agent.snapshot(); len(calls) != 2 {
			t.Errorf("the agent was called %d times: %+v", len(calls), calls)
		}
		out, err := r.try(p.operator, "quarantine", "list", "--team", r.team, "--source", "github", "-o", "id")
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(out, []byte("\n")); n != len(others) {
			t.Errorf("%d deliveries are in quarantine, want %d: %s", n, len(others), out)
		}
		if out, err = r.try(p.operator, "quarantine", "list", "--team", r.team, "--source", "github", "-o", "json"); err != nil || !containsAll(string(out), "type_mismatch", "push has /ref") {
			t.Errorf("quarantine list does not say why: %s %v", out, err)
		}

		// Each of its ids leads to the one event, after it is done and after a restart.
		p.stop()
		p = r.serve("intake,stream")
		for _, id := range []string{captured.guid(), "00000000-0000-4000-8000-000000000005"} {
			got := r.inbox(p, "--delivery", id)
			if len(got) != 1 || got[0].EventID != captured.id || got[0].Status != "done" || got[0].DeliveryID != id {
				t.Errorf("inbox list --delivery %s: %+v", id, got)
			}
		}
		if got := r.inbox(p, "--delivery", last.guid(), "--since", "1h"); len(got) != 1 || got[0].EventID != last.id {
			t.Errorf("inbox list --delivery of the last: %+v", got)
		}
		if out, err := r.try(p.operator, "inbox", "list", "--delivery", "nobody"); err == nil || !containsAll(err.Error(), "exit status 3", "neither in the log nor in quarantine, from the log's start to") {
			t.Errorf("inbox list --delivery nobody: %s %v", out, err)
		}
		if out, err := r.try(p.operator, "inbox", "get", r.team+"/triage/github/"+captured.id); err != nil || !containsAll(string(out), captured.guid()) {
			t.Errorf("inbox get does not say the first delivery's id: %s %v", out, err)
		}
	})
}

// TestSignedURLBehindAProxy: a sender that signs the URL calls a proxy that ends TLS; the intake sees plain HTTP and another Host.
func TestSignedURLBehindAProxy(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		var intake atomic.Pointer[url.URL]
		proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(intake.Load())
			r.Out.URL.Path = "/v1/in/" + strings.TrimPrefix(r.In.URL.Path, "/hooks/")
		}})
		t.Cleanup(proxy.Close)
		r := deploy(t, b, options{sources: `      calls:
        preset: generic
        secrets: [calls-secret]
        verify: {signature_header: X-Signature, signed: "{url}{body}"}
        public_url: ` + proxy.URL + `/hooks/acme/calls
        event: {id: /id, type: /type, entity: []}`, all: ", calls"})
		// The team's name is known now.
		r.edit("/hooks/acme/calls", "/hooks/"+r.team+"/calls")
		p := r.serve("intake,stream")
		to, err := url.Parse(p.intake)
		if err != nil {
			t.Fatal(err)
		}
		intake.Store(to)
		post := func(client *http.Client, called, signed, id string) int {
			t.Helper()
			body := fmt.Sprintf(`{"id":%q,"type":"call"}`, id)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, called, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Signature", sign("calls-secret", []byte(signed+body)))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.StatusCode
		}
		public, direct := proxy.URL+"/hooks/"+r.team+"/calls", p.intake+"/v1/in/"+r.team+"/calls"
		if status := post(proxy.Client(), public+"?try=1", public+"?try=1", "one"); status != http.StatusAccepted {
			t.Errorf("a delivery through the proxy was answered %d", status)
		}
		// What was signed for another address is not taken because the request names that address.
		if status := post(http.DefaultClient, direct, direct, "two"); status != http.StatusUnauthorized {
			t.Errorf("a signature over the Host of the request was answered %d", status)
		}
		if _, err := r.try(p.operator, "send", r.team+"/calls", "-c", r.config, "--url", p.intake, "--file", r.file(`{"id":"three","type":"call"}`)); err != nil {
			t.Errorf("forebay send: %v", err)
		}
		waitItems(t, r, p, 2, "--source", "calls", "--status", "done")
	})
}

// TestDeliveryOfASignedID: where the event has the provider's id, --delivery takes that.
func TestDeliveryOfASignedID(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		p := r.serve("intake,stream")
		one := order("o-1", 1)
		if err := r.sender.deliver(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		r.agent.waitActed(t, 1, time.Minute)
		waitItems(t, r, p, 1, "--status", "done", "--delivery", one.id)
	})
}

// file writes a body to send, and returns its path.
func (r *deployment) file(body string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, "body.json")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}
