package embedded

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
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
