package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// browser is Debian's Chromium, driven through playwright-core by drive.mjs.
type browser struct {
	t    *testing.T
	base string // of the console
	in   io.Writer
	out  *bufio.Scanner
}

func openBrowser(t *testing.T, base string) *browser {
	t.Helper()
	short.NeedsServer(t, "Chromium")
	dir := filepath.Join("..", "console", "testdata", "browser")
	_, packages := os.Stat(filepath.Join(dir, "node_modules"))
	_, node := exec.LookPath("node")
	chromium, none := exec.LookPath("chromium")
	if err := errors.Join(packages, node, none); err != nil {
		if os.Getenv("FOREBAY_ALLOW_SKIP_BROWSER") == "1" && os.Getenv("CI") == "" { // by make test, never by .ci/run
			t.Skip("NOT TESTED IN A BROWSER: Chromium, Node.js or the packages that drive it are not here")
		}
		t.Fatalf("the console cannot be tested in a browser: run make deps, which needs Chromium, Node.js and npm (Debian: chromium, nodejs, npm): %v", err)
	}
	cmd := exec.Command("node", "drive.mjs")
	cmd.Dir, cmd.Stderr, cmd.Env = dir, t.Output(), append(os.Environ(), "CHROMIUM="+chromium)
	in, err := cmd.StdinPipe() // its end is the browser's
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	b := &browser{t: t, base: base, in: in, out: bufio.NewScanner(out)}
	b.out.Buffer(nil, 8<<20)
	t.Logf("Chromium %v", b.answer())
	return b
}

// answer reads the answer to a command.
func (b *browser) answer() any {
	b.t.Helper()
	var a struct {
		Value any
		Error string
	}
	if !b.out.Scan() {
		b.t.Fatalf("the browser has ended: %v", b.out.Err())
	}
	if err := json.Unmarshal(b.out.Bytes(), &a); err != nil {
		b.t.Fatalf("%v in %s", err, b.out.Text())
	}
	if a.Error != "" {
		b.t.Fatal(a.Error)
	}
	return a.Value
}

// do sends a command with its arguments, name and value in turn.
func (b *browser) do(command string, args ...any) any {
	b.t.Helper()
	c := map[string]any{"do": command}
	for i := 0; i < len(args); i += 2 {
		c[args[i].(string)] = args[i+1]
	}
	if err := json.NewEncoder(b.in).Encode(c); err != nil {
		b.t.Fatal(err)
	}
	return b.answer()
}

func (b *browser) open(path string)        { b.t.Helper(); b.do("open", "url", b.base+path) }
func (b *browser) click(role, name string) { b.t.Helper(); b.do("click", "role", role, "name", name) }

// tabTo goes on with the Tab key until it reaches what says text, or is a field of that name.
func (b *browser) tabTo(text string) {
	b.t.Helper()
	var passed []any
	for len(passed) < 100 {
		b.do("press", "name", "Tab")
		on := b.do("focused")
		if on == text {
			return
		}
		passed = append(passed, on)
	}
	b.t.Fatalf("the Tab key does not lead to %s, but to %q", text, passed)
}

// enter goes to a link or a button by the keyboard, and presses it.
func (b *browser) enter(name string) {
	b.t.Helper()
	b.tabTo(name)
	b.do("press", "name", "Enter")
}

// see waits until an element of a role says text.
func (b *browser) see(role, text string) { b.t.Helper(); b.do("see", "role", role, "text", text) }

// until loads a page again until it says all of the texts: what it shows may be seconds old.
func (b *browser) until(path string, texts ...string) {
	b.t.Helper()
	if !rig.Until(time.Minute, func() bool { b.open(path); return containsAll(b.do("text").(string), texts...) }) {
		b.says(texts...)
	}
}

// check looks at the page that is open, in both colours and at the width of a desk and of a phone: axe-core finds nothing, nothing is wider
// than the screen, and nothing was blocked, failed or asked for elsewhere.
func (b *browser) check(name string) {
	b.t.Helper()
	for _, look := range []struct {
		scheme string
		width  int
	}{{"light", 1280}, {"dark", 390}} {
		b.do("look", "scheme", look.scheme, "width", look.width)
		b.do("shot", "file", filepath.Join(b.t.ArtifactDir(), name+"-"+look.scheme+".png"))
		for _, violation := range b.do("axe").([]any) {
			b.t.Errorf("%s, %s, %d wide: %s", name, look.scheme, look.width, violation)
		}
		if n := b.do("overflow").(float64); n > 0 {
			b.t.Errorf("%s, %d wide: the page is %v wider than the screen", name, look.width, n)
		}
	}
	for _, complaint := range b.do("complaints").([]any) {
		b.t.Errorf("%s: %s", name, complaint)
	}
	b.do("look", "scheme", "light", "width", 1280)
}

// complained fails the test unless what was blocked, failed or asked for elsewhere since the last check is as often there as it is listed: the
// browser says of every answer that it is no success.
func (b *browser) complained(want ...string) {
	b.t.Helper()
	var found []any
	rig.Until(10*time.Second, func() bool { found = append(found, b.do("complaints").([]any)...); return len(found) >= len(want) })
	for _, of := range want {
		i := slices.IndexFunc(found, func(one any) bool { return strings.Contains(one.(string), of) })
		if i < 0 {
			b.t.Errorf("the browser has nothing to say of %s", of)
			continue
		}
		found = slices.Delete(found, i, i+1)
	}
	for _, complaint := range found {
		b.t.Error(complaint)
	}
}

// waitAt waits until the browser is at a path with its query.
func (b *browser) waitAt(path string) {
	b.t.Helper()
	if !rig.Until(30*time.Second, func() bool { return b.do("at") == b.base+path }) {
		b.t.Fatalf("the browser is at %s, not at %s:\n%s", b.do("at"), path, b.do("text"))
	}
}

// says fails the test unless the page says all of the texts.
func (b *browser) says(texts ...string) {
	b.t.Helper()
	said := b.do("text").(string)
	for _, want := range texts {
		if !strings.Contains(said, want) {
			b.t.Errorf("the page does not say %q:\n%s", want, said)
		}
	}
}
