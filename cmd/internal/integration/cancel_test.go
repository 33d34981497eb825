package integration

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// canceled is a call of a cancel URL.
type canceled struct {
	path, key, reason, body string
	answered                int
}

// cancelServer is where an agent is told to cancel. It answers with status.
type cancelServer struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	calls  []canceled
}

func newCancelServer(t *testing.T) *cancelServer {
	s := &cancelServer{status: http.StatusServiceUnavailable}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, canceled{r.URL.String(), r.Header.Get("Idempotency-Key"), r.Header.Get("X-Forebay-Cancel"), string(body), s.status})
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

// become has calls answered with status from now on.
func (s *cancelServer) become(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// told are the calls so far that were answered with status.
func (s *cancelServer) told(status int) (list []canceled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.answered == status {
			list = append(list, c)
		}
	}
	return list
}

// beat sends a heartbeat and gives its status and X-Forebay-Cancel.
func (p *process) beat(t *testing.T, c call) (status int, cancel string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at(t, strings.Replace(c.result, "/result", "/heartbeat", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-Forebay-Cancel")
}

// TestNewerCancelsLongWork: an agent at work on an entity that has moved on hears so with its heartbeats, from every process, and at its
// cancel URL, over a kill of the owner that could not tell it. What it reports then ends the action as superseded, and the newer event runs. Who
// works on what has not moved on hears nothing.
func TestNewerCancelsLongWork(t *testing.T) {
	t.Parallel()
	r := deployLong(t, rig.Fake(t), "{deadline: 10m, heartbeat: 5m}")
	r.edit("actions: [{name: run, to: shop}]", "actions: [{name: run, to: shop, on_newer: cancel}]")
	told := newCancelServer(t)
	r.agent.reply = func(c call, status int, h http.Header) string {
		if status == http.StatusAccepted {
			h.Set("Forebay-Cancel-Url", told.URL+"/jobs/"+c.event+"?secret=of-the-job")
		}
		return ""
	}
	r.serve("intake")
	first := r.serve("stream")
	old, newer, other := order("slow-old", 1), order("slow-old", 2), order("slow-other", 1)
	r.deliver(old)
	r.deliver(other)
	first.waitStatus(t, r.statusURL(old), "processing")
	first.waitStatus(t, r.statusURL(other), "processing")
	run, beside := r.agent.callOf(t, old.id), r.agent.callOf(t, other.id)
	if status, cancel := first.beat(t, run); status != http.StatusOK || cancel != "" {
		t.Errorf("before there is a newer one: %d %q", status, cancel)
	}

	r.deliver(newer)
	if !rig.Until(time.Minute, func() bool { _, cancel := first.beat(t, run); return cancel == "newer" }) {
		t.Fatal("no heartbeat was answered that there is a newer one")
	}
	if !rig.Until(time.Minute, func() bool { return len(told.told(http.StatusServiceUnavailable)) > 0 }) {
		t.Fatal("the cancel URL was not called")
	}
	first.kill()
	told.become(http.StatusOK)
	second := r.serve("stream")
	if status, cancel := second.beat(t, run); status != http.StatusOK || cancel != "newer" {
		t.Errorf("from another process: %d %q", status, cancel)
	}
	if !rig.Until(2*time.Minute, func() bool { return len(told.told(http.StatusOK)) > 0 }) {
		t.Fatal("the next owner has not told")
	}
	for _, c := range append(told.told(http.StatusOK), told.told(http.StatusServiceUnavailable)...) {
		want := canceled{"/jobs/" + old.id + "?secret=of-the-job", run.key, "newer", `{"action_id":"` + run.key + `","reason":"newer"}`, c.answered}
		if c != want {
			t.Errorf("told %+v, want %+v", c, want)
		}
	}
	if status, cancel := second.beat(t, beside); status != http.StatusOK || cancel != "" {
		t.Errorf("what has not moved on: %d %q", status, cancel)
	}

	if status, body := second.post(t, run.result, run.token, `{"status":"dead","error":"stopped"}`); status != http.StatusAccepted {
		t.Error(status, body)
	}
	second.waitStatus(t, r.statusURL(old), "superseded")
	second.waitStatus(t, r.statusURL(newer), "processing")
	for _, c := range []call{r.agent.callOf(t, newer.id), beside} {
		if status, body := second.post(t, c.result, c.token, `{"status":"done"}`); status != http.StatusAccepted {
			t.Error(status, body)
		}
	}
	second.waitStatus(t, r.statusURL(newer), "done")
	second.waitStatus(t, r.statusURL(other), "done")
	if n := len(told.told(http.StatusOK)); n != 1 {
		t.Errorf("told %d times by the owner that could tell, want once", n)
	}
	if n := r.agent.seen(old.id); n != 1 {
		t.Errorf("%d calls for what was cancelled, want one", n)
	}
	if strings.Contains(first.output()+second.output(), "of-the-job") {
		t.Error("the secret of the cancel URL is in the log")
	}
}
