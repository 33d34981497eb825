package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// heavy is event i with a body of size bytes that compresses some ten times, as what providers send does.
func heavy(i, size int) *kgo.Record {
	e := event(i)
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, `{"id":%d,"url":"https://api.example.com/repos/acme/forebay/pulls/%d","state":"open"},`, n*i, i)
	}
	e.Data = b.Bytes()[:size]
	e.Hash = schemas.HashBody(e.Data)
	return record.Encode(testTopic, e)
}

// A catch-up reads far more than fits a batch with every answer: what does not fit waits, and goes before what comes next.
func TestCatchUpOfHeavyRecords(t *testing.T) {
	t.Parallel()
	const n = 400
	r := newRig(t, 1)
	zip := r.NewClient(kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchMaxBytes(8<<20))
	batch := make([]*kgo.Record, n)
	want := make([]string, n)
	for i := range n {
		batch[i], want[i] = heavy(i, 18<<10+i*7919%(30<<10)), fmt.Sprintf("0/%d e%d", i, i)
	}
	if err := zip.ProduceSync(r.Ctx(), batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.BatchBytes = 1 << 20
	cfg.BatchWait = 20 * time.Millisecond
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == n })
	run.stop(t)
	if !slices.Equal(m.lines, want) {
		t.Errorf("%d of %d events came, or not in order", len(m.lines), n)
	}
	if got := counter(t, reg, "forebay_stream_discontinuities_total"); got != 0 {
		t.Errorf("%v batches did not begin where the ledger stood", got)
	}
	m.check(t)
}

// A broken disk: the records before the batch are read, nothing behind it is, nobody is shown a partition that runs, and what
// the report says is so. It goes on by itself once the log is whole again.
func TestBrokenBatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, 2, kfake.DataDir(dir))
	r.Produce(0, 0, 1, 2, 3, 4, 5, 6, 7)
	r.Produce(1, 100)
	broken := func(from, to string) { swapInFiles(t, filepath.Join(dir, "partitions", testTopic+"-0"), from, to) }
	broken(`{"n":5}`, `{"n":x}`)
	m, reg := newMemory(), prometheus.NewRegistry()
	cfg := r.config(m, newLanes())
	cfg.Registerer, cfg.UnreadAfter, cfg.StopLook = reg, 300*time.Millisecond, 50*time.Millisecond
	run := r.start(cfg)
	parts := run.untilStopped(t, 0)
	e, ok := errors.AsType[*owner.StopError](parts[0].Err)
	if !ok || e.Reason != owner.StopUnreadable || !strings.Contains(e.Error(), "of the offsets 5 to 5, so what is behind it begins at 6") {
		t.Fatalf("stopped for %v", parts[0].Err)
	}
	if got := m.at(0); got != 5 {
		t.Errorf("read up to %d, the broken batch begins at 5", got)
	}
	looks := m.claimed()
	m.until(t, "three more looks", func() bool { return len(m.claims) >= looks+3 })
	if n := counter(t, reg, "forebay_stream_stops_total"); n != 1 {
		t.Errorf("%v reports of one thing", n)
	}
	if all := run.Partitions(); !slices.ContainsFunc(all, func(p owner.PartitionState) bool { return p.Partition == 0 && p.State == owner.Stopped }) {
		t.Errorf("it looks again, and is shown as %+v", all)
	}
	r.Produce(1, 101)
	m.until(t, "the other partition goes on", func() bool { return m.next(1) == 2 })

	broken(`{"n":x}`, `{"n":5}`)
	m.until(t, "it goes on", func() bool { return m.next(0) == 8 })
	run.untilRunning(t, 2)
	run.stop(t)
	want := []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/3 e3", "0/4 e4", "0/5 e5", "0/6 e6", "0/7 e7"}
	got := slices.DeleteFunc(slices.Clone(m.lines), func(l string) bool { return !strings.HasPrefix(l, "0/") })
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	m.check(t)
}

// What the client keeps to itself and tries again for ever is found out all the same: a broker whose disk gives errors for one partition. That one
// is shown as unreadable, and goes on by itself once the broker can read.
func TestFetchThatFailsSilently(t *testing.T) {
	t.Parallel()
	for _, refusal := range []*kerr.Error{kerr.KafkaStorageError, kerr.NotLeaderForPartition} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2)
			r.Produce(0, 0, 1)
			r.Produce(1, 100)
			broken := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Partitions: []int32{0}, Err: refusal, Count: -1})
			m, reg := newMemory(), prometheus.NewRegistry()
			cfg := r.config(m, newLanes())
			cfg.Registerer, cfg.UnreadAfter, cfg.TopicLook, cfg.StopLook = reg, 300*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
			run := r.start(cfg)
			parts := run.untilStopped(t, 0)
			if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopUnreadable || !errors.Is(e, refusal) {
				t.Fatalf("stopped for %v", parts[0].Err)
			}
			looks := m.claimed()
			m.until(t, "three more looks", func() bool { return len(m.claims) >= looks+3 })
			if n := counter(t, reg, "forebay_stream_stops_total"); n != 1 {
				t.Errorf("%v reports of one thing", n)
			}
			r.Produce(1, 101)
			m.until(t, "the other partition goes on", func() bool { return m.next(1) == 2 })
			if all := run.Partitions(); !slices.ContainsFunc(all, func(p owner.PartitionState) bool { return p.Partition == 1 && p.State == owner.Running }) {
				t.Errorf("the other partition, read to its end, is shown as %+v", all)
			}
			broken.Remove()
			m.until(t, "it goes on", func() bool { return m.next(0) == 2 })
			run.untilRunning(t, 2)
			run.stop(t)
			m.check(t)
		})
	}
}

