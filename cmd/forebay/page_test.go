package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

var (
	pageBlock   = regexp.MustCompile("(?ms)^```(\\w+)(?: ([^\\n]+))?\\n(.*?)^```$")
	pageCommand = regexp.MustCompile(`^\$ (forebay .*?)(?:\s+# exit code (\d))?$`)
)

// TestSchemasPage does what deploy/docs/SCHEMAS.md says: a block with a file name is that file, and commands print what stands below them.
func TestSchemasPage(t *testing.T) {
	page, err := os.ReadFile("../../deploy/docs/SCHEMAS.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, files strings.Builder
	commands := 0
	file := func(name, text string) { fmt.Fprintf(&files, "-- %s --\n%s", name, text) }
	for _, b := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		if b[1] != "console" {
			if b[2] != "" {
				file(b[2], b[3])
			}
			continue
		}
		for lines := strings.SplitAfter(b[3], "\n"); len(lines) > 0 && lines[0] != ""; {
			m := pageCommand.FindStringSubmatch(strings.TrimSpace(lines[0]))
			if m == nil {
				t.Fatalf("%q is no command", lines[0])
			}
			want := ""
			for lines = lines[1:]; len(lines) > 0 && !strings.HasPrefix(lines[0], "$ "); lines = lines[1:] {
				want += lines[0]
			}
			commands++
			fmt.Fprintf(&script, "exits %s %s\ncmp ./stdout want%d\n", "0"+m[2], m[1], commands)
			file(fmt.Sprintf("want%d", commands), want)
		}
	}
	if commands < 4 {
		t.Fatalf("the page has %d commands", commands)
	}
	path := filepath.Join(t.TempDir(), "page.txtar")
	if err := os.WriteFile(path, []byte(script.String()+files.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := srfake.New(srfake.WithAuth("Basic " + base64.StdEncoding.EncodeToString([]byte("forebay:of-the-page"))))
	t.Cleanup(registry.Close)
	testscript.Run(t, testscript.Params{Files: []string{path}, Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("ORDERS_SECRET", "orders-secret-of-the-page")
			e.Setenv("REGISTRY_URL", registry.URL())
			e.Setenv("REGISTRY_PASSWORD", "of-the-page")
			e.Setenv("FOREBAY_POSTGRES_URL", "postgres://forebay@127.0.0.1/forebay")
			return nil
		}})
}
