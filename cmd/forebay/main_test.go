package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"forebay": main})
}

func TestScripts(t *testing.T) { // not beside others: commands change the directory
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(here, "testdata/script/*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		scripts = []string{filepath.Join(here, "testdata/script/asking.txtar"), filepath.Join(here, "testdata/script/mistakes.txtar")}
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Setup: func(e *testscript.Env) error {
			e.Setenv("VECTORS", filepath.Join(here, "../../ingest/vectors"))
			e.Setenv("N", "\n")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exitsOneByOne is held by the command that runs: the directory and the environment are those of the process.
var exitsOneByOne sync.Mutex

// exits runs a command line in this process, which starts in no time, and wants exactly this exit code: exits 5 forebay config check -c
// bad.yaml. Its output is in the files stdout and stderr. What only a process shows is run by exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "forebay" {
		ts.Fatalf("usage: exits CODE forebay [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	exitsOneByOne.Lock()
	defer exitsOneByOne.Unlock()
	before, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer os.Chdir(before)
	for _, name := range []string{"HOME", "TMPDIR", "A", "B", "C", "P", "FOREBAY_URL", "FOREBAY_POSTGRES_URL", "ORDERS_SECRET", "REGISTRY_URL", "REGISTRY_PASSWORD", "NO_COLOR"} {
		was, ok := os.LookupEnv(name)
		defer func() {
			if os.Unsetenv(name); ok {
				os.Setenv(name, was)
			}
		}()
		if os.Unsetenv(name); ts.Getenv(name) != "" {
			os.Setenv(name, ts.Getenv(name))
		}
	}
	stdout, err := os.Create("stdout")
	ts.Check(err)
	defer stdout.Close()
	stderr, err := os.Create("stderr")
	ts.Check(err)
	defer stderr.Close()
	if got := command(context.Background(), args[2:], strings.NewReader(""), stdout, stderr); got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("./stdout"), ts.ReadFile("./stderr"))
	}
}
