package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

func TestRecordsReachLedgerAndLanesInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2, 3)
	m, lanes := newMemory(), newLanes()
	run := r.start(r.config(m, lanes))
	m.until(t, "three records", func() bool { return m.next(0) == 3 })
	r.Produce(0, 4, 5)
	m.until(t, "five records", func() bool { return m.next(0) == 5 })
	lanes.until(t, "five items", func() bool { return len(lanes.items) == 5 })
	run.untilReady(t)
	run.stop(t)
	want := []string{"0/0 e1", "0/1 e2", "0/2 e3", "0/3 e4", "0/4 e5"}
	if d := cmp.Diff(want, m.lines); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"e1", "e2", "e3", "e4", "e5"}, lanes.items); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"open 0", "close 0"}, lanes.calls); d != "" {
		t.Error(d)
	}
	at, ok := r.Committed(0)
	if !ok || at.At != 5 || at.Metadata != r.marker(5) {
		t.Errorf("mirror is %+v %q", at.Offset, at.Metadata)
	}
	if m.take(0, -1).Unclean {
		t.Error("fence not released")
	}
	m.check(t)
}

func TestFilteredGoOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	other := event(2)
	other.Type = "com.example.invoice.paid"
	r.Produce(0, 1)
	r.Send(record.Encode(testTopic, other))
	r.Produce(0, 3)
	m, lanes := newMemory(), newLanes()
	cfg := r.config(m, lanes)
	cfg.Filter = reader.Globs([]string{"com.example.order.*"})
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == 3 })
	run.stop(t)
	if d := cmp.Diff([]string{"e1", "e3"}, lanes.items); d != "" {
		t.Error(d)
	}
}

func TestBeginWhereAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		begin func(r *rig) owner.Begin
		want  int64
	}{
		{"now", func(*rig) owner.Begin { return owner.Begin{} }, 3},
		{"all", func(*rig) owner.Begin { return owner.Begin{All: true} }, 1},
		{"time", func(r *rig) owner.Begin { return owner.Begin{At: r.AppendTime(2)} }, 2},
		{"time ahead", func(r *rig) owner.Begin { return owner.Begin{At: r.AppendTime(2).AddDate(1, 0, 0)} }, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			for i := range 3 {
				r.Stamp(i)
			}
			if err := r.Cluster.DeleteRecords(testTopic, 0, 1); err != nil {
				t.Fatal(err)
			}
			m := newMemory()
			cfg := r.config(m, newLanes())
			cfg.Begin = tt.begin(r)
			r.start(cfg)
			m.until(t, "a claim", func() bool { return len(m.claims) > 0 })
			m.mu.Lock()
			defer m.mu.Unlock()
			if got := m.claims[0].Next.Offset; got != tt.want {
				t.Errorf("begins at %d, want %d", got, tt.want)
			}
		})
	}
}

func TestBeginStoredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.Produce(0, 1, 2, 3)
	r.Produce(1, 4)
	m := newMemory()
	// What an earlier start stored wins, and a partition that it did not know begins at 0.
	if _, err := m.Begin(t.Context(), map[ledger.Partition]int64{{Topic: testTopic, TopicID: r.TopicID(), Number: 0}: 2}); err != nil {
		t.Fatal(err)
	}
	cfg := r.config(m, newLanes())
	cfg.Begin = owner.Begin{}
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == 3 && m.next(1) == 1 })
	run.stop(t)
	slices.Sort(m.lines)
	if d := cmp.Diff([]string{"0/2 e3", "1/0 e4"}, m.lines); d != "" {
		t.Error(d)
	}
}

func TestMissingTopicNamesTheCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.Topics = []string{testTopic, "events.acme.later"}
	asked := make(chan struct{}, 1)
	r.OnMetadata("events.acme.later", asked)
	run := r.start(cfg)
	<-asked
	<-asked // the second question comes after the first answer
	err := run.Ready()
	if schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "forebay topics apply") {
		t.Errorf("ready says %v", err)
	}
	if err := r.Cluster.CreateTopic("events.acme.later", 1, nil); err != nil {
		t.Fatal(err)
	}
	m.until(t, "both claimed", func() bool { return len(m.claims) == 2 })
	run.untilReady(t)
}

// A position moves over control records and aborted batches, to the very end, though no record comes of them.
func TestPositionMovesOverTransactions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	tx := r.NewClient(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic(testTopic))
	transact := func(commit kgo.TransactionEndTry, id int) {
		t.Helper()
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(r.Ctx(), record.Encode(testTopic, event(id))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(r.Ctx(), commit); err != nil {
			t.Fatal(err)
		}
	}
	transact(kgo.TryCommit, 1) // offsets 0, 1
	transact(kgo.TryAbort, 2)  // offsets 2, 3
	m, lanes := newMemory(), newLanes()
	run := r.start(r.config(m, lanes))
	m.until(t, "the end behind the abort marker", func() bool { return m.next(0) == 4 })
	run.stop(t)
	if d := cmp.Diff([]string{"0/0 e1"}, m.lines); d != "" {
		t.Error(d)
	}
	if at, ok := r.Committed(0); !ok || at.At != 4 {
		t.Errorf("mirror is %+v", at.Offset)
	}
	m.check(t)
}

func TestFailedBatchIsClaimedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2)
	m, lanes := newMemory(), newLanes()
	fails := 2
	m.onApply = func(context.Context, []ledger.Slice) error {
		if fails--; fails >= 0 {
			return errors.New("the database stays away")
		}
		return nil
	}
	run := r.start(r.config(m, lanes))
	m.until(t, "both read", func() bool { return m.next(0) == 2 })
	run.stop(t)
	if d := cmp.Diff([]string{"0/0 e1", "0/1 e2"}, m.lines); d != "" {
		t.Error(d)
	}
	want := []string{"open 0", "drop 0", "open 0", "drop 0", "open 0", "close 0"}
	if d := cmp.Diff(want, lanes.calls); d != "" {
		t.Error(d)
	}
}

func TestFencedOwnerClaimsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1)
	m, lanes := newMemory(), newLanes()
	run := r.start(r.config(m, lanes))
	m.until(t, "first read", func() bool { return m.next(0) == 1 })
	m.take(0, -1)
	r.Produce(0, 2, 3)
	m.until(t, "all read", func() bool { return m.next(0) == 3 })
	run.stop(t)
	if d := cmp.Diff([]string{"0/0 e1", "0/1 e2", "0/2 e3"}, m.lines); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"open 0", "drop 0", "open 0", "close 0"}, lanes.calls); d != "" {
		t.Error(d)
	}
}

// Lanes that find the fence lost say so; on an idle partition nobody else would notice.
func TestFencedByLanes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m, lanes := newMemory(), newLanes()
	run := r.start(r.config(m, lanes))
	var c *ledger.Claim
	lanes.until(t, "an open claim", func() bool {
		for c = range lanes.open {
		}
		return c != nil
	})
	// Open comes before the loop knows the claim; running says that it does.
	run.untilRunning(t, 1)
	run.Fenced(c)
	lanes.until(t, "a second claim", func() bool { return slices.Equal(lanes.calls, []string{"open 0", "drop 0", "open 0"}) })
}

// The lanes run before the loop has the claim, and may find its fence lost by then.
func TestFencedByLanesBeforeTheFirstBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	m, lanes := newMemory(), newLanes()
	var run *running
	started := make(chan struct{})
	first := true
	lanes.opened = func(c *ledger.Claim) {
		<-started
		if first {
			first = false
			run.Fenced(c)
		}
	}
	run = r.start(r.config(m, lanes))
	close(started)
	lanes.until(t, "a second claim", func() bool { return slices.Equal(lanes.calls, []string{"open 0", "drop 0", "open 0"}) })
}

func TestBatchLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	for i := range 25 {
		r.Produce(0, i)
	}
	big := event(100)
	big.Data = []byte(strings.Repeat("x", 64<<10))
	big.Hash = schemas.HashBody(big.Data)
	r.Send(record.Encode(testTopic, big))
	r.Produce(0, 101)
	m := newMemory()
	var records, bytes []int
	m.onApply = func(_ context.Context, b []ledger.Slice) error {
		n, weigh := 0, 0
		for _, s := range b {
			n += len(s.Records)
			for i := range s.Records {
				weigh += int(s.Records[i].Size)
			}
		}
		records, bytes = append(records, n), append(bytes, weigh)
		return nil
	}
	cfg := r.config(m, newLanes())
	cfg.BatchRecords, cfg.BatchBytes, cfg.BatchWait = 10, 32<<10, time.Second
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == 27 })
	run.stop(t)
	if most := slices.Max(records); most != 10 {
		t.Errorf("batches of %v records: all was there, so some must have been full, and none more", records)
	}
	for i := range records {
		if bytes[i] > 32<<10 && records[i] != 1 {
			t.Errorf("a batch of %d records weighs %d bytes", records[i], bytes[i])
		}
	}
	if len(m.lines) != 27 || m.lines[25] != "0/25 e100" {
		t.Errorf("lines: %q", m.lines)
	}
	m.check(t)
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{Group: "a.b", Topics: []string{"t"}, Ledger: newMemory()}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no group":        func(c *Config) { c.Group = "" },
		"colon in group":  func(c *Config) { c.Group = "a:b" },
		"no topics":       func(c *Config) { c.Topics = nil },
		"topic twice":     func(c *Config) { c.Topics = []string{"t", "u", "t"} },
		"empty topic":     func(c *Config) { c.Topics = []string{""} },
		"no ledger":       func(c *Config) { c.Ledger = nil },
		"begin twice":     func(c *Config) { c.Begin = owner.Begin{All: true, At: event(0).Time} },
		"negative batch":  func(c *Config) { c.BatchRecords = -1 },
		"slow heartbeat":  func(c *Config) { c.SessionTimeout, c.HeartbeatInterval = 3, 2 },
		"huge record":     func(c *Config) { c.MaxRecordBytes = 2 << 30 },
		"negative wait":   func(c *Config) { c.BatchWait = -1 },
		"negative drain":  func(c *Config) { c.DrainTimeout = -1 },
		"negative mirror": func(c *Config) { c.MirrorInterval = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
