package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

// replays is what runningReplay has beside its own methods: a field cannot have the name of one.
type replays = api.Replays

// runningReplay has one replay, which is done when it is asked for the third time; the second time the process is away.
type runningReplay struct {
	replays
	asked *int
}

func (r runningReplay) Replay(context.Context, int64) (*api.ReplayItem, error) {
	*r.asked++
	switch *r.asked {
	case 1:
		return &api.ReplayItem{ID: "7", State: "running", StartedAt: new(time.Now()), Range: api.ReplayRange{Offsets: 90, Passed: 30}, Applied: 4, Done: 26}, nil
	case 2:
		return nil, schemas.Errorf(schemas.Unavailable, "", "it starts")
	}
	return &api.ReplayItem{ID: "7", State: "done", StartedAt: new(time.Now()), Range: api.ReplayRange{Offsets: 90, Passed: 90}, Applied: 5, Done: 85}, nil
}

// TestReplayWatchDrawsABar: on a terminal one line is drawn over, across a process that is away for a moment; elsewhere each change is a
// line of JSON.
func TestReplayWatchDrawsABar(t *testing.T) {
	t.Parallel()
	watch := func(stdout io.Writer) (said string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			client, err := inProcess(api.Config{Replays: runningReplay{asked: new(int)}})
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			c := replayWatchCmd{replayArg: replayArg{ID: "7"}}
			if err := c.Run(&env{ctx: t.Context(), output: "table", Options: Options{Stdout: stdout, Stderr: &stderr}}, client); err != nil {
				t.Error(err)
			}
			said = stderr.String()
		})
		return said
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

// inProcess returns a client of what cfg answers, with what every process has.
func inProcess(cfg api.Config) (*api.Client, error) {
	cfg.Ready = func(context.Context, bool) []api.Check { return nil }
	cfg.Attention = func(context.Context, api.AttentionFilter) (*api.Attention, error) { return nil, nil }
	cfg.Sources = func() []api.SourceItem { return nil }
	cfg.Subscriptions = func(context.Context) []api.SubscriptionItem { return nil }
	cfg.Quarantine, cfg.Gatherer = struct{ api.Quarantine }{}, prometheus.NewRegistry()
	return api.InProcess(cfg)
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

// shownBy returns what a command writes to stderr, which is a terminal.
func shownBy(t *testing.T, run func(e *env)) string {
	t.Helper()
	terminal, screen := terminalOf(t, 100)
	e := &env{ctx: t.Context(), output: "id", stderr: &hiding{to: terminal}, Options: Options{Stdout: io.Discard}}
	e.Stderr = e.stderr
	run(e)
	terminal.Close()
	got, _ := io.ReadAll(screen) // ends with an error, as nobody has the terminal any more
	return string(got)
}

// TestReplayPlanDrawsABar: counting is shown by a bar that is gone at the end, elsewhere by lines; how to go on is said in both cases.
func TestReplayPlanDrawsABar(t *testing.T) {
	t.Parallel()
	plan := func(e *env) {
		counted := int64(0)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			counted += 30
			item := api.ReplayItem{ID: "7", State: "counting", Range: api.ReplayRange{Offsets: 90, Counted: counted}}
			if counted == 90 {
				item.State = "planned"
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(item)
		}))
		defer s.Close()
		client, err := api.NewClient(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&replayPlanCmd{Continue: "7"}).Run(e, client); err != nil {
			t.Error(err)
		}
	}
	const goesOn = "counting; interrupted, `forebay replay plan --continue 7` goes on"
	want := goesOn + "\r\n" +
		"\r\x1b[K[##########....................]  33% 30 of 90 offsets" +
		"\r\x1b[K[####################..........]  66% 60 of 90 offsets\r\x1b[K"
	if got := shownBy(t, plan); got != want {
		t.Errorf("the screen got\n%q, want\n%q", got, want)
	}
	var lines strings.Builder
	plan(&env{ctx: t.Context(), output: "id", Options: Options{Stdout: io.Discard, Stderr: &lines}})
	if got, want := lines.String(), goesOn+"\n30 of 90 offsets\n60 of 90 offsets\n"; got != want {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}

// deadLetters is what manyDead has beside its own methods: a field cannot have the name of one.
type deadLetters = api.DeadLetters

// manyDead has dead letters, each of whose records takes a moment. uncounted says that there are too many to be counted.
type manyDead struct {
	deadLetters
	uncounted bool
}

func (manyDead) DeadLetters(context.Context, api.DeadLetterFilter) (api.Page[api.DeadLetterItem], error) {
	return api.Page[api.DeadLetterItem]{Items: []api.DeadLetterItem{{ID: "act_1"}, {ID: "act_2"}, {ID: "act_3"}}}, nil
}

func (d manyDead) DeadLetterGroups(context.Context, api.DeadLetterFilter) (api.Page[api.DeadLetterGroup], error) {
	return api.Page[api.DeadLetterGroup]{Items: []api.DeadLetterGroup{{Count: 2}, {Count: 1}}, More: d.uncounted}, nil
}

func (manyDead) DeadRecord(_ context.Context, id string) (*api.DeadRecord, error) {
	time.Sleep(drawEvery)
	if id == "act_2" {
		return nil, schemas.Errorf(schemas.NotFound, "", "it was replayed")
	}
	return &api.DeadRecord{}, nil
}

// TestExportDrawsABar: what is written to a file is shown by a bar, or by its number where there are too many to be counted.
func TestExportDrawsABar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uncounted bool
		want      string
	}{
		{false, "\r\x1b[K[..............................]   0% 0 written" +
			"\r\x1b[K[##########....................]  33% 1 written" +
			"\r\x1b[K[####################..........]  66% 2 written\r\x1b[K2 written\r\n"},
		{true, "\r\x1b[K0 written\r\x1b[K1 written\r\x1b[K2 written\r\x1b[K2 written\r\n"},
	} {
		file := filepath.Join(t.TempDir(), "dead.jsonl")
		got := shownBy(t, func(e *env) {
			synctest.Test(t, func(t *testing.T) { // the bar is drawn by the time that the records take, however slow the machine
				e.ctx = t.Context()
				client, err := inProcess(api.Config{DeadLetters: manyDead{uncounted: tt.uncounted}})
				if err == nil {
					err = (&dlqExportCmd{File: file}).Run(e, client)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
		if got != tt.want {
			t.Errorf("the screen got\n%q, want\n%q", got, tt.want)
		}
		if text, err := os.ReadFile(file); strings.Count(string(text), "\n") != 2 {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// TestRekeyDrawsABar: what is copied is shown by a bar.
func TestRekeyDrawsABar(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events.acme.github"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	broker := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, key := range []string{"1", "2", "3"} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "events.acme.github", Key: []byte(key)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: postgres://h/d}\nteams: {acme: {sources: {github: {preset: github, secrets: [0123456789abcdef]}}}}\n", broker)
	cfg, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rekeying{cmd: &topicsRekeyCmd{Topic: "events.acme.github", To: "events.acme.github.2", Partitions: 2}, cfg: cfg, team: "acme", source: "github"}
	got := shownBy(t, func(e *env) {
		if _, err := r.copy(e, func(topics.Copied) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	const full = "\r\x1b[K[##############################] 100% "
	if !strings.HasSuffix(got, full+"copied 3 of 3 records\r\x1b[K") {
		t.Errorf("the screen got %q", got)
	}
}
