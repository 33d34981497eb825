package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// forgetful is a namespace whose notes of what was exported fail as often as fails says.
type forgetful struct {
	*ledger.Namespace
	mu    sync.Mutex
	fails int
}

func (f *forgetful) Exported(ctx context.Context, claims []*ledger.Claim, list []ledger.DeadLetter) error {
	f.mu.Lock()
	f.fails--
	fail := f.fails >= 0
	f.mu.Unlock()
	if fail {
		return errors.New("the process is gone")
	}
	return f.Namespace.Exported(ctx, claims, list)
}

// deaths reads the dead topic from its start until it has all of want: "<event> <deaths> <class> <body>", in least records. It
// may have them more than once, and nothing else.
func (r *rig) deaths(least int, want ...string) {
	r.T.Helper()
	cl := r.NewClient(kgo.ConsumeTopics(deadletter.Topic(testGroup)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := r.Ctx()
	var out []string
	for records := 0; records < least || !slices.Equal(out, want); {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			r.T.Fatalf("exported %q in %d records, want %q in %d", out, records, want, least)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			h := map[string]string{}
			for _, header := range rec.Headers {
				h[header.Key] = string(header.Value)
			}
			if h["forebay-dead-destination"] != "acme/agent" || h["forebay-dead-action-id"] == "" || h["forebay-dead-error"] != "no" || string(rec.Key) == "" ||
				h["forebay-dead-lost"] == "" && h["ce_id"] != h["forebay-dead-event-id"] {
				r.T.Errorf("key %q, headers %q", rec.Key, h)
			}
			out = append(out, fmt.Sprintf("%s %s %s %s%s", h["forebay-dead-event-id"], h["forebay-dead-deaths"], h["forebay-dead-class"], rec.Value, map[bool]string{true: " lost"}[h["forebay-dead-lost"] != ""]))
			records++
		})
		slices.Sort(out)
		out = slices.Compact(out)
	}
}

// Dead letters come to the dead topic after their death is committed: none is left out while the brokers refuse, the topic
// is missing, or what was written is not noted; then it comes once more. What runs again before its turn comes as well.
func TestDeadLettersAreExported(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	l, n := realLedger(t, arrival)
	payloads, err := reader.NewPayloads(reader.PayloadsConfig{Client: []kgo.Opt{r.Seed()}})
	if err != nil {
		t.Fatal(err)
	}
	defer payloads.Close()
	lanes := newLanes()
	claims := make(chan *ledger.Claim, 10)
	lanes.opened = func(c *ledger.Claim) { claims <- c }
	lanes.onCommand = func(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (string, error) {
		o, err := n.ApplyLaneCommand(ctx, c, cmd)
		return o.Outcome, err
	}
	from := &forgetful{Namespace: n, fails: 1}
	cfg := r.config(from, lanes)
	cfg.Payloads, cfg.Export, cfg.ExportSweep = payloads, true, 10*time.Millisecond
	run := r.start(cfg)
	c := <-claims
	r.Produce(0, 1, 2, 3)
	lanes.until(t, "the actions", func() bool { return len(lanes.items) == 3 })
	ids := map[string]schemas.ActionID{}
	die := func(c *ledger.Claim, i int64, attempt int) {
		t.Helper()
		event := fmt.Sprintf("e%d", i)
		ids[event] = schemas.NewActionID(testGroup, 0, "/acme/orders", event, "run")
		_, err := n.Record(t.Context(), []ledger.Result{{Claim: c, LaneSeq: i, ID: ids[event], Status: ledger.Dead, Attempt: attempt, Class: "rejected", Error: "no"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The topic does not exist yet: nothing is lost by that, and the first is run again before it does.
	die(c, 1, 1)
	untilCounted(t, cfg, "failed")
	if _, err := inbox.New(l).AskAction(t.Context(), ids["e1"], ledger.Replay, ledger.CommandDetail{}, "jo", "mended"); err != nil {
		t.Fatal(err)
	}
	if !streamtest.Until(func() bool {
		d, err := inbox.New(l).DeadLetter(t.Context(), ids["e1"])
		if err != nil {
			t.Fatal(err)
		}
		return d.Status == ledger.Failed
	}) {
		t.Fatal("e1 never runs again")
	}
	refused := make(chan struct{}, 3)
	r.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		select {
		case refused <- struct{}{}:
			return nil, errors.New("the broker is down"), true
		default:
			return nil, nil, false
		}
	})
	if _, err := r.Adm.CreateTopics(t.Context(), 1, 1, nil, deadletter.Topic(testGroup)); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatal(err)
	}
	die(c, 2, 1)
	r.deaths(3, `e1 1 rejected {"n":1}`, `e2 1 rejected {"n":2}`) // what was not noted is written again
	// The next owner goes on where this one was; the next death is another.
	run.stop(t)
	cfg = r.config(n, lanes)
	cfg.Payloads, cfg.Export, cfg.ExportSweep = payloads, true, 10*time.Millisecond
	r.start(cfg)
	c = <-claims
	die(c, 1, 2)
	die(c, 3, 1)
	r.deaths(4, `e1 1 rejected {"n":1}`, `e1 2 rejected {"n":1}`, `e2 1 rejected {"n":2}`, `e3 1 rejected {"n":3}`)
	if !streamtest.Until(func() bool {
		left, err := n.Unexported(t.Context(), []*ledger.Claim{c}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	}) {
		t.Error("what was exported is never noted")
	}
}

// untilCounted waits for an export to have ended so.
func untilCounted(t *testing.T, cfg setup, result string) {
	t.Helper()
	if !streamtest.Until(func() bool {
		families, err := cfg.Registerer.(prometheus.Gatherer).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, label := range m.GetLabel() {
					if f.GetName() == "forebay_stream_dead_exports_total" && label.GetValue() == result && m.GetCounter().GetValue() > 0 {
						return true
					}
				}
			}
		}
		return false
	}) {
		t.Fatalf("no export has %s", result)
	}
}
