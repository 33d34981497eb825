package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// what is locked for the goroutines of Go's HTTP client.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// Go's HTTP client logs, by itself, what a server sends unasked, with its bytes: that is a debug line of the log as any other, and else none.
func TestClientLogsAsEverybody(t *testing.T) { // not beside others: Go has one such log
	for level, want := range map[string]bool{"info": false, "debug": true} {
		var errs locked
		if code := Main(t.Context(), []string{"version", "--log-level", level, "--log-format", "json"}, Options{Stdout: io.Discard, Stderr: &errs}); code != exitOK {
			t.Fatal(code, errs.String())
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 304 Not Modified\r\n\r\na word of its own")
			_, _ = io.Copy(io.Discard, c)
		}()
		gone := make(chan struct{})
		client := &http.Client{Transport: &http.Transport{DialContext: (&closing{gone: gone}).dial}}
		resp, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		<-gone
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		line := errs.String()
		if strings.Contains(line, "a word of its own") != want || want && !strings.HasPrefix(line, `{"time":`) {
			t.Errorf("%s: %q", level, line)
		}
	}
}

// closing dials, and says when the client closes what it has dialled, which it does once it has logged.
type closing struct {
	net.Conn
	once sync.Once
	gone chan struct{}
}

func (c *closing) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	c.Conn = conn
	return c, err
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}
