package embedded

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestKeepPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := keepPort(dir, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keepPort(dir, testLog(t)); err != nil || again != first {
		t.Errorf("second time: port %d instead of %d, %v", again, first, err)
	}
	stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	other, err := keepPort(dir, testLog(t))
	if err != nil || other == first {
		t.Errorf("with the port taken: port %d, %v", other, err)
	}
	for _, bad := range []string{"", "http", "0", "65536", "-1"} {
		if err := os.WriteFile(filepath.Join(dir, "port"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if port, err := keepPort(dir, testLog(t)); err == nil {
			t.Errorf("%q was taken for port %d", bad, port)
		}
	}
}

// TestPortTakenMeanwhile: a port that another program takes between its choice and its use is not the end of the start.
func TestPortTakenMeanwhile(t *testing.T) {
	t.Parallel()
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	taken := stranger.Addr().(*net.TCPAddr).Port
	cfg := BrokerConfig{Dir: t.TempDir(), Logger: testLog(t), Retention: time.Hour}
	choices := 0
	c, err := newCluster(&cfg, func() (int, error) {
		if choices++; choices == 1 {
			return taken, nil
		}
		return freePort()
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if choices < 2 || cfg.Port == taken {
		t.Errorf("%d choices, port %d", choices, cfg.Port)
	}
	if _, err := newCluster(&BrokerConfig{Dir: t.TempDir(), Logger: testLog(t), Retention: time.Hour}, func() (int, error) { return taken, nil }); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("always taken: %v", err)
	}
}
