package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// silent is a stdin of which nothing ever comes.
type silent struct {
	asked chan struct{} // closed by the first Read
	end   chan struct{} // closed by the test
}

func (s *silent) Read([]byte) (int, error) {
	close(s.asked)
	<-s.end
	return 0, io.EOF
}

// TestInterruptedAtStdin: the first Ctrl-C, which ends the context, ends a command that waits for input.
func TestInterruptedAtStdin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, body := filepath.Join(dir, "forebay.yaml"), filepath.Join(dir, "body")
	text := "version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nteams:\n  acme:\n    sources: {github: {preset: github, secrets: [s]}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(body, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"send", "acme/github", "--file", "-"}, {"sign", "acme/github", "--delivery", "-"}, {"verify", "acme/github", "--file", body, "--headers", "-"},
	} {
		in := &silent{make(chan struct{}), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		code := make(chan int, 1)
		go func() {
			code <- Main(ctx, slices.Concat(args, []string{"-c", file}), Options{Stdin: in, Stdout: &out, Stderr: &errs})
		}()
		select {
		case <-in.asked:
		case c := <-code:
			t.Fatalf("%q: exit %d before stdin was read: %s", args, c, errs.String())
		}
		cancel()
		select {
		case c := <-code:
			if c != exitInterrupt {
				t.Errorf("%q: exit %d, %s", args, c, errs.String())
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%q goes on after it was interrupted", args)
		}
		close(in.end)
	}
	got, err := io.ReadAll(&stdin{strings.NewReader("a line\n"), t.Context()})
	if err != nil || string(got) != "a line\n" {
		t.Errorf("%q %v", got, err)
	}
}
