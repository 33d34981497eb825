package app

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/notify"
)

// TestServiceManagerIsTold: that it runs once its listeners are bound, whether or not a broker answers; that it lives; and that it stops, before its end.
func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func() string {
		buf := make([]byte, 100)
		socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	until := func(want string, not ...string) {
		t.Helper()
		for got := told(); got != want; got = told() {
			for _, n := range not {
				if got == n {
					t.Fatalf("told %s before %s", got, want)
				}
			}
		}
	}
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	r.cluster.Close()
	r.service = notify.New(func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000"}[key]
	}, slog.New(slog.DiscardHandler))
	p := r.start(config.RoleIntake)
	until("READY=1", "WATCHDOG=1", "STOPPING=1")
	if status, body := p.readyz(); status != 503 {
		t.Errorf("ready without a broker: %d %s", status, body)
	}
	until("WATCHDOG=1", "STOPPING=1")
	p.app.ready.mu.Lock()        // a part that never gives it back
	for began := time.Now(); ; { // those that are told already are read first; then it is silent
		socket.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := socket.Read(make([]byte, 100)); err != nil {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Error("signs of life of a process that stands still")
			break
		}
	}
	p.app.ready.mu.Unlock()
	until("WATCHDOG=1", "STOPPING=1")
	p.clean()
	until("STOPPING=1")
}
