package execsink

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestFirstOfAContainer: where there is no other process to do it, what a command left behind is waited for.
func TestFirstOfAContainer(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), runner+"=for i in 1 2 3; do (sleep 100 >/dev/null 2>&1 &) ; sleep 100 >/dev/null 2>&1 & done; exit 0")
	ids := []syscall.SysProcIDMap{{Size: 1, HostID: os.Getuid()}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER, UidMappings: ids}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("NOT TESTED AS A CONTAINER'S FIRST PROCESS: %v", err)
	}
	if string(out) != "<nil>\n" {
		t.Errorf("the first process says %q, %v", out, err)
	}
}
