package guard

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

func TestDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	rebound, _ := dnsServer(t, "127.0.0.1")
	public, _ := dnsServer(t, "93.184.215.14")
	for _, tt := range []struct {
		name, network, address string
		cfg                    Config
		plain                  bool
		class                  sink.Class
	}{
		{"listed", "tcp", l.Addr().String(), Config{AllowNetworks: loopback}, true, sink.ClassOK},
		{"listed by a name", "tcp", "db.example:" + port, Config{AllowNetworks: loopback, Resolver: rebound}, true, sink.ClassOK},
		{"not listed", "tcp", l.Addr().String(), Config{}, false, sink.ClassForbidden},
		{"a name for it", "tcp", "db.example:" + port, Config{Resolver: rebound}, false, sink.ClassForbidden},
		{"a public one in plain text", "tcp", "db.example:5432", Config{Resolver: public}, true, sink.ClassForbidden},
		{"a socket of this machine", "unix", "/var/run/postgresql/.s.PGSQL.5432", Config{AllowNetworks: loopback}, true, sink.ClassForbidden},
		{"a number", "tcp", "2130706433:5432", Config{AllowNetworks: loopback}, true, sink.ClassForbidden},
		{"no port", "tcp", "127.0.0.1", Config{AllowNetworks: loopback}, true, sink.ClassForbidden},
		{"no such name", "tcp", "db.example:5432", Config{Resolver: nowhere{}}, false, sink.ClassDNS},
		{"a name server that does not answer", "tcp", "db.example:5432", Config{Resolver: slow{}}, false, sink.ClassDNS},
		{"nobody there", "tcp", "127.0.0.1:1", Config{AllowNetworks: loopback}, true, sink.ClassNetwork},
	} {
		c, err := New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		wait := time.Minute
		if tt.cfg.Resolver == (slow{}) {
			wait = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		conn, err := c.Dial(ctx, tt.network, tt.address, tt.plain)
		if got := sink.ClassOf(err); got != tt.class {
			t.Errorf("%s: class %q, want %q: %v", tt.name, got, tt.class, err)
		}
		if err != nil {
			if tt.class != sink.ClassForbidden && !sink.Untouched(err) {
				t.Errorf("%s: nothing was sent, and %v does not say so", tt.name, err)
			}
			continue
		}
		if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "hello") {
			t.Errorf("%s: connected to something else", tt.name)
		}
		conn.Close()
	}
}

// TestLocalhost: of the addresses that the machine's file has for localhost, those that are listed are taken, and no other name has any left out.
func TestLocalhost(t *testing.T) {
	t.Parallel()
	both := static{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")}
	for _, tt := range []struct {
		host    string
		allowed []netip.Prefix
		want    string // where it connects; empty: it is refused
	}{
		{"localhost", loopback[:1], "127.0.0.1:80"},
		{"LocalHost", loopback[:1], "127.0.0.1:80"},
		{"localhost", []netip.Prefix{netip.MustParsePrefix("::1/128")}, "[::1]:80"},
		{"localhost", nil, ""},
		{"local.example", loopback[:1], ""},
	} {
		asked := ""
		c, err := New(Config{AllowNetworks: tt.allowed, Resolver: both, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			asked += address
			ours, theirs := net.Pipe()
			theirs.Close()
			return ours, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Dial(t.Context(), "tcp", tt.host+":80", true)
		if asked != tt.want || (tt.want == "") != (sink.ClassOf(err) == sink.ClassForbidden) {
			t.Errorf("%s with %v: connected to %q, want %q: %v", tt.host, tt.allowed, asked, tt.want, err)
		}
	}
}

// TestDialOfOurOwn: an address is judged before it is given to whatever connects.
func TestDialOfOurOwn(t *testing.T) {
	t.Parallel()
	var asked []string
	memory := func(_ context.Context, _, address string) (net.Conn, error) {
		asked = append(asked, address)
		ours, theirs := net.Pipe()
		theirs.Close()
		return ours, nil
	}
	for address, class := range map[string]sink.Class{"10.0.0.1:443": sink.ClassForbidden, "127.0.0.1:80": sink.ClassOK} {
		c, err := New(Config{AllowNetworks: loopback, Dial: memory})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Dial(t.Context(), "tcp", address, true); sink.ClassOf(err) != class {
			t.Errorf("%s: %v, want %s", address, err, class)
		}
	}
	if len(asked) != 1 || asked[0] != "127.0.0.1:80" {
		t.Errorf("connected to %q", asked)
	}
}
