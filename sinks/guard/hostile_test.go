package guard

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Names under which clouds serve metadata, and names that people have for inner addresses, are refused for what they
// resolve to; so is one that has a good address among others.
func TestNamesOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"metadata.google.internal.": "169.254.169.254", "metadata.": "169.254.169.254", "instance-data.": "169.254.169.254", "instance-data.ec2.internal.": "fd00:ec2::254",
		"metadata.azure.internal.": "169.254.169.254", "wireserver.azure.example.": "168.63.129.16", "metadata.tencentyun.com.": "169.254.0.23", "metadata.aliyun.example.": "100.100.100.200",
		"metadata.oraclecloud.example.": "192.0.0.192", "kubernetes.default.svc.": "10.96.0.1", "host.docker.internal.": "192.168.65.2", "127.0.0.1.nip.io.": "127.0.0.1",
		"localtest.me.": "127.0.0.1", "six.example.": "::1", "mapped.example.": "::ffff:169.254.169.254", "nat64.example.": "64:ff9b::a9fe:a9fe", "sixtofour.example.": "2002:a9fe:a9fe::1",
		"teredo.example.": "2001:0:a9fe:a9fe::1", "zero.example.": "0.0.0.0", "multicast.example.": "239.1.1.1",
		"one-of-two.example.": "93.184.215.14,10.0.0.1", "one-of-both.example.": "93.184.215.14,fd00::1",
	}
	answers := map[string][]string{}
	for name, list := range names {
		answers[name] = []string{list}
	}
	c := must(t, Config{Resolver: newZone(t, answers).resolver()})
	for name, list := range names {
		for _, scheme := range []string{"https", "http"} {
			_, err := get(t, c, scheme+"://"+name+"/latest/meta-data/?token=hush")
			if sink.ClassOf(err) != sink.ClassForbidden || !sink.Untouched(err) {
				t.Errorf("%s (%s) by %s: %v", name, list, scheme, err)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows the query: %v", err)
			}
		}
	}
}

