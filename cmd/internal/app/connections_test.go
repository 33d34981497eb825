package app

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

func TestConnectionsOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files, share uint64
		want         int
	}{{0, intakeShare, math.MaxInt}, {256, intakeShare, 128}, {256, agentsShare, 32}, {3, agentsShare, 2}, {math.MaxUint64, intakeShare, math.MaxInt32}} {
		if got := connectionsOf(test.files, test.share); got != test.want {
			t.Errorf("a share of one in %d of %d files is %d, want %d", test.share, test.files, got, test.want)
		}
	}
}

// Where no file can be opened, a line says what to do, once, and the listener goes on: who waits is served afterwards.
func TestListenerWithoutFiles(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	a := &App{log: slog.New(slog.NewTextHandler(&log, nil))}
	l, err := a.listen("intake", "127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	l.Listener = &exhausted{Listener: l.Listener, left: 3}
	served := make(chan error, 1)
	go func() { served <- l.serve() }()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	l.server.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "ulimit -n") || !strings.Contains(got, "listener=intake") {
		t.Errorf("after three times without a file the log has:\n%s", got)
	}
}

// exhausted is a listener of a process that may open no file, so many times.
type exhausted struct {
	net.Listener
	left int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left--; e.left >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// With few connections in all, as where the process may open few files, one address that sends slowly has none of another's bodies give way.
func TestFewConnectionsAreShared(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", "intake: {connections: 40, pace: {bytes: 0}}\nlisten: {", 1)
	p := r.run(config.RoleIntake)
	body := []byte(`{"type":"order","order":"o","rev":1}`)
	mac := hmac.New(sha256.New, []byte("orders-secret"))
	mac.Write(body)
	begin := func(from string) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", p.app.Addr("intake").String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/in/acme/orders HTTP/1.1\r\nHost: x\r\nX-Event-Id: 1\r\nX-Signature: %x\r\nContent-Length: %d\r\n\r\n%s", mac.Sum(nil), len(body), body[:5])
		return conn
	}
	provider := begin("127.0.0.2")
	p.metric("forebay_ingest_bodies_arriving", 1)
	for range 30 { // of which a quarter of 40 are let in
		begin("127.0.0.1")
	}
	p.metric("forebay_ingest_bodies_arriving", 11)
	if _, err := provider.Write(body[5:]); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(provider), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("it was there first, and its address has one body: answered %d", resp.StatusCode)
	}
}

// What comes before the process accepts deliveries is answered 503, and has its reason in log and metric.
func TestNotAcceptingIsTold(t *testing.T) {
	t.Parallel()
	var said lockedBuffer
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1"), log: slog.New(slog.NewTextHandler(&said, nil))}
	p := r.start(config.RoleIntake) // no broker is there: its topics are not known yet
	for _, source := range []string{"orders", "orderz"} {
		resp, err := http.Post("http://"+p.app.Addr("intake").String()+"/v1/in/acme/"+source, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "5" || !resp.Close ||
			string(body) != `{"type":"about:blank","title":"Service Unavailable","status":503}`+"\n" {
			t.Errorf("%d %v %q", resp.StatusCode, resp.Header, body)
		}
	}
	for _, source := range []string{"orders", "_unknown"} {
		if got, _ := counted(t, p.app.registry, "forebay_ingest_deliveries_total", map[string]string{"source": source, "outcome": "unavailable", "reason": "not_accepting"}); got != 1 {
			t.Errorf("of %s %v are counted", source, got)
		}
	}
	if got := said.String(); strings.Count(got, "outcome=unavailable") != 2 || !strings.Contains(got, "source=orders reason=not_accepting address=127.0.0.1") {
		t.Errorf("the log has:\n%s", got)
	}
}

// TestOperatorConnectionsAreBounded: of one address, so many connections that say nothing are kept; the oldest are closed for others.
func TestOperatorConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	a := &App{log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry()}
	a.current.Store(&config.Config{})
	var err error
	if a.operator, err = a.listen("operator", "127.0.0.1:0", http.NotFoundHandler()); err != nil {
		t.Fatal(err)
	}
	a.door(a.operator, ofProcess(nil), true)
	served := make(chan error, 1)
	go func() { served <- a.operator.serve() }()
	silent := make([]net.Conn, mostOfProcess/4+1)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", a.operator.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer silent[i].Close()
	}
	if n, err := silent[0].Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest is open: %d %v", n, err)
	}
	resp, err := http.Get("http://" + a.operator.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	a.operator.server.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
