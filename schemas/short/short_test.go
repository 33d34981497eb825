package short

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A run of this test binary with -short skips what needs a server and says why; one without goes on.
func TestNeedsServer(t *testing.T) {
	t.Parallel()
	if os.Getenv("FOREBAY_TEST_CHILD") != "" {
		NeedsServer(t, "PostgreSQL")
		t.Log("it goes on")
		return
	}
	for short, want := range map[string]string{"true": "needs PostgreSQL: not with -short", "false": "it goes on"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNeedsServer$", "-test.v", "-test.short="+short)
		cmd.Env = append(os.Environ(), "FOREBAY_TEST_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("-short=%s: %v, not %q:\n%s", short, err, want, out)
		}
	}
}

func TestRunIsShort(t *testing.T) {
	t.Parallel()
	if Run() != testing.Short() {
		t.Errorf("%t, and testing.Short says %t", Run(), testing.Short())
	}
}
