package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestDoors has strangers hold 1,100 connections to each listener, with requests whose bodies never come. Beside them probes, people, agents
// and deliveries are served, and what the strangers hold is bounded. It runs alone: it counts the goroutines of all.
func TestDoors(t *testing.T) { //nolint:paralleltest // see above
	d := newDoors(t)
	alone := runtime.NumGoroutine()
	const many, few, agents = "127.0.0.0", "127.0.0.1", 625 // a quarter of what the file limit of 20,000 leaves them
	for _, s := range []struct {
		listener, method, path string
		from                   string // few: one address; many: one each
		most                   int    // connections that are held
	}{
		{"operator", "POST", "/console/login", few, mostOfProcess / 4},
		{"operator", "POST", "/console/event/redrive", few, mostOfProcess / 4},
		{"operator", "POST", "/v1/replays", few, mostOfProcess / 4},
		{"operator", "POST", "/console/login", many, mostOfProcess},
		{"operator", "GET", "/readyz", few, mostOfProcess / 4},
		{"operator over HTTP/2", "POST", "/console/login", few, mostOfProcess / 4},
		{"loopback", "POST", "/v1/sources/acme/orders/test", few, mostOfProcess / 4},
		{"health", "GET", "/metrics", few, mostOfProcess / 4},
		{"health", "GET", "/readyz", many, mostOfProcess},
		{"agents", "POST", "/v1/actions/act_1/result", few, agents},
		{"intake", "POST", "/v1/in/acme/orders", few, 1100},
	} {
		t.Run(strings.Join([]string{s.listener, s.path, s.from}, " "), func(t *testing.T) {
			before, heap := runtime.NumGoroutine(), inUse()
			for n := range 1100 {
				from := s.from
				if from == many {
					from = fmt.Sprintf("127.1.%d.%d", n/250, 1+n%250)
				}
				d.stand(t, s.listener, from, s.method, s.path)
				if s.listener == "operator over HTTP/2" && n == 100 {
					break
				}
			}
			if !rig.Until(5*time.Second, func() bool { return runtime.NumGoroutine()-before <= 2*s.most+50 }) { // two to a connection
				t.Errorf("%d goroutines more, of %d connections that may stand", runtime.NumGoroutine()-before, s.most)
			}
			if more := inUse() - heap; more > 128<<20 { // both sides
				t.Errorf("%d MiB more are in use", more>>20)
			}
			d.served(t)
		})
		if !rig.Until(30*time.Second, func() bool { return runtime.NumGoroutine() <= alone+50 }) {
			t.Fatalf("%d goroutines are there after the strangers have gone, and were %d", runtime.NumGoroutine(), alone)
		}
	}
}

// inUse are the bytes of heap and stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// doors are two processes with all listeners there are: one for strangers, and one on loopback that asks nobody who they are.
type doors struct {
	guarded, loopback *process
	host              string // of the operator listener
	tls               *tls.Config
	token, status     string // of an admin; the URL at which the sender of an event asks
	cookie            *http.Cookie
	sent              int
}

