package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/inbox"
)

func TestHint(t *testing.T) {
	t.Parallel()
	full := []scaleDestination{{name: "acme/agent", state: "running", running: 64, concurrency: 64, waiting: 4000}}
	idle := []scaleDestination{{name: "acme/agent", state: "running", running: 1, concurrency: 64, waiting: 4000}}
	for _, tt := range []struct {
		name string
		f    scaleFacts
		add  string
		says string
	}{
		{"keeps up", scaleFacts{partitions: 12, processes: 1, cores: 2, in: 100, out: 100, lag: 3, open: 2, to: full}, api.ScaleNothing,
			"add nothing: it keeps up: 100 records/s come and 100 are decided, 3 are not decided yet, 2 actions are open"},
		{"catches up within minutes", scaleFacts{partitions: 12, processes: 1, cores: 2, busy: 2, in: 100, out: 20_000, lag: 5_000_000, behind: 12}, api.ScaleNothing, "it keeps up"},
		{"paused", scaleFacts{paused: true, partitions: 12, lag: 90_000}, api.ScaleNothing, "it is paused, with 90000 records not decided; `forebay subscriptions resume acme.triage"},
		{"stands still", scaleFacts{partitions: 12, standing: 2, lag: 90_000}, api.ScaleNothing, "2 of 12 partitions stand still"},
		{"a gate with no core left", scaleFacts{partitions: 12, processes: 1, cores: 2, busy: 1.9, in: 3000, out: 1000, lag: 60_000, behind: 12, hot: 0.1}, api.ScaleProcesses,
			"add 3 processes, to 4: this one uses 1.9 of 2 cores, and 3000 records/s come and 1000 are decided"},
		{"as many processes as partitions", scaleFacts{partitions: 2, processes: 2, cores: 2, busy: 2, in: 3000, out: 1000, lag: 60_000, behind: 2, hot: 0.5}, api.ScalePartitions,
			"add partitions: each of 2 processes has one of 2 already"},
		{"more than there are partitions for", scaleFacts{partitions: 3, processes: 1, cores: 2, busy: 2, in: 8000, out: 1000, lag: 60_000, behind: 3, hot: 0.4}, api.ScalePartitions,
			"add 2 processes, to 3, and then partitions, of which there are 3 for 9 that would be needed"},
		{"idle cores", scaleFacts{partitions: 12, processes: 1, cores: 2, busy: 0.3, in: 3000, out: 1000, lag: 60_000, behind: 12}, api.ScaleNothing,
			"this one uses 0.3 of 2 cores while it is behind, so Postgres or the brokers hold it up"},
		{"one busy entity", scaleFacts{partitions: 12, processes: 1, cores: 2, busy: 2, in: 3000, out: 1000, lag: 60_000, behind: 1, hot: 1}, api.ScaleNothing, "one of 12 partitions has all that is behind"},
		{"nothing is decided", scaleFacts{partitions: 12, processes: 2, cores: 2, busy: 2, in: 30, lag: 60_000, behind: 12}, api.ScaleProcesses, "add 1 processes, to 3"},
		{"a destination without a free slot", scaleFacts{partitions: 12, processes: 1, cores: 2, in: 100, out: 100, open: 5000, growth: 40, to: full}, api.ScaleConcurrency,
			"raise `concurrency` of acme/agent from 64, if it can take more: 64 of 64 slots are in use in this process, 4000 actions wait for one, and 5000 actions are open, +40 a second"},
		{"a full destination that works its backlog off", scaleFacts{partitions: 12, processes: 1, cores: 2, open: 5000, growth: -40, to: full}, api.ScaleNothing, "it keeps up"},
		{"a destination with a rate", scaleFacts{partitions: 12, processes: 3, cores: 2, open: 5000, growth: 40,
			to: []scaleDestination{{name: "pagers", state: "running", running: 1, concurrency: 8, waiting: 9, limit: "10 per 1s"}}}, api.ScaleNothing, "raise the rate of pagers, or add nothing: its limit is 10 per 1s in each of 3 processes"},
		{"a destination that is paused", scaleFacts{partitions: 12, open: 5000, to: append([]scaleDestination{{name: "acme/chat", state: "paused", concurrency: 8, waiting: 4000}}, full...)}, api.ScaleNothing,
			"5000 actions are open, and 4000 of them wait for acme/chat, which is paused"},
		{"long lanes", scaleFacts{partitions: 12, processes: 1, cores: 2, open: 5000, growth: 1, to: idle}, api.ScaleNothing, "actions wait for the one before them of their entity, or for a retry"},
		{"dead letters are no work", scaleFacts{partitions: 12, processes: 1, cores: 2, open: 100, dead: 4000, to: full}, api.ScaleNothing,
			"it keeps up: 0 records/s come and 0 are decided, 0 are not decided yet, 100 actions are open, besides 4000 that are dead or parked (`forebay dlq list`)"},
		{"others are behind", scaleFacts{partitions: 12, processes: 2, cores: 2, busy: 0.1, in: 3000, out: 1000, lag: 60_000, behind: 6, lagOf: []string{"b/7", "c/7"}}, api.ScaleUnknown,
			"ask another process: the partitions that are behind are of b/7, c/7, and this one's cores and slots say nothing of them: 3000 records/s come"},
		{"others call", scaleFacts{partitions: 12, processes: 2, cores: 2, open: 5000, growth: 1, to: full, openOf: []string{"b/7"}}, api.ScaleUnknown,
			"ask another process: the partitions with open actions are of b/7, and"},
		{"others call what is paused", scaleFacts{partitions: 12, open: 5000, openOf: []string{"b/7"}, to: []scaleDestination{{name: "acme/chat", state: "paused", waiting: 1}}}, api.ScaleUnknown, "ask another process"},
		{"others work their backlog off", scaleFacts{partitions: 12, open: 5000, growth: -40, openOf: []string{"b/7"}}, api.ScaleNothing, "it keeps up"},
		{"not counted, and full", scaleFacts{partitions: 12, processes: 1, cores: 2, to: full}, api.ScaleConcurrency, "4000 actions wait for one, and more actions are open than can be counted in time"},
		{"not counted, and nothing runs", scaleFacts{partitions: 12, processes: 1, cores: 2}, api.ScaleUnknown,
			"nobody can tell whether it keeps up: 0 records/s come and 0 are decided, 0 are not decided yet, more actions are open than can be counted in time"},
		{"no core for the calls", scaleFacts{partitions: 12, processes: 2, cores: 2, busy: 1.8, open: 5000, growth: 1, to: idle}, api.ScaleProcesses, "add a process, to 3 of 12 partitions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.f.name, tt.f.counted = "acme.triage", !strings.Contains(tt.name, "not counted")
			if add, why := tt.f.hint(); add != tt.add || !strings.Contains(why, tt.says) {
				t.Errorf("%s: %s; want %s: %s", add, why, tt.add, tt.says)
			}
		})
	}
}

