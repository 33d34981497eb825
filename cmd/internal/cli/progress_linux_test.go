package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// TestReplayWatchDrawsABar: on a terminal one line is drawn over, across a process that is away for a moment; elsewhere each change is a
// line of JSON.
func TestReplayWatchDrawsABar(t *testing.T) {
	t.Parallel()
	answers := func() http.Handler {
		asked := 0
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			item := api.ReplayItem{ID: "7", Mode: "fill", State: "running", StartedAt: new(time.Now()), Range: api.ReplayRange{Offsets: 90, Passed: 30}, Applied: 4, Done: 26}
			switch asked {
			case 2:
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = json.NewEncoder(w).Encode(api.Problem{Detail: "it starts", Kind: string(schemas.Unavailable)})
				return
			case 3:
				item.State, item.Range.Passed, item.Applied, item.Done = "done", 90, 5, 85
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(item)
		})
	}
	watch := func(stdout io.Writer) string {
		t.Helper()
		s := httptest.NewServer(answers())
		defer s.Close()
		client, err := api.NewClient(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		c := replayWatchCmd{replayArg: replayArg{ID: "7"}}
		if err := c.Run(&env{ctx: t.Context(), output: "table", Options: Options{Stdout: stdout, Stderr: &stderr}}, client); err != nil {
			t.Error(err)
		}
		return stderr.String()
	}
	terminal, screen := terminalOf(t, 100)
	if said := watch(terminal); !strings.Contains(said, "it starts (asking again)") {
		t.Errorf("stderr has %q", said)
	}
	terminal.Close()
	got, _ := io.ReadAll(screen) // ends with an error, as nobody has the terminal any more
	want := "\r\x1b[K[##########....................]  33% running, 4 ran, 26 done before, 0 errors" +
		"\r\x1b[K[##############################] 100% done, 5 ran, 85 done before, 0 errors\r\n"
	if string(got) != want {
		t.Errorf("the screen got\n%q, want\n%q", got, want)
	}
	var lines strings.Builder
	watch(&lines)
	if got := strings.Split(strings.TrimSpace(lines.String()), "\n"); len(got) != 2 || !strings.Contains(got[0], `"passed":30,"offsets":90,"ran":4`) || !strings.Contains(got[1], `"state":"done"`) {
		t.Errorf("%q", got)
	}
}

// TestBulkDrawsABar: on a terminal one line shows how far it is, gives way to what is said of an item, and is gone at the end.
func TestBulkDrawsABar(t *testing.T) {
	t.Parallel()
	terminal, screen := terminalOf(t, 100)
	var stdout strings.Builder
	e := &env{output: "id", stderr: &hiding{to: terminal}, Options: Options{Stdout: &stdout}}
	e.Stderr = e.stderr
	b := &bulk[string]{env: e, named: true, rate: 4}
	for _, name := range []string{"one", "two", "three"} {
		b.requests = append(b.requests, request[string]{name: name, do: func(bool) (*string, string, error) {
			if name == "two" {
				return nil, "", schemas.Errorf(schemas.Conflict, "", "it is done")
			}
			return &name, api.StateDone, nil
		}})
	}
	synctest.Test(t, func(t *testing.T) { // the bar is drawn by the time between the requests, however slow the machine
		e.ctx = t.Context()
		if err := b.run(func(s string) string { return s }); err == nil {
			t.Error("it does not fail, although one had moved on")
		}
	})
	terminal.Close()
	got, _ := io.ReadAll(screen) // ends with an error, as nobody has the terminal any more
	want := "\r\x1b[K[..............................]   0% 0 of 3" +
		"\r\x1b[Ktwo: it is done\r\n" +
		"\r\x1b[K[####################..........]  66% 2 of 3, 1 not done" +
		"\r\x1b[K[##############################] 100% 3 of 3, 1 not done" +
		"\r\x1b[K3 selected, 2 done, 1 gone on by themselves or with another\r\n"
	if string(got) != want || stdout.String() != "one\nthree\n" {
		t.Errorf("the screen got\n%q, want\n%q\n%s", got, want, stdout.String())
	}
}
