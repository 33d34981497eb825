package httpsink

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// agentsPage returns AGENTS.md.
func agentsPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// table returns the rows of the page's table with this head.
func table(t *testing.T, page, head string) (rows []string) {
	t.Helper()
	_, rest, ok := strings.Cut(page, head+"\n")
	if !ok {
		t.Fatalf("AGENTS.md has no table %s", head)
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows = append(rows, strings.TrimSpace(line))
	}
	return rows[1:] // without the line below the head
}

// TestAgentsPageHasEveryHeader: the headers of the page are those of a call that has all that a call may have.
func TestAgentsPageHasEveryHeader(t *testing.T) {
	t.Parallel()
	a := sinktest.Action(7)
	a.Late = true
	e := a.Event
	e.Version.Clock, e.Deleted, e.Backfill, e.DeliveryID, e.DataSchema, e.TraceState = "order", true, true, "72d3162e", "https://example.com/schema", "vendor=1"
	e.Sender, e.Title = schemas.Sender{ID: "21031067", Login: "codertocat", Kind: schemas.Human, Trust: schemas.Member}, "It fails"
	e.Conversation = true
	a.Later = &sink.Later{URL: "https://agents.example.com/v1/actions/x", Token: schemas.NewSecret("token"), Deadline: time.Hour, Heartbeat: time.Minute}
	sent, _ := receive(t, Config{Secret: agentSecret}, a)
	sent.Del("Content-Length") // of HTTP itself
	var got, want []string
	for name := range sent {
		want = append(want, name)
	}
	for _, row := range table(t, agentsPage(t), "| header | is |") {
		cells := strings.SplitN(row, "|", 4)
		for _, name := range regexp.MustCompile("`([A-Z][A-Za-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
			got = append(got, name[1])
		}
	}
	got = append(got, "Ce-Traceparent", "Ce-Tracestate") // are told in the row of the trace
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-sent +AGENTS.md):\n%s", diff)
	}
}

// TestAgentsPageHasTheAnswers: its table is what the failure table says of HTTP.
func TestAgentsPageHasTheAnswers(t *testing.T) {
	t.Parallel()
	var want []string
	for _, f := range sink.Failures() {
		if len(f.Codes) == 0 && f.Class != sink.ClassTimeout && f.Class != sink.ClassNetwork && f.Class != sink.ClassDNS {
			continue // not of an answer
		}
		then, place := string(f.Then), ""
		if f.Most > 0 {
			then += fmt.Sprintf(", %d attempts in a row at most, %s apart at least, then alerted", f.Most, strings.TrimSuffix(f.Apart.String(), "0s"))
		} else if f.Alert {
			then += ", alerted"
		}
		switch {
		case f.Hold:
			place = " waits as long as `Retry-After` says"
		case f.PauseAfter == 1:
			place = " pauses"
		case f.PauseAfter > 1:
			place = fmt.Sprintf(" pauses after %d in a row", f.PauseAfter)
		}
		want = append(want, fmt.Sprintf("| %s | %s |%s |", f.What, then, place))
	}
	if diff := cmp.Diff(want, table(t, agentsPage(t), "| answer | the action is | the destination |")); diff != "" {
		t.Errorf("answers (-code +AGENTS.md):\n%s", diff)
	}
}

var agentSecret = schemas.NewSecret("whsec_" + base64.StdEncoding.EncodeToString([]byte("\xfb\xff the bytes of an agent's key")))

// agent is an agent of the page, at work.
type agent struct {
	url   string
	lines *bufio.Scanner
}

