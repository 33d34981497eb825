package notify

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager: what it is told.
func manager(t *testing.T, name string) func() string {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() string {
		buf := make([]byte, 100)
		c.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestTell(t *testing.T) {
	t.Parallel()
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), "@forebay-notify-" + strconv.Itoa(os.Getpid())} {
		told := manager(t, name)
		s := New(env("NOTIFY_SOCKET", name), slog.New(slog.DiscardHandler))
		s.Tell(Ready)
		s.Tell(Stopping)
		if a, b := told(), told(); a != "READY=1" || b != "STOPPING=1" {
			t.Errorf("%s was told %q and %q", name, a, b)
		}
		s.Watch(t.Context(), func(context.Context) { t.Error("a sign of life that nobody wants") })
	}
}

// TestWatch: signs of life come twice in the time that the manager waits, and only while what is asked before them answers.
func TestWatch(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "s")
	told := manager(t, name)
	s := New(env("NOTIFY_SOCKET", name, "WATCHDOG_USEC", "2000", "WATCHDOG_PID", strconv.Itoa(os.Getpid())), slog.New(slog.DiscardHandler))
	if s.every != time.Millisecond {
		t.Errorf("every %v", s.every)
	}
	ctx, stop := context.WithCancel(t.Context())
	asked, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, func(ctx context.Context) {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	for range 3 {
		<-asked
		if got := told(); got != "WATCHDOG=1" {
			t.Errorf("told %q", got)
		}
	}
	stop()
	<-ended
}

func TestNobodyToTell(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{"", "relative", "vsock:2:1234"} {
		s := New(env("NOTIFY_SOCKET", socket, "WATCHDOG_USEC", "1000"), nil)
		if s != nil {
			t.Errorf("%q is %+v", socket, s)
		}
		s.Tell(Ready)
		s.Watch(t.Context(), nil)
	}
	for _, e := range [][]string{{"WATCHDOG_USEC", "1000", "WATCHDOG_PID", "1"}, {"WATCHDOG_USEC", "-5"}, {"WATCHDOG_USEC", "soon"}, {}} {
		if s := New(env(append(e, "NOTIFY_SOCKET", "/nowhere")...), slog.New(slog.DiscardHandler)); s.every != 0 {
			t.Errorf("%v: every %v", e, s.every)
		}
	}
	New(env("NOTIFY_SOCKET", "/nowhere/at/all"), slog.New(slog.DiscardHandler)).Tell(Ready) // logs
}
