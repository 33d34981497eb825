package embedded

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv makes the test binary act as the process that a test kills: "broker DIR", "postgres DIR" or
// "temporary DIR".
const helperEnv = "FOREBAY_EMBEDDED_HELPER"

func TestMain(m *testing.M) {
	if job := os.Getenv(helperEnv); job != "" {
		kind, dir, _ := strings.Cut(job, " ")
		switch kind {
		case "broker":
			helpBroker(dir)
		case "postgres":
			helpPostgres(PostgresConfig{Dir: dir})
		case "temporary":
			stateRoot = filepath.Join(dir, "state")
			helpPostgres(PostgresConfig{Dir: filepath.Join(dir, "closed", "postgres"), Temporary: filepath.Join(dir, "closed")})
		}
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

// helper starts the test binary in another role. It is killed when the test ends.
func helper(t *testing.T, job string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+job)
	cmd.Stderr = os.Stderr
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// openDir is a temporary directory that other users can enter, unlike t.TempDir: as root, PostgreSQL's user has to.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "forebay-embedded-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testLog shows the log of a failing test.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
