package execsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// runner makes a copy of the test binary run one command through the sink, to be killed in the middle.
const runner = "FOREBAY_TEST_EXEC"

func TestMain(m *testing.M) {
	if script := os.Getenv(runner); script != "" {
		s, err := New(Config{Command: shell(script)})
		if err == nil {
			_, err = s.Do(context.Background(), sinktest.Action(1))
		}
		fmt.Fprintln(os.Stderr, err)
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			fmt.Fprintln(os.Stderr, "not waited for:", pid, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func must(t testing.TB, cfg Config) *Sink {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Make: func(t testing.TB, d sinktest.Target) sink.Sink {
		return must(t, Config{Command: []string{"cat"}, Env: map[string]schemas.Secret{"TOKEN": schemas.NewSecret(d.Secret)}})
	}})
}

func TestDeclaredKind(t *testing.T) {
	t.Parallel()
	if got := must(t, Config{Command: []string{"true"}}).Idempotency(); got != sink.Unsafe {
		t.Errorf("a command of which nothing is known is %s", got)
	}
	if got := must(t, Config{Command: []string{"true"}, Idempotent: true}).Idempotency(); got != sink.Idempotent {
		t.Errorf("a command that was declared idempotent is %s", got)
	}
}

func TestInputAndEnvironment(t *testing.T) {
	t.Setenv("FOREBAY_POSTGRES_URL", "postgres://never:shown@db/")
	t.Setenv("HOME", "/never/shown")
	file := filepath.Join(t.TempDir(), "body")
	a := sinktest.Action(7)
	a.Attempt, a.Late, a.Reason = 3, true, "late"
	a.Event.Type, a.Event.Deleted, a.Event.Version.Clock = "order.deleted\x00X=1", true, "order"
	a.Event.Data = []byte("{\"raw\" :  1.0}\r\n\x00\xff")
	out, err := must(t, Config{
		Command: []string{"/bin/sh", "-c", `cat >"$1"; env -0 | tr '\000\n' '\n '`, "$0", file},
		Env:     map[string]schemas.Secret{"MODE": schemas.NewSecret("test")},
	}).Do(t.Context(), a)
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	got := strings.Split(strings.TrimSpace(string(out.Response)), "\n")
	got = slices.DeleteFunc(got, func(v string) bool { // what a shell adds
		return strings.HasPrefix(v, "PWD=") || strings.HasPrefix(v, "_=") || strings.HasPrefix(v, "SHLVL=") || strings.HasPrefix(v, "OLDPWD=")
	})
	slices.Sort(got)
	for i, v := range got {
		if parent, ok := strings.CutPrefix(v, "TRACEPARENT="); ok {
			if !strings.HasPrefix(parent, a.Event.TraceParent[:36]) || parent == a.Event.TraceParent {
				t.Errorf("traceparent %s is no child of %s", parent, a.Event.TraceParent)
			}
			got[i] = "TRACEPARENT=child"
		}
	}
	want := []string{
		"FOREBAY_ACTION=run", "FOREBAY_ACTION_ID=" + string(a.ID), "FOREBAY_AGENT_CALL_CHAIN=acme.triage", "FOREBAY_AGENT_CALL_DEPTH=1",
		"FOREBAY_AGENT_TRACE_ID=0af7651916cd43dd8448eb211c80319c", "FOREBAY_ATTEMPT=3", "FOREBAY_CONTENT_TYPE=application/json",
		"FOREBAY_DELETED=true", "FOREBAY_DESTINATION=acme/agent", "FOREBAY_ENTITY=orders/7", "FOREBAY_EPOCH=4",
		"FOREBAY_EVENT_ID=delivery-7", "FOREBAY_LATE=true", "FOREBAY_REASON=late", "FOREBAY_SOURCE=/acme/orders",
		"FOREBAY_SUBSCRIPTION=acme.triage", "FOREBAY_TIME=2026-03-01T10:00:00Z", "FOREBAY_TYPE=order.deleted\uFFFDX=1",
		"FOREBAY_VERSION=00000000000000000007", "FOREBAY_VERSION_CLOCK=order", "FOREBAY_VERSION_KIND=sequence",
		"MODE=test", "PATH=" + os.Getenv("PATH"), "TRACEPARENT=child",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if body, err := os.ReadFile(file); err != nil || !bytes.Equal(body, a.Event.Data) {
		t.Errorf("standard input %q, %v", body, err)
	}
}

func TestNoShellReadsTheArguments(t *testing.T) {
	t.Parallel()
	args := []string{"printf", "%s|", "$(touch /tmp/x)", "a b", "; exit 9", "*", "`id`", ""}
	out, err := must(t, Config{Command: args}).Do(t.Context(), sinktest.Action(1))
	if want := strings.Join(args[2:], "|") + "|"; err != nil || string(out.Response) != want {
		t.Errorf("%q, %v", out.Response, err)
	}
}

// TestExitStatuses says the table again in its own words.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 1, 2, 63, 64, 65, 66, 67, 68, 69, 74, 75, 76, 77, 78, 79, 126, 127, 128, 255} {
		out, err := must(t, Config{Command: shell("exit " + strconv.Itoa(status))}).Do(t.Context(), sinktest.Action(status))
		want, untouched := sink.ClassBusy, false
		switch status {
		case 0:
			want = sink.ClassOK
		case 64, 65, 66, 67, 68, 78:
			want = sink.ClassRejected
		case 75:
			untouched = true
		case 77:
			want = sink.ClassDenied
		}
		if got := sink.ClassOf(err); got != want || out.Code != status || sink.Untouched(err) != untouched {
			t.Errorf("exit %d: class %q, code %d, untouched %v: %v", status, got, out.Code, sink.Untouched(err), err)
		}
	}
}

