package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"forebay": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	vectors, err := filepath.Abs("../../ingest/vectors")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() { // a script starts the program ten times and more
		scripts = []string{"testdata/script/asking.txtar", "testdata/script/mistakes.txtar"}
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Setup: func(e *testscript.Env) error {
			e.Setenv("VECTORS", vectors)
			e.Setenv("N", "\n")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a program and wants exactly this exit code: exits 5 forebay config check -c bad.yaml. Its output is in
// the files stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	stdout, err := os.Create(ts.MkAbs("stdout"))
	ts.Check(err)
	defer stdout.Close()
	stderr, err := os.Create(ts.MkAbs("stderr"))
	ts.Check(err)
	defer stderr.Close()
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), stdout, stderr
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "A", "B", "C", "P", "FOREBAY_URL", "FOREBAY_POSTGRES_URL", "ORDERS_SECRET", "REGISTRY_URL", "REGISTRY_PASSWORD", "NO_COLOR"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	err = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		out, _ := os.ReadFile(ts.MkAbs("stdout"))
		errs, _ := os.ReadFile(ts.MkAbs("stderr"))
		ts.Fatalf("exit code %d, want %d (%v)\n%s%s", got, want, err, out, errs)
	}
}