func newDoors(t *testing.T) *doors {
	t.Helper()
	at := newLedger(t)
	r := deploy(t, newAgent(t).URL, at, true)
	withAgents(t, r, "{deadline: 10m}")
	d := &doors{loopback: (&deployment{t: t, text: r.text, cluster: r.cluster}).run(config.RoleIntake), host: rig.FreeAddress(t), tls: &tls.Config{RootCAs: x509.NewCertPool()}}
	ca := rig.NewAuthority(t)
	pem, err := os.ReadFile(ca.CAFile)
	if err != nil || !d.tls.RootCAs.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	pair := ca.Issue("operator", time.Hour)
	r.text = strings.Replace(r.text, `operator: "127.0.0.1:0"`, fmt.Sprintf("operator: %q, health: \"127.0.0.1:0\"", d.host), 1) +
		fmt.Sprintf("operator: {auth: tokens, public_url: \"https://%s\", tls: {cert_file: %q, key_file: %q}}\n", d.host, pair.Cert, pair.Key)
	d.guarded = r.start(config.RoleIntake, config.RoleStream)
	if !rig.Until(time.Minute, func() bool {
		status, _ := d.ask(t, "GET", "http://"+d.at("health")+"/readyz", nil)
		return status == http.StatusOK
	}) {
		t.Fatal("not ready")
	}
	l, err := d.guarded.app.keys()
	if err != nil {
		t.Fatal(err)
	}
	kept, token, err := access.Make(access.Request{Name: "ann", Role: "admin", ExpiresAt: time.Now().Add(time.Hour), By: "ledger", Reason: "a test"}, time.Now())
	if err == nil {
		_, err = l.CreateToken(t.Context(), kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.token, d.status = token, d.guarded.statusOf("first", 1)
	client := d.client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.PostForm("https://"+d.host+"/console/login", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(resp.Cookies()) != 1 {
		t.Fatalf("a login: %s", resp.Status)
	}
	d.cookie = resp.Cookies()[0]
	return d
}

// at is the address of a listener.
func (d *doors) at(listener string) string {
	if listener == "loopback" {
		return d.loopback.app.Addr("operator").String()
	}
	return d.guarded.app.Addr(listener).String()
}

// client makes a connection for each request, as probes and commands do.
func (d *doors) client() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: d.tls}}
}

func (d *doors) ask(t *testing.T, method, url string, body []byte, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := d.client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// served fails unless all listeners answer those who are no strangers.
func (d *doors) served(t *testing.T) {
	t.Helper()
	operator, health, loopback := "https://"+d.host, "http://"+d.at("health"), "http://"+d.at("loopback")
	for url, headers := range map[string][]string{
		operator + "/livez": nil, operator + "/readyz": nil, operator + "/console/login": nil,
		operator + "/v1/sources":     {"Authorization", "Bearer " + d.token},
		operator + "/metrics":        {"Authorization", "Bearer " + d.token},
		operator + "/console/health": {"Cookie", d.cookie.Name + "=" + d.cookie.Value},
		health + "/livez":            nil, health + "/readyz": nil, health + "/metrics": nil,
		loopback + "/livez": nil, loopback + "/v1/sources": nil, loopback + "/console/sources": nil,
		d.status: nil,
	} {
		if status, body := d.ask(t, "GET", url, nil, headers...); status != http.StatusOK {
			t.Errorf("%s: %d %.200s", url, status, body)
		}
	}
	d.sent++
	if got := d.guarded.send("orders", "orders-secret", order("meanwhile", d.sent)); got != http.StatusAccepted {
		t.Errorf("a delivery was answered %d", got)
	}
}

// stand opens a connection whose request announces a body of 100 bytes, none of which comes; over HTTP/2, 250 such requests.
func (d *doors) stand(t *testing.T, listener, from, method, path string) {
	t.Helper()
	listener, streams := strings.CutSuffix(listener, " over HTTP/2")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	conn, err := dialer.Dial("tcp", d.at(listener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if listener != "operator" {
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n", method, path, conn.RemoteAddr())
		return
	}
	config := d.tls.Clone()
	config.ServerName, config.NextProtos = "127.0.0.1", []string{"http/1.1"}
	if streams {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	over := tls.Client(conn, config)
	_ = over.SetDeadline(time.Now().Add(10 * time.Second))
	if err := over.Handshake(); err != nil {
		return // refused, as a stranger may be
	}
	if over.ConnectionState().NegotiatedProtocol != "h2" {
		fmt.Fprintf(over, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n", method, path, d.host)
		return
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	frames, block := http2.NewFramer(&out, nil), &bytes.Buffer{}
	_ = frames.WriteSettings()
	encoder := hpack.NewEncoder(block)
	for n := range uint32(250) {
		block.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: d.host}, {Name: ":path", Value: path}, {Name: "content-length", Value: "100"}} {
			_ = encoder.WriteField(f)
		}
		_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: block.Bytes(), EndHeaders: true})
	}
	_, _ = over.Write(out.Bytes())
}