func TestEndedBySignal(t *testing.T) {
	t.Parallel()
	out, err := must(t, Config{Command: shell("echo begun; kill -9 $$")}).Do(t.Context(), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassBusy || sink.Untouched(err) || out.Code != 137 || string(out.Response) != "begun\n" {
		t.Errorf("%+v, %v", out, err)
	}
}

// gone waits until a process is no more.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil || n < 2 {
		t.Fatalf("no process id: %q", pid)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if err != nil || bytes.Contains(state, []byte(") Z ")) { // a zombie is somebody else's to bury
			return
		}
	}
	_ = syscall.Kill(n, syscall.SIGKILL)
	t.Errorf("process %d is still there", n)
}

// until returns a context whose time is over once there is a file.
func until(t *testing.T, file string) context.Context {
	ctx, end := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				end(context.DeadlineExceeded)
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	t.Cleanup(wg.Wait)
	return ctx
}

func TestTimeoutKillsTheGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "begun")
	began := time.Now()
	out, err := must(t, Config{Command: shell(`trap "" TERM; sleep 100 & echo $!; >` + file + `; wait`)}).Do(until(t, file), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err) {
		t.Errorf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	gone(t, string(out.Response))
}

func TestNothingInTheGroupOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"its output open": `sleep 100 & echo $!`, "its output closed": `sleep 100 >/dev/null 2>&1 </dev/null & echo $!`,
	} {
		out, err := must(t, Config{Command: shell(script)}).Do(t.Context(), sinktest.Action(1))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		gone(t, string(out.Response))
	}
}

// The process that runs the command is killed: neither the command nor what it has started may run on beside the next
// owner's attempt.
func TestCommandsDieWithTheirProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	// What commands send to their whole group leaves the keeper in place.
	script := `trap "" TERM; kill -TERM 0; (sleep 100 & sleep 100 & echo $! >>FILE.new; wait) & echo $! >>FILE.new; echo $$ >>FILE.new
		while [ $(wc -l <FILE.new) -lt 3 ]; do :; done; mv FILE.new FILE; sleep 100`
	cmd.Env = append(os.Environ(), runner+"="+strings.ReplaceAll(script, "FILE", file))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []byte
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if pids, err = os.ReadFile(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command did not begin")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for pid := range strings.FieldsSeq(string(pids)) {
		gone(t, pid)
	}
}

// A command that ends its keeper has ended its protection from a kill, and nothing else.
func TestCommandThatKillsItsKeeper(t *testing.T) {
	t.Parallel()
	out, err := must(t, Config{Command: shell(`kill -9 $(cut -d " " -f 5 /proc/$$/stat); sleep 100 >/dev/null 2>&1 & echo $!`)}).Do(t.Context(), sinktest.Action(1))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, string(out.Response))
}

func TestBodyThatNobodyReads(t *testing.T) {
	t.Parallel()
	a := sinktest.Action(1)
	a.Event.Data = bytes.Repeat([]byte("x"), 8<<20)
	if _, err := must(t, Config{Command: []string{"true"}}).Do(t.Context(), a); err != nil {
		t.Error(err)
	}
}

