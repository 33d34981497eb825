package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// static resolves every name to the same addresses, in this order.
type static []netip.Addr

func (s static) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return s, nil }

func addresses(text string) (list static) {
	for one := range strings.SplitSeq(text, " ") {
		list = append(list, netip.MustParseAddr(one))
	}
	return list
}

// network is one in memory: who is dead swallows what it is sent, who refuses says so, everybody else answers 204.
type wires struct {
	dead, refuses string
	mu            sync.Mutex
	dialled       []string
}

func (w *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	w.mu.Lock()
	w.dialled = append(w.dialled, host)
	w.mu.Unlock()
	switch {
	case strings.Contains(" "+w.dead+" ", " "+host+" "):
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	case strings.Contains(" "+w.refuses+" ", " "+host+" "):
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		buf := make([]byte, 4096)
		if _, err := theirs.Read(buf); err == nil {
			_, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		}
	}()
	return ours, nil
}

// TestOneDeadAddressFailsNothing: a name with an address that swallows packets, as an AAAA record without a route does, is reached by
// another one, in time for the exchange.
func TestOneDeadAddressFailsNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, addrs, dead, refuses string
		within                     time.Duration // in which it is reached
		untouched                  sink.Class    // else how the exchange ends, which has 8 s
	}{
		{"alone", "2606:4700::1", "", "", 0, ""},
		{"a dead one of the other family", "2606:4700::1 93.184.215.14", "2606:4700::1", "", fallbackDelay, ""},
		{"two dead ones of the other family", "2606:4700::1 2606:4700::2 93.184.215.14", "2606:4700::1 2606:4700::2", "", fallbackDelay, ""},
		{"a dead one behind", "93.184.215.14 2606:4700::1", "2606:4700::1", "", 0, ""},
		{"a dead one of the same family", "93.184.215.14 93.184.215.15", "93.184.215.14", "", 4 * time.Second, ""},
		{"three dead ones of four", "93.184.215.14 93.184.215.15 93.184.215.16 93.184.215.17", "93.184.215.14 93.184.215.15 93.184.215.16", "", 6 * time.Second, ""},
		{"one that refuses", "2606:4700::1 93.184.215.14", "", "2606:4700::1", 0, ""},
		{"a dead one and one that refuses", "2606:4700::1 93.184.215.14 93.184.215.15", "2606:4700::1", "93.184.215.14", fallbackDelay, ""},
		{"all dead", "2606:4700::1 93.184.215.14", "2606:4700::1 93.184.215.14", "", 0, sink.ClassTimeout},
		{"the only one dead", "93.184.215.14", "93.184.215.14", "", 0, sink.ClassTimeout},
		{"all refuse", "2606:4700::1 93.184.215.14", "", "2606:4700::1 93.184.215.14", 0, sink.ClassNetwork},
		{"a refused address behind a dead one", "2606:4700::1 10.0.0.1", "2606:4700::1", "", 0, sink.ClassForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &wires{dead: tt.dead, refuses: tt.refuses}
				c := must(t, Config{
					AllowNetworks: []netip.Prefix{netip.MustParsePrefix("93.184.215.0/24"), netip.MustParsePrefix("2606:4700::/32")},
					Resolver:      addresses(tt.addrs), Dial: w.dial, Timeout: 8 * time.Second,
				})
				begin := time.Now()
				resp, err := get(t, c, "http://agents.example/")
				took := time.Since(begin)
				if err == nil {
					resp.Body.Close()
				}
				if class := sink.ClassOf(err); class != tt.untouched || err != nil && !sink.Untouched(err) {
					t.Errorf("class %q, want %q, untouched: %v", class, tt.untouched, err)
				}
				if tt.untouched == "" && took != tt.within {
					t.Errorf("it took %s, want %s", took, tt.within)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, host := range w.dialled {
					if !strings.Contains(" "+tt.addrs+" ", " "+host+" ") || tt.untouched == sink.ClassForbidden {
						t.Errorf("connected to %s", host)
					}
				}
			})
		})
	}
}

// TestRaceIsJudgedAtEverySocket: whichever of its addresses wins, each that is connected to was judged at its socket, by real ones.
func TestRaceIsJudgedAtEverySocket(t *testing.T) {
	t.Parallel()
	server := unreachable(t)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	c := must(t, Config{AllowNetworks: loopback})
	var mu sync.Mutex
	var judged []string
	c.plain.dialer.Control = func(_, address string, _ syscall.RawConn) error {
		mu.Lock()
		defer mu.Unlock()
		judged = append(judged, address)
		return errors.New("stopped by the test")
	}
	if _, err := c.plain.race(t.Context(), "tcp", port, addresses("::1 127.0.0.1 127.0.0.2")); err == nil {
		t.Error("connected, whatever Control said")
	}
	if len(judged) != 3 {
		t.Errorf("judged were %q, want all three", judged)
	}
	c.plain.dialer.Control = c.plain.control
	strict := must(t, Config{})
	if _, err := strict.plain.race(t.Context(), "tcp", port, addresses("127.0.0.1 ::1")); sink.ClassOf(err) != sink.ClassForbidden {
		t.Errorf("an address that came around the first judgement: %v", err)
	}
}

// full is a listener of a real kernel that answers no more handshakes: its queue is full.
func full(t *testing.T, address string) (port string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(address), uint16(name.(*syscall.SockaddrInet4).Port))
	for failed := 0; failed < 2; { // one failure can be a busy machine's
		conn, err := (&net.Dialer{Timeout: 100 * time.Millisecond}).DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			failed++
			continue
		}
		failed = 0
		t.Cleanup(func() { conn.Close() })
	}
	return fmt.Sprint(at.Port())
}

// TestDeadSocket is TestOneDeadAddressFailsNothing with a kernel's sockets and a name server.
func TestDeadSocket(t *testing.T) {
	t.Parallel()
	port := full(t, "127.0.0.1")
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	only, _ := dnsServer(t, "127.0.0.1")
	_, err = get(t, must(t, Config{AllowNetworks: loopback, Resolver: only, Timeout: 200 * time.Millisecond}), "http://agents.example:"+port)
	if sink.ClassOf(err) != sink.ClassTimeout || !sink.Untouched(err) {
		t.Errorf("no connection by the deadline: %v", err)
	}
	both := static{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	var resp *http.Response
	for timeout := time.Second; err != nil && timeout < time.Minute; timeout *= 4 { // a part of it is for the dead one
		resp, err = get(t, must(t, Config{AllowNetworks: loopback, Resolver: both, Timeout: timeout}), "http://agents.example:"+port)
	}
	if err != nil {
		t.Fatalf("one dead address of two: %v", err)
	}
	resp.Body.Close()
}
