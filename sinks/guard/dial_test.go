package guard

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream"
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
		class                  stream.Class
	}{
		{"listed", "tcp", l.Addr().String(), Config{AllowNetworks: loopback}, true, stream.ClassOK},
		{"listed by a name", "tcp", "db.example:" + port, Config{AllowNetworks: loopback, Resolver: rebound}, true, stream.ClassOK},
		{"not listed", "tcp", l.Addr().String(), Config{}, false, stream.ClassForbidden},
		{"a name for it", "tcp", "db.example:" + port, Config{Resolver: rebound}, false, stream.ClassForbidden},
		{"a public one in plain text", "tcp", "db.example:5432", Config{Resolver: public}, true, stream.ClassForbidden},
		{"a socket of this machine", "unix", "/var/run/postgresql/.s.PGSQL.5432", Config{AllowNetworks: loopback}, true, stream.ClassForbidden},
		{"a number", "tcp", "2130706433:5432", Config{AllowNetworks: loopback}, true, stream.ClassForbidden},
		{"no port", "tcp", "127.0.0.1", Config{AllowNetworks: loopback}, true, stream.ClassForbidden},
		{"no such name", "tcp", "db.example:5432", Config{Resolver: nowhere{}}, false, stream.ClassDNS},
		{"a name server that does not answer", "tcp", "db.example:5432", Config{Resolver: slow{}}, false, stream.ClassDNS},
		{"nobody there", "tcp", "127.0.0.1:1", Config{AllowNetworks: loopback}, true, stream.ClassNetwork},
	} {
		c, err := New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if tt.cfg.Resolver == (slow{}) {
			wait = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		conn, err := c.Dial(ctx, tt.network, tt.address, tt.plain)
		if got := stream.ClassOf(err); got != tt.class {
			t.Errorf("%s: class %q, want %q: %v", tt.name, got, tt.class, err)
		}
		if err != nil {
			if tt.class != stream.ClassForbidden && !stream.Untouched(err) {
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
	for address, class := range map[string]stream.Class{"10.0.0.1:443": stream.ClassForbidden, "127.0.0.1:80": stream.ClassOK} {
		c, err := New(Config{AllowNetworks: loopback, Dial: memory})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Dial(t.Context(), "tcp", address, true); stream.ClassOf(err) != class {
			t.Errorf("%s: %v, want %s", address, err, class)
		}
	}
	if len(asked) != 1 || asked[0] != "127.0.0.1:80" {
		t.Errorf("connected to %q", asked)
	}
}
