package deployment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestJudge: a test on real parts that failed counts as passed once it has passed alone, and only then: not where it fails again, is skipped, or no
// test of its name ran.
func TestJudge(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(".ci/judge needs Python")
	}
	const of = "github.com/forebay-io/forebay/cmd/internal/app"
	line := func(action, test string) string {
		return fmt.Sprintf("{\"Action\":%q,\"Package\":%q,\"Test\":%q}\n", action, of, test)
	}
	first := line("pass", "TestOther") + line("fail", "TestStarts") + line("fail", "")
	for name, c := range map[string]struct {
		alone, exit string // of the second run
		passes      bool
		last        string
	}{
		"it passes":      {line("pass", "TestStarts") + line("pass", ""), "0", true, "2 passed, 0 failed"},
		"it fails again": {line("fail", "TestStarts") + line("fail", ""), "1", false, "1 passed, 1 failed"},
		"it is skipped":  {line("skip", "TestStarts") + line("pass", ""), "0", false, "1 passed, 1 failed"},
		"none ran":       {line("pass", ""), "0", false, "1 passed, 1 failed"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{
			"results": first, "alone": c.alone,
			"go": "#!/bin/sh\nif [ \"$1\" = list ]; then echo " + of + "; else cat " + dir + "/alone; exit " + c.exit + "; fi\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		judge := exec.CommandContext(t.Context(), "../../../.ci/judge", filepath.Join(dir, "results"))
		judge.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := judge.Output()
		text := strings.TrimSpace(string(out))
		if passes := err == nil; passes != c.passes || !strings.HasSuffix(text, "\n"+c.last) || strings.Contains(text, "flaky: TestStarts") != c.passes {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
