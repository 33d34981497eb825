package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// firstHour is a page with what a newcomer types and gets to see. In its console blocks a line that begins with "$ " is a command, those that
// begin with "> " belong to it, and what follows is what it printed.
const firstHour = "../../../deploy/examples/first-hour.md"

// TestFirstHour runs the commands of the page in one shell, and compares what they print with what the page says they do; with -update it
// writes that into the page. What is cloned is this repository's last commit; behind the build the binary is the suite's, made of the files
// as they are now, and the addresses are free ones.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "forebay dev")
	for _, program := range []string{"bash", "git", "make", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	text, err := os.ReadFile(firstHour)
	if err != nil {
		t.Fatal(err)
	}
	s, ran := startShell(t), 0
	page := regexp.MustCompile("(?s)```console\n(.*?)```\n").ReplaceAllStringFunc(string(text), func(block string) string {
		var played strings.Builder
		for _, step := range steps(strings.TrimSuffix(strings.TrimPrefix(block, "```console\n"), "```\n")) {
			step.printed = s.play(step)
			ran++
			played.WriteString(step.typed + step.printed)
		}
		return "```console\n" + played.String() + "```\n"
	})
	if ran < 10 {
		t.Fatalf("the page has %d commands", ran)
	}
	if !*update {
		return
	}
	if err := os.WriteFile(firstHour, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// step is a command as it is typed, with the prompts, and what it printed.
type step struct{ typed, printed string }

// steps splits a console block.
func steps(block string) (all []step) {
	for line := range strings.Lines(block) {
		switch {
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{typed: line})
		case strings.HasPrefix(line, "> ") && all[len(all)-1].printed == "":
			all[len(all)-1].typed += line
		default:
			all[len(all)-1].printed += line
		}
	}
	return all
}

// command is what a shell is to run.
func (s step) command() string {
	return regexp.MustCompile(`(?m)^[$>] `).ReplaceAllString(s.typed, "")
}

// looks reports whether a command changes nothing: it may be run again until it prints what is waited for.
func (s step) looks() bool {
	return regexp.MustCompile(`^\$ (cat \w+\.log|grep|ls|forebay (inbox|attention|dlq list|subscriptions))`).MatchString(s.typed)
}

// shell is a bash that runs one command after the other.
type shell struct {
	t       *testing.T
	dir     string // of the clone, once there is one
	in      io.Writer
	out     *bufio.Reader
	ours    *strings.Replacer // the page's addresses become those that are free here
	thePage *strings.Replacer // and back
}

func startShell(t *testing.T) *shell {
	home := rig.OpenDir(t)
	dir := filepath.Join(home, "forebay")
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	intake, operator, agent := rig.FreeAddress(t), rig.FreeAddress(t), rig.FreeAddress(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	s := &shell{t: t, dir: dir, ours: strings.NewReplacer("127.0.0.1:8080", intake, "127.0.0.1:9090", operator, "127.0.0.1:8000", agent, "PORT=8000", "PORT="+port(agent)),
		thePage: strings.NewReplacer(" --url http://"+operator, "", intake, "127.0.0.1:8080", operator, "127.0.0.1:9090", agent, "127.0.0.1:8000", dir, "~/forebay")}
	cmd := exec.Command("bash")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=0", "FOREBAY_URL=http://"+operator, "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=url."+repository+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/forebay-io/forebay", "GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	s.in, s.out = in, bufio.NewReader(read)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		fmt.Fprint(in, "\nkill $(jobs -p) 2>/dev/null; wait\n")
		in.Close()
		cmd.Wait()
		read.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "dev.log"))
			t.Logf("dev.log:\n%s", log)
		}
	})
	return s
}

// play runs a step and returns what it prints. If that is not what the page has, it fails, or with -update waits until nothing changes any
// more. What the page has is returned as it is where only times and the like differ.
func (s *shell) play(want step) string {
	s.t.Helper()
	got, changed := s.run(want.command()), time.Now()
	settled := func() bool {
		if plain(got) == plain(want.printed) && !*update || !want.looks() {
			return true
		}
		now := s.run(want.command())
		if plain(now) != plain(got) {
			changed = time.Now()
		}
		got = now
		return *update && got != "" && time.Since(changed) > 5*time.Second // longer than the page's longest step, of a retry
	}
	rig.Until(time.Minute, settled)
	if strings.HasPrefix(want.typed, "$ make build") {
		s.useFilesAsTheyAre()
	}
	diff := cmp.Diff(plain(want.printed), plain(got))
	switch {
	case diff == "":
		return want.printed
	case !*update:
		s.t.Fatalf("%s(-%s +got; `go test ./cmd/internal/integration -run TestFirstHour -update` records them again):\n%s", want.typed, filepath.Base(firstHour), diff)
	}
	return got
}

// useFilesAsTheyAre puts what may have changed since the last commit into the clone: the binary and what is read from the page.
func (s *shell) useFilesAsTheyAre() {
	s.t.Helper()
	for at, of := range map[string]string{"bin/forebay": forebay, "sinks/http/AGENTS.md": "../../../sinks/http/AGENTS.md"} {
		here, err := filepath.Abs(of)
		if err == nil {
			err = errors.Join(os.Remove(filepath.Join(s.dir, at)), os.Symlink(here, filepath.Join(s.dir, at)))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	// As root, Postgres would go to /var/lib/forebay and stay there: its user cannot enter what dev makes for itself.
	if err := os.Mkdir(filepath.Join(s.dir, ".forebay-forebay"), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command and returns what it prints.
func (s *shell) run(command string) string {
	s.t.Helper()
	const end = "-- the command has ended --"
	fmt.Fprintf(s.in, "%s\necho '%s'\n", strings.TrimSpace(s.ours.Replace(command)), end)
	var printed strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: the shell ends after: %s", command, printed.String())
		}
		if rest, ok := strings.CutSuffix(line, end+"\n"); ok {
			printed.WriteString(rest)
			break
		}
		if !killed.MatchString(line) {
			printed.WriteString(line)
		}
	}
	file := filepath.Join(s.dir, "forebay.yaml")
	written, _ := os.ReadFile(file) // by the page's commands, with its addresses
	if here := s.ours.Replace(string(written)); here != string(written) {
		if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.thePage.Replace(printed.String())
}

// killed is what bash says of a job that was killed.
var killed = regexp.MustCompile(`^bash: line \d+: +\d+ Terminated`)

// plain is an output without what differs from run to run, and without the width of columns.
func plain(printed string) string {
	for _, re := range differing {
		printed = re.ReplaceAllString(printed, "~")
	}
	return spaces.ReplaceAllString(trailing.ReplaceAllString(printed, ""), " ")
}

var differing = []*regexp.Regexp{
	regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`),
	regexp.MustCompile(`\d\d:\d\d:\d\d`),
	regexp.MustCompile(`\d+(\.\d+)? ?(µs|ms|s|m)\b( ago)?`),
	regexp.MustCompile(`\S*…\S*`), // how much of a cell there is depends on the others'
	regexp.MustCompile(`trace [0-9a-f]{32}`),
	regexp.MustCompile(`(?m)^(owner|  broker|  postgres) +\S+$`),
	regexp.MustCompile(`(?m)^delivery +\S+$`),
}
