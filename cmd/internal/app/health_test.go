package app

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// With listen.health a kubelet and a Prometheus ask at the process's own address, which the operator listener refuses; the API is not
// there. At the stop it says until the end that the process is not ready; a delivery that is in flight then gets its 202, so that the sender
// need not try again, and no more are let in.
func TestHealthListenerUntilTheEnd(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", `listen: {health: "0.0.0.0:0", `, 1)
	p := r.run(config.RoleIntake)
	_, port, _ := net.SplitHostPort(p.app.Addr("health").String())
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+port+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "10.0.0.7:9091"
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{"/livez": "live", "/readyz": `"ready":true`, "/metrics": "forebay_ingest_deliveries_in_flight"} {
		if status, body := get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	if status, body := get("/v1/sources"); status != http.StatusNotFound {
		t.Errorf("/v1/sources: %d %s", status, body)
	}

	held := r.hold()
	answer := make(chan int, 1)
	go func() {
		defer close(answer) // without an answer it is 0
		answer <- p.send("orders", "orders-secret", order("o", 1))
	}()
	p.metric("forebay_ingest_deliveries_in_flight", 1)
	p.stop()
	p.unready("stopping")
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("while it stops: %d %s", status, body)
	}
	if !rig.Until(time.Minute, func() bool {
		c, err := net.Dial("tcp", p.app.Addr("intake").String())
		if err == nil {
			c.Close()
		}
		return err != nil
	}) {
		t.Fatal("a stopping intake lets in more")
	}
	select {
	case got := <-answer:
		t.Errorf("answered %d before its ack", got)
	default:
	}
	close(held)
	if got := <-answer; got != http.StatusAccepted {
		t.Errorf("the delivery in flight was answered %d", got)
	}
	p.clean()
	if status, _ := get("/livez"); status != 0 {
		t.Errorf("after the end: %d", status)
	}
}

// With intake.stop_delay, what a load balancer sends after the process has become unready is taken like everything before.
func TestStopDelay(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text += "intake: {stop_delay: 5s}\n"
	p := r.run(config.RoleIntake)
	begin := time.Now()
	p.stop()
	p.unready("stopping")
	if got := p.send("orders", "orders-secret", order("o", 1)); got != http.StatusAccepted && time.Since(begin) < 5*time.Second {
		t.Errorf("a delivery while the process is not ready any more: %d", got)
	}
	p.clean()
	if took := time.Since(begin); took < 5*time.Second {
		t.Errorf("stopped after %s", took)
	}
}

// A start that fails leaves no listener behind.
func TestFailedStartClosesListeners(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	r.text = strings.Replace(r.text, `intake: "127.0.0.1:0"`, `health: "127.0.0.1:0", intake: "`+taken.Addr().String()+`"`, 1)
	a := r.app(config.RoleIntake)
	defer a.intake.close(t.Context())
	if err := a.Start(); err == nil || !strings.Contains(err.Error(), "listen.intake: ") {
		t.Fatalf("an address that is taken: %v", err)
	}
	for _, name := range []string{"operator", "health"} {
		if c, err := net.Dial("tcp", a.Addr(name).String()); err == nil {
			c.Close()
			t.Errorf("%s still listens", name)
		}
	}
}
