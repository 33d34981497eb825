package owner

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A namespace whose machine is said to have been up for five minutes more is what a suspension looks like to a process.
func TestSuspended(t *testing.T) {
	t.Parallel()
	const asked = "FOREBAY_SUSPENDED"
	if os.Getenv(asked) != "" {
		fmt.Printf("suspended %s.\n", suspended())
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--time", "--boottime", "300", os.Args[0], "-test.run=^TestSuspended$", "-test.v")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("no time namespace can be made here: %v: %s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "suspended ")
	text, _, _ = strings.Cut(text, ".\n")
	there, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if off := there - suspended() - 5*time.Minute; off.Abs() > time.Second {
		t.Errorf("%s in the namespace, %s outside", there, suspended())
	}
}
