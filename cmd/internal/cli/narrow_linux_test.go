package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
)

// terminalOf opens a terminal with so many columns. What is written to it is read from screen.
func terminalOf(t *testing.T, columns uint16) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return terminal, screen
}

// On 60 columns a table that does not fit becomes blocks, none of whose lines is broken; one that fits stays, and so do wide terminals.
func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	type item struct{ source, entity, reason, note string }
	columns := []column[item]{
		{name: "source", value: func(i item) string { return i.source }},
		{name: "entity", value: func(i item) string { return i.entity }},
		{name: "reason", value: func(i item) string { return i.reason }},
		{name: "note", wide: true, value: func(i item) string { return i.note }},
	}
	short := []item{{"github", "186853002/1", "next", "n"}}
	long := []item{short[0], {"orders", strings.Repeat("x", 45), "", "n"}}
	const table = "SOURCE  ENTITY       REASON\ngithub  186853002/1  next\n"
	blocks := "SOURCE  github\nENTITY  186853002/1\nREASON  next\n\nSOURCE  orders\nENTITY  " + long[1].entity + "\n"
	for _, tt := range []struct {
		columns uint16
		items   []item
		want    string
	}{{60, short, table}, {60, long, blocks}, {100, short, table}} {
		terminal, screen := terminalOf(t, tt.columns)
		if err := writeFitting(terminal, tt.items, tableForm{}, columns); err != nil {
			t.Fatal(err)
		}
		terminal.Close()
		got, _ := io.ReadAll(screen) // to the end, which is EIO
		if diff := cmp.Diff(tt.want, strings.ReplaceAll(string(got), "\r\n", "\n")); diff != "" {
			t.Errorf("%d columns: %s", tt.columns, diff)
		}
	}
	var file strings.Builder
	if err := writeFitting(&file, long, tableForm{}, columns); err != nil || !strings.HasPrefix(file.String(), "SOURCE  ENTITY") {
		t.Errorf("not a terminal: %v\n%s", err, file.String())
	}
}

// On 60 columns what waits for an operator is in blocks, too; only a command, which is there to be copied, is longer.
func TestAttentionOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	url := lists(t)
	for columns, want := range map[uint16][]string{
		60:  {"KIND    stopped_partition\n", "WHERE   platform.issue-triage events.platform.github/3\n", "REASON  below_log_start\n", "RUN     forebay subscriptions accept platform.issue-triage --topic events.platform.github --partition 3 --stop 17 --reason TEXT --url " + url + "\n"},
		100: {"KIND                SINCE    WHERE", "\n    forebay subscriptions accept "},
	} {
		terminal, screen := terminalOf(t, columns)
		if code := Main(t.Context(), []string{"attention", "--url", url}, Options{Stdout: terminal, Stderr: io.Discard}); code != exitOK {
			t.Fatal(code)
		}
		terminal.Close()
		got, _ := io.ReadAll(screen) // to the end, which is EIO
		text := strings.ReplaceAll(string(got), "\r\n", "\n")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%d columns: no %q in\n%s", columns, part, text)
			}
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(columns) && !strings.Contains(line, "forebay ") {
				t.Errorf("%d columns: a line of %d: %s", columns, n, line)
			}
		}
	}
}

// TestHelpOnATerminal: help uses the columns that there are, so that it has fewer lines where there are more.
func TestHelpOnATerminal(t *testing.T) {
	t.Setenv("COLUMNS", "") // which kong would believe
	lines := 1000
	for _, columns := range []uint16{60, 100, 140} {
		terminal, screen := terminalOf(t, columns)
		if code := Main(t.Context(), []string{"inbox", "redrive", "--help"}, Options{Stdout: terminal, Stderr: io.Discard}); code != exitOK {
			t.Fatal(code)
		}
		terminal.Close()
		got, _ := io.ReadAll(screen) // to the end, which is EIO
		n := strings.Count(string(got), "\n")
		if n == 0 || n >= lines {
			t.Errorf("%d lines on %d columns, and %d on fewer", n, columns, lines)
		}
		lines = n
	}
}

// TestWatchOnATerminal: each run has the screen for itself, and tables know how wide it is.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	terminal, shown := terminalOf(t, 60)
	ctx, stop := context.WithCancel(t.Context())
	e := &env{ctx: ctx, output: "table", Options: Options{Stdout: terminal, Stderr: io.Discard}}
	n := 0
	_ = e.watching(time.Millisecond, func() error {
		if n++; n == 2 {
			stop()
		}
		_, err := fmt.Fprintf(e.Stdout, "run %d on %d columns\nend\n", n, terminalWidth(e.Stdout))
		return err
	})
	text := make([]byte, 1000)
	got := ""
	for strings.Count(got, "end") < 2 {
		m, err := shown.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		got += string(text[:m])
	}
	if strings.Count(got, clearScreen) != 2 || !strings.Contains(got, "run 2 on 60 columns") {
		t.Errorf("the screen got %q", got)
	}
}

// TestConfirm answers at a terminal before something is done to all that a filter has found.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer   string
		named, dry, ye bool
		asked, done    bool
	}{
		{name: "yes", answer: "y\n", asked: true, done: true}, {name: "no", answer: "n\n", asked: true}, {name: "nothing", answer: "\n", asked: true},
		{name: "--yes", ye: true, done: true}, {name: "--dry-run", dry: true, done: true}, {name: "by name", named: true, done: true},
	} {
		terminal, shown := terminalOf(t, 100)
		if _, err := shown.WriteString(tt.answer); err != nil {
			t.Fatal(err)
		}
		stderr := &hiding{to: terminal}
		done := 0
		b := &bulk[string]{env: &env{ctx: t.Context(), output: "id", stderr: stderr, Options: Options{Stdin: terminal, Stdout: io.Discard, Stderr: stderr}}, does: "discard",
			named: tt.named, dryRun: tt.dry, yes: tt.ye, requests: slices.Repeat([]request[string]{{do: func(bool) (*string, string, error) { done++; return new("x"), "done", nil }}}, 2)}
		err := b.run(func(s string) string { return s })
		terminal.Close()
		text, _ := io.ReadAll(shown) // ends with an error, as nobody has the terminal any more
		if asked := strings.Contains(string(text), "discard 2? [y/N]"); asked != tt.asked || (done == 2) != tt.done || (err == nil) != tt.done {
			t.Errorf("%s: asked %t, done %d, %v:\n%q", tt.name, asked, done, err, text)
		}
	}
	terminal, screen := terminalOf(t, 100)
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &hiding{to: terminal}
	answered := make(chan error)
	go func() {
		answered <- (&env{ctx: ctx, stderr: stderr, Options: Options{Stdin: &stdin{terminal, ctx}, Stderr: stderr}}).confirm("discard?")
	}()
	if _, err := bufio.NewReader(screen).ReadString(']'); err != nil { // it asks
		t.Fatal(err)
	}
	cancel()
	if x, ok := errors.AsType[*exitError](<-answered); !ok || x.code != exitInterrupt {
		t.Errorf("interrupted while it asks: %v", x)
	}
	if _, err := screen.WriteString("\n"); err != nil { // the read that was left to itself ends
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	defer in.Close()
	if err := (&env{stderr: &hiding{to: io.Discard}, Options: Options{Stdin: in}}).confirm("?"); err != nil {
		t.Errorf("off a terminal: %v", err)
	}
}
