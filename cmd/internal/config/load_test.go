package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file that is none is refused at once: nothing waits for the writer of a pipe.
func TestWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, mark := filepath.Join(dir, "pipe"), filepath.Join(dir, "mark.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, []byte("\ufeff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe:         "is a pipe or a device, not a file: write the configuration to a file, and name that",
		"/dev/null":  "is a pipe or a device, not a file",
		"-":          "stdin is not read: write the configuration to a file, and name that",
		dir + "/not": "no such file; `forebay config init " + dir + "/not` writes an example",
		dir:          "is a directory, not a file; did you mean " + mark + "?",
		mark:         "has nothing but a byte order mark, which editors do not show; `forebay config init` writes an example",
	} {
		if _, err := Load(Options{Path: path}); err == nil || !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Load(Options{Path: dir + "/not", Embedded: true}); err == nil || !strings.Contains(err.Error(), "`forebay config init --dev --preset github --to URL "+dir+"/not` writes one") {
		t.Errorf("for dev: %v", err)
	}
}