// TestRebindingFromPublicToPrivate: the name is public at the first connection and private at the second. What the guard
// lets through is stopped at the socket, so that no packet leaves the machine.
// A team that writes a name into a URL is told that it leads to what is refused, and not where: the process's log has that, with the line to write.
func TestRefusalShowsNoAddressBehindAName(t *testing.T) {
	t.Parallel()
	resolver, _ := dnsServer(t, "10.20.30.40")
	c, err := New(Config{Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	u, _ := url.Parse("https://inner.example/")
	_, asked := c.Do(&http.Request{Method: http.MethodGet, URL: u})
	_, dialled := c.Dial(t.Context(), "tcp", "inner.example:5432", false)
	for what, err := range map[string]error{"a request": asked, "a connection": dialled, "a look": c.Reach(t.Context(), u)} {
		if sink.ClassOf(err) != sink.ClassForbidden || !sink.Untouched(err) || strings.Contains(err.Error(), "10.20") || !strings.Contains(err.Error(), "allow_networks") {
			t.Errorf("%s: %v", what, err)
		}
		if got := sink.ForLog(err); !strings.Contains(got, "address 10.20.30.40 is refused (private)") || !strings.Contains(got, "allow_networks: [10.20.30.40/32]") {
			t.Errorf("%s: the log has %q", what, got)
		}
	}
	_, plain := c.Dial(t.Context(), "tcp", "inner.example:5432", true)
	const advice = "a public one takes TLS (https, for Postgres sslmode=require), any other has to be in allow_networks"
	if plain == nil || strings.Contains(plain.Error(), "10.20") || !strings.Contains(plain.Error(), advice) {
		t.Errorf("in plain text: %v", plain)
	}
	if _, err := c.Dial(t.Context(), "tcp", "8.8.8.8:5432", true); !strings.Contains(err.Error(), "sslmode=require") {
		t.Errorf("a public address in plain text: %v", err)
	}
	if _, err := c.Dial(t.Context(), "tcp", "10.20.30.40:80", false); !strings.Contains(err.Error(), "10.20.30.40/32") || sink.ForLog(err) != "" {
		t.Errorf("an address that the team wrote itself: %v", err)
	}
}

func TestRebindingFromPublicToPrivate(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(unreachable(t).Listener.Addr().String())
	for _, private := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "93.184.215.14,127.0.0.1"} {
		z := newZone(t, map[string][]string{"rebind.example.": {"93.184.215.14", private}})
		c := must(t, Config{Resolver: z.resolver()})
		var through []string
		c.secure.dialer.Control = func(network, address string, raw syscall.RawConn) error {
			if err := c.secure.control(network, address, raw); err != nil {
				return err
			}
			through = append(through, address)
			return errors.New("stopped by the test")
		}
		if _, err := get(t, c, "https://rebind.example.:"+port); sink.ClassOf(err) != sink.ClassNetwork || len(through) != 1 || through[0] != "93.184.215.14:"+port {
			t.Errorf("public: %v, let through to %v", err, through)
		}
		if n := z.asked.Load(); n != 1 {
			t.Errorf("resolved %d times for one connection: the address judged must be the one connected to", n)
		}
		if _, err := get(t, c, "https://rebind.example.:"+port); sink.ClassOf(err) != sink.ClassForbidden || len(through) != 1 {
			t.Errorf("after rebinding to %s: %v, let through to %v", private, err, through)
		}
	}
}

func TestSwitchingProtocolsHoldsNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() }) // it says nothing more, and stays open
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	}))
	defer server.Close()
	resp, err := get(t, must(t, Config{AllowNetworks: loopback, Timeout: time.Minute}), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil || resp.StatusCode != http.StatusSwitchingProtocols || time.Since(began) > 50*time.Second {
		t.Errorf("status %d: %q, %v after %s", resp.StatusCode, b, err, time.Since(began))
	}
}