func TestOutputIsCutAndRedacted(t *testing.T) {
	t.Parallel()
	s := must(t, Config{
		Command: shell(`printf '%s' "$TOKEN"; head -c 4080 /dev/zero | tr '\000' x; printf '%s' "$TOKEN" >&2; head -c 1000000 /dev/zero`),
		Env:     map[string]schemas.Secret{"TOKEN": schemas.NewSecret("hush-hush-hush-hush")},
	})
	out, err := s.Do(t.Context(), sinktest.Action(1))
	if err != nil {
		t.Fatal(err)
	}
	text := string(out.Response)
	if !strings.HasPrefix(text, "<redacted>xxx") || strings.Contains(text, "hush") || len(text) > sink.MaxResponse || len(text) < 4000 {
		t.Errorf("%d bytes: %.40q ... %q", len(text), text, text[len(text)-40:])
	}
	if got := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(got, "hush") {
		t.Errorf("the sink prints %s", got)
	}
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"no-such-command-here", "/no/such/command", plain} {
		s := must(t, Config{Command: []string{program}})
		_, err := s.Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassBusy || !sink.Untouched(err) || (program == "/no/such/command") && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it retried as one that did nothing", program, err)
		}
		if err := s.Check(t.Context()); err == nil {
			t.Errorf("%s: the check found it", program)
		}
	}
	if err := must(t, Config{Command: []string{"sh"}}).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	env := func(name, value string) map[string]schemas.Secret {
		return map[string]schemas.Secret{name: schemas.NewSecret(value)}
	}
	for name, cfg := range map[string]Config{
		"no command":    {},
		"empty command": {Command: []string{"", "a"}},
		"NUL":           {Command: []string{"a", "b\x00c"}},
		"bad name":      {Command: []string{"a"}, Env: env("A=B", "hush-hush")},
		"a digit first": {Command: []string{"a"}, Env: env("1A", "hush-hush")},
		"ours":          {Command: []string{"a"}, Env: env("FOREBAY_ACTION_ID", "hush-hush")},
		"NUL in value":  {Command: []string{"a"}, Env: env("A", "hush-hush\x00")},
	} {
		_, err := New(cfg)
		if schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command that checks the key acts once, wherever its runs break off.
func TestIdempotentCommandActsOnce(t *testing.T) {
	t.Parallel()
	const act = `if mkdir "$DIR/$FOREBAY_ACTION_ID" 2>/dev/null; then echo x >>"$DIR/effects"; fi`
	for name, first := range map[string]string{
		"busy before acting": `exit 75`, "killed before acting": `kill -9 $$`, "failing before acting": `exit 1`,
		"failing after acting": act + `; exit 1`, "killed after acting": act + `; kill -9 $$`, "hanging after acting": act + `; sleep 100`,
		"killed while answering": act + `; echo half an ans; kill -9 $$`, "well": act,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := map[string]schemas.Secret{"DIR": schemas.NewSecret(dir)}
			a := sinktest.Action(1)
			ctx := t.Context()
			if strings.HasPrefix(name, "hanging") {
				ctx = until(t, filepath.Join(dir, "effects"))
			}
			_, err := must(t, Config{Command: shell(first), Env: env, Idempotent: true}).Do(ctx, a)
			if err != nil && !sink.ClassOf(err).Retried() {
				t.Fatalf("not retried: %v", err)
			}
			a.Attempt++ // also where the process was killed before it recorded that all was well
			if _, err := must(t, Config{Command: shell(act), Env: env, Idempotent: true}).Do(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "effects")); string(got) != "x\n" {
				t.Errorf("effects: %q, %v", got, err)
			}
		})
	}
}

// TestProgramBesideTheFile: a program with a slash is looked for from the directory of its file, one without by PATH.
func TestProgramBesideTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "act"), []byte("#!/bin/sh\necho \"beside $1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"./act", "it"}, {filepath.Join(dir, "act"), "it"}, {"echo", "beside it"}} {
		s, err := (&Config{Command: command}).Sink(spec.Destination{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Do(t.Context(), sinktest.Action(1))
		if err != nil || !strings.Contains(string(out.Response), "beside it") {
			t.Errorf("%q: %q %v", command, out.Response, err)
		}
	}
}
