package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// New ports are below the range from which Linux takes ports for outgoing connections: one of these could take the port of a server that
// is down.
const (
	firstPort = 17000
	lastPort  = 31999
)

// keepPort returns the port of the last run in dir, which the file "port" has. If there is none, or another program has taken it, keepPort
// chooses a free one and writes it into the file.
func keepPort(dir string, logger *slog.Logger) (int, error) {
	path := filepath.Join(dir, "port")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err == nil {
		port, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || port < 1 || port > 65535 {
			return 0, fmt.Errorf("%s holds %q, which is no port: correct or remove it", path, text)
		}
		if portFree(port) {
			return port, nil
		}
		logger.Warn("the port of the last run is taken, another one is chosen", "port", port, "file", path)
	}
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	return port, writeFileAtomically(path, fmt.Appendf(nil, "%d\n", port), 0o644)
}

// freePort returns a random port at which nothing listens now.
func freePort() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 among 200 tries between %d and %d", firstPort, lastPort)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// writeFileAtomically writes a file so that it is there whole or, after a crash, as it was before. A crash may leave a temporary file
// beside it.
func writeFileAtomically(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing left to remove
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
