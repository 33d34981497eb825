package integration

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of transcripts again")

// transcript is what a user types and gets to see: each command, both of its outputs, and its exit code if that is not 0.
type transcript struct {
	r    *deployment
	p    *process
	text strings.Builder
	// names are replaced in the text, in pairs: what differs from run to run.
	names []string
}

// times are replaced, too. How far a command is it says only where that takes longer than a second.
var (
	clockTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`)
	latency   = regexp.MustCompile(` +[0-9.]+ ms`)
	spaces    = regexp.MustCompile(` {2,}`)
	owner     = regexp.MustCompile(`(?m)^(owner +)\S+$`)
	traceID   = regexp.MustCompile(`trace [0-9a-f]{32}`)
	trailing  = regexp.MustCompile(`(?m) +$`)
	howFar    = regexp.MustCompile(`(?m)^\d+ of \d+\n`)
	nextPage  = regexp.MustCompile(`(?m)^(there is more: --cursor )\S+$`)
)

// say writes a remark between two commands.
func (s *transcript) say(remark string) { fmt.Fprintf(&s.text, "\n# %s\n", remark) }

// run runs a command and returns its stdout.
func (s *transcript) run(args ...string) string {
	s.r.t.Helper()
	cmd := exec.CommandContext(s.r.t.Context(), forebay, append(slices.Clone(args), "--time", "iso")...)
	cmd.Env = s.r.env("127.0.0.1:0", s.p.operator)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	for i, a := range args {
		if strings.ContainsAny(a, " *{") {
			args[i] = "'" + a + "'"
		}
	}
	fmt.Fprintf(&s.text, "\n$ forebay %s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		fmt.Fprintf(&s.text, "[exit code %d]\n", exit.ExitCode())
	} else if err != nil {
		s.r.t.Fatal(err)
	}
	return out.String()
}

// golden compares the transcript with the file of this name under testdata.
func (s *transcript) golden(name string) {
	t := s.r.t
	t.Helper()
	text := strings.NewReplacer(append(s.names, s.r.team, "acme")...).Replace(s.text.String())
	for re, by := range map[*regexp.Regexp]string{clockTime: "TIME", latency: " N ms", owner: "${1}OWNER", traceID: "trace ID", trailing: "", howFar: "", nextPage: "${1}CURSOR"} {
		text = re.ReplaceAllString(text, by)
	}
	text = strings.TrimPrefix(spaces.ReplaceAllString(text, "  "), "\n") // columns are as wide as names that differ
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got; -update writes it again):\n%s", path, diff)
	}
}