// TestScaleFacts: what waits for an operator is no work, what was not counted is not none, and the asked process knows what is not its own.
func TestScaleFacts(t *testing.T) {
	t.Parallel()
	look := func(position int64, counts ...*inbox.Counts) (all []partitionPosition) {
		for i, n := range counts {
			s := standAt(position, position, 900)
			s.partition.Number, s.ledger.Counts, s.ledger.Owner = int32(i), n, []string{"a/7", "b/7"}[i]
			all = append(all, *s)
		}
		return all
	}
	first, second := func(s *partitionPosition) bool { return s.partition.Number == 0 }, func(s *partitionPosition) bool { return s.partition.Number == 1 }
	none, dead, some := &inbox.Counts{}, &inbox.Counts{Tried: 300, Dead: 300}, &inbox.Counts{Open: 20, Tried: 310, Dead: 300}
	for name, tt := range map[string]struct {
		before, now []partitionPosition
		own         func(*partitionPosition) bool
		want        scaleFacts
	}{
		"dead letters": {look(900, none, none), look(900, dead, none), first, scaleFacts{counted: true, dead: 300}},
		"more to do, of another": {look(900, dead, none), look(900, some, none), second,
			scaleFacts{counted: true, open: 30, dead: 300, growth: 15, openOf: []string{"a/7"}}},
		"more to do, of its own": {look(900, dead, none), look(900, some, none), first, scaleFacts{counted: true, open: 30, dead: 300, growth: 15}},
		"both behind":            {look(800, none, none), look(850, none, none), first, scaleFacts{counted: true, lag: 100, behind: 2, out: 50, hot: 0.5}},
		"both behind, asked of a third": {look(800, none, none), look(850, none, none), func(*partitionPosition) bool { return false },
			scaleFacts{counted: true, lag: 100, behind: 2, out: 50, hot: 0.5, lagOf: []string{"a/7", "b/7"}}},
		"not counted":         {look(900, none, none), look(900, none, nil), second, scaleFacts{}},
		"not counted before":  {look(900, none, nil), look(900, none, none), second, scaleFacts{}},
		"not counted, others": {look(900, none, none), look(900, none, nil), first, scaleFacts{openOf: []string{"b/7"}}},
	} {
		tt.want.partitions, tt.want.processes = 2, 2
		if d := cmp.Diff(tt.want, factsOf(tt.before, tt.now, 2, tt.own), cmp.AllowUnexported(scaleFacts{})); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

// TestCores: a control group that allows less than the machine has is told by GOMAXPROCS.
func TestCores(t *testing.T) { // GOMAXPROCS is of the process
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	defer runtime.GOMAXPROCS(before)
	if got := cores(); got != runtime.NumCPU()+1 {
		t.Errorf("%d cores", got)
	}
}

// TestScaleHint is of a subscription whose agent takes two calls and answers none.
func TestScaleHint(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(agent.Close)
	defer close(release) // before the process drains its attempts
	r := deploy(t, agent.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "retry: {min", "concurrency: 2, timeout: 5m, retry: {min", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	idle, err := p.api.ScaleHint(t.Context(), "acme", "fulfil")
	if err != nil || idle.Add != api.ScaleNothing || idle.Partitions != 3 || idle.Processes != 1 || idle.Cores < 1 {
		t.Errorf("without anything to do: %+v %v", idle, err)
	}
	const open = littleOpen + 1
	for n := range open {
		p.accepted("orders", "orders-secret", order(fmt.Sprint("o", n), 1))
	}
	p.destination("all is decided", func(i *api.DestinationItem) bool { return i.Running+i.Waiting == open })
	hint, err := p.api.ScaleHint(t.Context(), "acme", "fulfil")
	if err != nil || hint.Add != api.ScaleConcurrency || hint.OpenActions == nil || *hint.OpenActions != open {
		t.Errorf("with an agent that is full: %+v %v", hint, err)
	}
}