// Redirects lead nowhere: whatever a destination names is handed back, and the one request that was made stays the only one.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	inner := unreachable(t)
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		w.Header().Set("Location", r.URL.Query().Get("to"))
		if refresh := r.URL.Query().Get("refresh"); refresh != "" {
			w.Header().Set("Refresh", "0; url="+refresh)
		}
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	c := must(t, Config{AllowNetworks: loopback})
	for i, to := range []string{
		inner.URL, "/again", "//" + strings.TrimPrefix(inner.URL, "http://"), "http://169.254.169.254/latest/meta-data/", "https://metadata.google.internal/", "http://[::1]/",
		"http://2130706433/", "file:///etc/passwd", "gopher://127.0.0.1:6379/", "http://user:pass@127.0.0.1/", "",
	} {
		resp, err := get(t, c, server.URL+"/?to="+url.QueryEscape(to)+"&refresh="+url.QueryEscape(inner.URL))
		if err != nil {
			t.Fatalf("%q: %v", to, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTemporaryRedirect || int(n.Load()) != i+1 {
			t.Errorf("%q: status %d after %d requests", to, resp.StatusCode, n.Load())
		}
		if class := sink.ClassOfStatus(resp.StatusCode); class != sink.ClassRejected {
			t.Errorf("a redirect is %s", class)
		}
	}
}

// raw is a server that writes to every connection what write says, once it has read a request's head, until it is told
// that nobody reads any more.
func raw(t *testing.T, write func(w io.Writer) error) (target string, written *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	written = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			wg.Go(func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				if _, err := conn.Read(buf); err != nil {
					return
				}
				for err := error(nil); err == nil; {
					err = write(writerFunc(func(p []byte) (int, error) {
						n, err := conn.Write(p)
						written.Add(int64(n))
						return n, err
					}))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() }) // the client has given up each of them, or this hangs
	return "http://" + l.Addr().String(), written
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// first writes head before the first of what follows.
func first(head string, then func(w io.Writer) error) func(io.Writer) error {
	var once sync.Once
	return func(w io.Writer) (err error) {
		once.Do(func() { _, err = io.WriteString(w, head) })
		if err != nil {
			return err
		}
		return then(w)
	}
}

// Answers that never end are cut off by size, and the connection they came on is given up.
func TestAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	block := bytes.Repeat([]byte("x"), 32<<10)
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(block), block)
	for name, tt := range map[string]struct {
		write func(io.Writer) error
		body  bool // the answer begins; else it never does
	}{
		"a body":              {first("HTTP/1.1 200 OK\r\n\r\n", func(w io.Writer) error { _, err := w.Write(block); return err }), true},
		"chunks":              {first("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", func(w io.Writer) error { _, err := w.Write(chunk); return err }), true},
		"a length beyond int": {first("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", func(w io.Writer) error { _, err := w.Write(block); return err }), true},
		"a header":            {first("HTTP/1.1 200 OK\r\nX-Long: ", func(w io.Writer) error { _, err := w.Write(block); return err }), false},
		"headers":             {first("HTTP/1.1 200 OK\r\n", func(w io.Writer) error { _, err := io.WriteString(w, "X-More: and more\r\n"); return err }), false},
		"a status":            {func(w io.Writer) error { _, err := w.Write(block); return err }, false},
		"preliminary answers": {func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n")
			return err
		}, false},
		"a chunk's extension":    {first("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", func(w io.Writer) error { _, err := w.Write(block); return err }), true},
		"a trailer":              {first("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Long: ", func(w io.Writer) error { _, err := w.Write(block); return err }), true},
		"what is no HTTP at all": {func(w io.Writer) error { _, err := w.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, written := raw(t, tt.write)
			c := must(t, Config{AllowNetworks: loopback, MaxResponse: most, Timeout: 20 * time.Second})
			resp, err := get(t, c, target)
			var n int
			if err == nil {
				var b []byte
				b, err = io.ReadAll(resp.Body)
				n = len(b)
				resp.Body.Close()
			} else if tt.body {
				t.Fatal(err)
			}
			if class := sink.ClassOf(err); err == nil || class == sink.ClassTimeout || n > most {
				t.Errorf("%d bytes, %s: %v", n, class, err)
			}
			if w := written.Load(); w > 16<<20 { // what sockets hold
				t.Errorf("the server wrote %d bytes before it was cut off", w)
			}
		})
	}
}

// A byte at a time, in the head and in the body: what bounds an exchange is its end, not the time since the last byte.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	drip := func(w io.Writer) error {
		<-time.After(5 * time.Millisecond)
		_, err := io.WriteString(w, "x")
		return err
	}
	for name, head := range map[string]string{"head": "HTTP/1.1 200 OK\r\nX-Slow: ", "status": "HTTP/1.1 2", "body": "HTTP/1.1 200 OK\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for timeout := 200 * time.Millisecond; timeout < time.Minute; timeout *= 4 { // in which the request has to arrive, on a busy machine, too
				target, written := raw(t, first(head, drip))
				var resp *http.Response
				if resp, err = get(t, must(t, Config{AllowNetworks: loopback, Timeout: timeout}), target); err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if written.Load() > 0 {
					break
				}
			}
			if sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A bomb stays folded: nothing is asked to be compressed, and what is comes as it is.
func TestDecompressionBomb(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 4 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("asked for %s", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	}))
	defer server.Close()
	for most, want := range map[int64]error{1 << 20: nil, 1 << 10: ErrTooLarge} {
		resp, err := get(t, must(t, Config{AllowNetworks: loopback, MaxResponse: most}), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !errors.Is(err, want) || int64(len(b)) != min(most, int64(bomb.Len())) || !bytes.HasPrefix(bomb.Bytes(), b) {
			t.Errorf("with %d bytes allowed: %d of the %d that were sent, %v", most, len(b), bomb.Len(), err)
		}
	}
}
