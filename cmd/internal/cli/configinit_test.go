package cli

import (
	"bytes"
	"os"
	"testing"
)

// TestConfigInitToStdout: - is standard output, as - of other commands is standard input, and no file of that name.
func TestConfigInitToStdout(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"config", "init", "--dev", "-"}, Options{Stdout: &out, Stderr: &errs}); code != 0 || out.Len() == 0 {
		t.Errorf("exit code %d, %d bytes, %s", code, out.Len(), errs.String())
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("%v %v", files, err)
	}
}