// A transaction that another writer leaves open holds back what is behind it: the partition stands still, and is shown so.
func TestOpenTransactionHoldsUpAPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	end := r.Begin(record.Encode(testTopic, event(1)))
	r.Produce(0, 2)
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.UnreadAfter, cfg.TopicLook, cfg.StopLook = 300*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	run := r.start(cfg)
	parts := run.untilStopped(t, 0)
	if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopUnreadable || !strings.Contains(e.Error(), "transaction") {
		t.Errorf("stopped for %v", parts[0].Err)
	}
	end(kgo.TryCommit)
	m.until(t, "it goes on", func() bool { return m.next(0) == 4 })
	run.untilRunning(t, 1)
}

// swapInFiles puts one text in the place of another of its length, where a directory's files have it.
func swapInFiles(t *testing.T, dir, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte(from))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(to), int64(at))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no file in %s has %s: %v", dir, from, files)
}

// A partition that the ledger refuses for good stops with a report; the others of the batch go on.
func TestRefusedSlice(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.Produce(0, 0, 1)
	r.Produce(1, 100)
	m, reg := &refusing{memory: newMemory()}, prometheus.NewRegistry()
	cfg := r.config(m, newLanes())
	cfg.Registerer, cfg.StopLook = reg, 50*time.Millisecond
	run := r.start(cfg)
	parts := run.untilStopped(t, 0)
	if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopRefused || !strings.Contains(e.Error(), "permission denied for table lines") {
		t.Fatalf("stopped for %v", parts[0].Err)
	}
	r.Produce(1, 101)
	m.until(t, "the other partition goes on", func() bool { return m.next(1) == 2 })
	looks := m.claimed()
	m.until(t, "three more looks", func() bool { return len(m.claims) >= looks+3 })
	if n := counter(t, reg, "forebay_stream_stops_total"); n != 1 {
		t.Errorf("%v reports of one thing", n)
	}
	m.mended.Store(true)
	m.until(t, "it goes on", func() bool { return m.next(0) == 2 })
	run.untilRunning(t, 2)
	run.stop(t)
	m.check(t)
}

// Nobody waits for a partition that stops, so its calls under way are not cut short for that: each look would begin them again. A shutdown ends them.
func TestStopWaitsForItsCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	lanes := newLanes()
	closing, ended := make(chan struct{}, 1), make(chan error, 1)
	lanes.onClose = func(ctx context.Context) {
		closing <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}
	cfg := r.config(&refusing{memory: newMemory()}, lanes)
	cfg.RebalanceTimeout = 2 * time.Second
	run := r.start(cfg)
	<-closing
	run.untilStopped(t, 0) // is shown meanwhile
	select {
	case err := <-ended:
		t.Fatalf("cut short: %v", err)
	case <-time.After(cfg.RebalanceTimeout): // twice as long as the lanes of a revoked partition have
	}
	run.stop(t)
	if err := <-ended; !errors.Is(err, owner.ErrTooSlow) {
		t.Errorf("cut short by %v", err)
	}
}

// refusing is a ledger that refuses partition 0 until it is mended.
type refusing struct {
	*memory
	mended atomic.Bool
}

func (r *refusing) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	all := make([]ledger.Applied, len(batch))
	for i, s := range batch {
		if s.Claim.Partition.Number == 0 && !r.mended.Load() {
			all[i] = ledger.Applied{Claim: s.Claim, Refused: errors.New("permission denied for table lines")}
			continue
		}
		one, err := r.memory.Apply(ctx, batch[i:i+1])
		if err != nil {
			return nil, err
		}
		all[i] = one[0]
	}
	return all, nil
}

// endless is a ledger that ends no waits.
type endless struct{ *memory }

func (endless) Expire(_ context.Context, c *ledger.Claim) (ledger.Applied, error) {
	return ledger.Applied{Claim: c, Refused: errors.New("permission denied for table buffer")}, nil
}

// So does one whose waits the ledger does not end.
func TestRefusedExpiry(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Send(versioned(1, 1), versioned(3, 3))
	cfg := r.config(endless{newMemory(versions)}, newLanes())
	cfg.StopLook = 50 * time.Millisecond
	run := r.start(cfg)
	parts := run.untilStopped(t, 0)
	if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopRefused || !strings.Contains(e.Error(), "permission denied for table buffer") {
		t.Fatalf("stopped for %v", parts[0].Err)
	}
}