// startAgent runs the program of the page in a language, as the page says: with SECRET and PORT.
func startAgent(t *testing.T, language string, run ...string) *agent {
	t.Helper()
	_, program, ok := strings.Cut(agentsPage(t), "```"+language+"\n")
	program, _, closed := strings.Cut(program, "```\n")
	if !ok || !closed {
		t.Fatalf("AGENTS.md has no program in %s", language)
	}
	file := filepath.Join(t.TempDir(), "agent."+language)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if language == "go" { // go run would leave the program behind when it is ended
		built := strings.TrimSuffix(file, ".go")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-w", "-o", built, file)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=") // what it needs is compiled: the program is built so
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		run = []string{built}
	} else {
		run = append(run, file)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, run[0], run[1:]...)
	cmd.Env = append(os.Environ(), "SECRET="+agentSecret.Reveal(), "PORT=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("stderr of the agent:\n%s", errs.String())
		}
	})
	a := &agent{lines: bufio.NewScanner(stdout)}
	address, ok := strings.CutPrefix(a.line(), "listening on ")
	if !ok {
		t.Fatalf("the agent does not listen: %s", errs.String())
	}
	a.url = "http://" + address + "/run"
	return a
}

// line returns the next line that the agent prints.
func (a *agent) line() string {
	a.lines.Scan()
	return a.lines.Text()
}

// TestAgentsOfThePage runs the page's programs against calls of the sink.
func TestAgentsOfThePage(t *testing.T) {
	short.NeedsServer(t, "agents in Python and Node.js")
	t.Parallel()
	for language, run := range map[string][]string{"go": {"go"}, "python": {"python3"}, "js": {"node"}} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(run[0]); err != nil {
				t.Skipf("%s is not installed", run[0])
			}
			a := startAgent(t, language, run...)
			do := func(want int, action sink.Action, change func(*Config)) {
				t.Helper()
				cfg := Config{URL: a.url, Common: spec.Common{AllowNetworks: loopback}, Secret: agentSecret}
				if change != nil {
					change(&cfg)
				}
				out, err := must(t, cfg).Do(t.Context(), action)
				failed, _ := errors.AsType[*sink.AttemptError](err)
				if out.Code != want || (failed != nil) != (want != http.StatusOK) || failed != nil && failed.Class != sink.ClassDenied {
					t.Fatalf("answered %d: %v; want %d", out.Code, err, want)
				}
			}
			first, second := sinktest.Action(1), sinktest.Action(2)
			first.Event.Data = []byte(`{"issue":{"title":"` + strings.Repeat("Größe \\u0000 ", 20_000) + `"}}` + "\r\n") // 300 KB, not only ASCII
			first.Event.Entity = "acme/Größe 7%"
			second.Event.Data = nil

			do(200, first, nil)
			first.Attempt = 2
			do(200, first, nil) // the same again: not acted on
			do(401, second, func(c *Config) { c.Secret = schemas.NewSecret("whsec_" + strings.Repeat("AAAA", 10)) })
			do(401, second, func(c *Config) { c.Secret = schemas.Secret{} })
			do(401, second, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-6 * time.Minute) } })
			do(401, second, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(6 * time.Minute) } })
			brokenOff(t, a.url)
			forged(t, a.url)
			do(200, second, nil)
			for _, want := range []string{
				fmt.Sprintf("act com.example.order.changed acme/Größe 7%% %d", len(first.Event.Data)), "act com.example.order.changed orders/7 0",
			} {
				if got := a.line(); got != want {
					t.Errorf("the agent printed %q, want %q", got, want)
				}
			}
		})
	}
}

// brokenOff begins a request and goes away in the middle of its body.
func brokenOff(t *testing.T, at string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 9\r\n\r\nab", u.Path, u.Host)
	conn.Close()
}

// forged sends what was signed with another body, and under another id.
func forged(t *testing.T, url string) {
	t.Helper()
	signed, body := receive(t, Config{Secret: agentSecret}, sinktest.Action(3))
	for _, change := range []func(h http.Header) []byte{
		func(http.Header) []byte { return bytes.Replace(body, []byte("7"), []byte("8"), 1) },
		func(h http.Header) []byte { h.Set("Webhook-Id", "act_of_another"); return body },
		func(h http.Header) []byte { h.Set("Webhook-Timestamp", "now"); return body },
		func(h http.Header) []byte { h.Set("Webhook-Signature", "v1,"); return body },
		func(h http.Header) []byte {
			h.Set("Webhook-Signature", strings.TrimPrefix(h.Get("Webhook-Signature"), "v1,"))
			return body
		},
	} {
		h := signed.Clone()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(change(h)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("forged: %d", resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
