package reader

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestPayloadLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2)
	l := r.payloads()
	e, err := l.Load(r.Ctx(), r.Pointer(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(event(1), e); d != "" {
		t.Error(d)
	}
}

func TestPayloadOfOthersIsNeverSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	tampered := event(2)
	tampered.Data = []byte(`{"n":"other"}`)
	tampered.Hash = schemas.HashBody(tampered.Data)
	r.Produce(0, 0, 1)
	r.Send(record.Encode(testTopic, tampered), &kgo.Record{Topic: testTopic, Value: []byte("?")})
	l := r.payloads()
	_, err := l.Load(r.Ctx(), r.Pointer(0, 1))
	streamtest.IsLost(t, err, "another event is there: e1")
	_, err = l.Load(r.Ctx(), r.Pointer(2, 2))
	streamtest.IsLost(t, err, "another body")
	_, err = l.Load(r.Ctx(), r.Pointer(3, 3))
	streamtest.IsLost(t, err, "the record there is no event")
}

// A chunk that was kept says what the log had then: it may have been cut since, and have grown over the same offsets.
func TestPayloadOfALogThatWasCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2)
	l := r.payloads()
	if _, err := l.Load(r.Ctx(), r.Pointer(0, 0)); err != nil {
		t.Fatal(err)
	}
	other := record.Encode(testTopic, event(7))
	other.Offset = 1
	l.mu.Lock()
	for _, k := range l.kept { // as it was before the cut
		k.records = []*kgo.Record{k.records[0], other, k.records[2]}
	}
	l.mu.Unlock()
	if e, err := l.Load(r.Ctx(), r.Pointer(7, 1)); err != nil || e.ID != "e7" {
		t.Errorf("what the cut took, while it is still known: %v, %v", e, err)
	}
	if e, err := l.Load(r.Ctx(), r.Pointer(1, 1)); err != nil || e.ID != "e1" {
		t.Errorf("what is there now: %v, %v", e, err)
	}
	_, err := l.Load(r.Ctx(), r.Pointer(7, 1))
	streamtest.IsLost(t, err, "another event is there: e1")
	l.mu.Lock()
	for _, k := range l.kept { // a marker of a transaction was there
		k.records = slices.DeleteFunc(slices.Clone(k.records), func(rec *kgo.Record) bool { return rec.Offset == 1 })
	}
	l.mu.Unlock()
	if e, err := l.Load(r.Ctx(), r.Pointer(1, 1)); err != nil || e.ID != "e1" {
		t.Errorf("what is there, where a kept chunk has nothing: %v, %v", e, err)
	}
}

func TestPayloadGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2, 3)
	if err := r.Cluster.DeleteRecords(testTopic, 0, 2); err != nil {
		t.Fatal(err)
	}
	l := r.payloads()
	_, err := l.Load(r.Ctx(), r.Pointer(0, 0))
	streamtest.IsLost(t, err, "")
	if e, err := l.Load(r.Ctx(), r.Pointer(2, 2)); err != nil || e.ID != "e2" {
		t.Errorf("what is still there: %v, %v", e, err)
	}
	_, err = l.Load(r.Ctx(), r.Pointer(9, 9)) // truncated
	streamtest.IsLost(t, err, "")
	_, err = l.Load(r.Ctx(), r.Pointer(9, 4)) // just at the end
	streamtest.IsLost(t, err, "the log ends at 4")
	p := r.Pointer(2, 2)
	p.Partition = 7
	_, err = l.Load(r.Ctx(), p)
	streamtest.IsLost(t, err, "does not exist")
	_, err = l.Load(r.Ctx(), r.Pointer(4, math.MinInt64+1)) // where the ledger puts what a cut log had
	streamtest.IsLost(t, err, "the log does not have its offset any more")
}

func TestPayloadOfRecreatedTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	p := r.Pointer(0, 0)
	l := r.payloads()
	if err := r.Cluster.DeleteTopic(testTopic); err != nil {
		t.Fatal(err)
	}
	_, err := l.Load(r.Ctx(), p)
	streamtest.IsLost(t, err, "does not exist")
	if err := r.Cluster.CreateTopic(testTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	fresh := r.NewClient()
	if err := fresh.ProduceSync(r.Ctx(), record.Encode(testTopic, event(0))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	_, err = l.Load(r.Ctx(), p) // the very same event, in another topic of the same name
	streamtest.IsLost(t, err, "recreated")
}

// That a topic was created again is found out once, in its time, and not for every pointer and partition again.
func TestPayloadsOfRecreatedTopicAreAskedForOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	p := r.Pointer(0, 0)
	if err := r.Cluster.DeleteTopic(testTopic); err != nil {
		t.Fatal(err)
	}
	if err := r.Cluster.CreateTopic(testTopic, 3, nil); err != nil {
		t.Fatal(err)
	}
	const certain = 300 * time.Millisecond
	l := r.payloads(func(c *PayloadsConfig) { c.LostAfter = certain })
	began := time.Now()
	_, err := l.Load(r.Ctx(), p)
	streamtest.IsLost(t, err, "recreated")
	if took := time.Since(began); took < certain {
		t.Errorf("taken for lost after %s: one broker may know later than another", took)
	}
	asked := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata, kmsg.Fetch}, Topic: testTopic, Observe: true, Count: -1})
	for i := range 300 {
		p.Partition, p.Offset = int32(i%3), int64(i)
		_, err := l.Load(r.Ctx(), p)
		streamtest.IsLost(t, err, "recreated")
		if n := asked.Hits(); n > 0 {
			t.Fatalf("the brokers were asked %d times for what they have said", n)
		}
	}
	r.Client = r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.Produce(1, 7)
	p = r.Pointer(7, 0)
	p.Partition = 1
	if e, err := l.Load(r.Ctx(), p); err != nil || e.ID != "e7" {
		t.Errorf("of the topic as it is now: %v, %v", e, err)
	}
}

// A gap in the offsets (here an aborted record) is nobody's payload.
func TestPayloadAborted(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	tx := r.NewClient(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic(testTopic))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(r.Ctx(), record.Encode(testTopic, event(0))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(r.Ctx(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	r.Produce(0, 1)
	_, err := r.payloads().Load(r.Ctx(), r.Pointer(0, 0))
	streamtest.IsLost(t, err, "no record has this offset")
}

// Aborted batches that fill a read's room leave nothing in it, and the next read goes on behind them.
func TestPayloadBehindLargeAbortedBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	tx := r.NewClient(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic(testTopic), kgo.ProducerBatchCompression(kgo.GzipCompression()))
	large := event(0)
	large.Data = bytes.Repeat([]byte("x"), 200<<10)
	for range 2 {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(r.Ctx(), record.Encode(testTopic, large)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(r.Ctx(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	zip := r.NewClient(kgo.ProducerBatchCompression(kgo.GzipCompression()))
	kept := event(4)
	kept.Data = bytes.Repeat([]byte("y"), 50<<10)
	kept.Hash = schemas.HashBody(kept.Data)
	if err := zip.ProduceSync(r.Ctx(), record.Encode(testTopic, kept)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l := r.payloads(func(c *PayloadsConfig) { c.ChunkBytes = 8 << 10 })
	p := r.Pointer(4, 4)
	p.Hash = kept.Hash
	_, err := l.Load(r.Ctx(), r.Pointer(0, 0))
	streamtest.IsLost(t, err, "no record has this offset")
	if e, err := l.Load(r.Ctx(), p); err != nil || e.Hash != kept.Hash {
		t.Error(err)
	}
}

// Trouble on the way is never taken for absence: it is tried again until the caller gives up.
func TestPayloadTransport(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	l := r.payloads()
	fault := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: testTopic, Err: kerr.KafkaStorageError, Count: 3})
	if e, err := l.Load(r.Ctx(), r.Pointer(0, 0)); err != nil || e.ID != "e0" {
		t.Errorf("after three failures: %v, %v", e, err)
	}
	if fault.Hits() != 3 {
		t.Errorf("%d failures", fault.Hits())
	}

	other := r.payloads()
	r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: testTopic, Err: kerr.KafkaStorageError, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	_, err := other.Load(ctx, r.Pointer(0, 0))
	if !errors.Is(err, context.DeadlineExceeded) || sink.ClassOf(err) == sink.ClassPayload {
		t.Errorf("got %v", err)
	}
}

// A record that the brokers answer for and cannot give fails its own loads, and holds up no others.
func TestPayloadThatCannotBeGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2)
	l := r.payloads(func(c *PayloadsConfig) { c.ChunkBytes = 1 })
	r.Cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		fetch := req.(*kmsg.FetchRequest)
		if len(fetch.Topics) == 0 || fetch.Topics[0].Partitions[0].FetchOffset != 0 {
			return nil, nil, false
		}
		answer := fetch.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode, p.HighWatermark, p.LastStableOffset = kerr.UnknownServerError.Code, 3, 3
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID, topic.Partitions = fetch.Topics[0].Topic, fetch.Topics[0].TopicID, append(topic.Partitions, p)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			e, err := l.Load(r.Ctx(), r.Pointer(n, int64(n)))
			if _, bad := errors.AsType[*unreadableError](err); n == 0 && (!bad || sink.ClassOf(err) == sink.ClassPayload) {
				t.Errorf("the one that cannot be read: %v", err)
			} else if n > 0 && err != nil {
				t.Errorf("payload %d: %v, %v", n, e, err)
			}
		})
	}
	all.Wait()
}

func TestPayloadLeaderMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1)
	l := r.payloads(func(c *PayloadsConfig) { c.ChunkBytes = 1 })
	if _, err := l.Load(r.Ctx(), r.Pointer(0, 0)); err != nil {
		t.Fatal(err)
	}
	leader := r.Cluster.LeaderFor(testTopic, 0)
	if err := r.Cluster.MoveTopicPartition(testTopic, 0, 1-leader); err != nil {
		t.Fatal(err)
	}
	if e, err := l.Load(r.Ctx(), r.Pointer(1, 1)); err != nil || e.ID != "e1" {
		t.Errorf("got %v, %v", e, err)
	}
}

// A thousand loads of one partition read it about once, in any order of asking.
func TestPayloadsCoalesce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	const n = 1000
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = record.Encode(testTopic, event(i))
	}
	r.Send(recs...)
	fetches := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	l := r.payloads()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if e, err := l.Load(r.Ctx(), r.Pointer(i, int64(i))); err != nil || e.ID != event(i).ID {
				t.Errorf("load %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := n - 1; i >= 0; i-- { // one after the other, from the kept chunk
		if _, err := l.Load(t.Context(), r.Pointer(i, int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if hits := fetches.Hits(); hits > 20 {
		t.Errorf("%d fetches for %d loads", hits, 2*n)
	}
}

func TestPayloadsKeepFewChunks(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4)
	l := r.payloads(func(c *PayloadsConfig) { c.KeptBytes = 2*weight(record.Encode(testTopic, event(0))) + 100 })
	for p := range int32(4) {
		r.Produce(p, int(p))
		at := r.Pointer(int(p), 0)
		at.Partition = p
		if _, err := l.Load(r.Ctx(), at); err != nil {
			t.Fatal(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) != 2 || l.kept[1].at.Number != 3 {
		t.Errorf("%d chunks are kept", len(l.kept))
	}
}

// Many partitions whose backlogs are sent at once, and subscriptions that are at different places of one: each reads its log once. When
// nothing is loaded any more, no chunk is kept.
func TestPayloadsOfManyBacklogs(t *testing.T) {
	t.Parallel()
	const partitions = 40
	r := newRig(t, partitions)
	var reads atomic.Int32
	r.Cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		reads.Add(1)
		return nil, nil, false
	})
	for p := range int32(partitions) {
		r.Produce(p, int(2*p), int(2*p+1))
	}
	const far = 20 // another subscription is there in partition 0
	for i := 2; i < far+2; i++ {
		r.Produce(0, 1000+i)
	}
	l := r.payloads(func(c *PayloadsConfig) { c.ChunkBytes = 2000 })
	load := func(partition int32, i int, offset int64) {
		t.Helper()
		at := r.Pointer(i, offset)
		at.Partition = partition
		if _, err := l.Load(r.Ctx(), at); err != nil {
			t.Fatal(err)
		}
	}
	for offset := range 2 {
		for p := range int32(partitions) {
			load(p, int(2*p)+offset, int64(offset))
		}
		load(0, 1000+far+offset, int64(far+offset))
	}
	if n := reads.Load(); n != partitions+1 {
		t.Errorf("%d reads of %d places", n, partitions+1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) != partitions+1 || len(l.queues) > 0 {
		t.Errorf("%d chunks are kept, and %d queues", len(l.kept), len(l.queues))
	}
}

// A process at rest keeps no chunk.
func TestPayloadsAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &LogPayloads{cfg: PayloadsConfig{KeptBytes: 1}}
		kept := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.kept)
		}
		l.mu.Lock()
		l.keep(keptChunk{})
		l.mu.Unlock()
		time.Sleep(keptFor - time.Second)
		synctest.Wait()
		if n := kept(); n != 1 {
			t.Errorf("%d are kept", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := kept(); n != 0 {
			t.Errorf("%d are kept at rest", n)
		}
	})
}

// A chunk that weighs much more than was asked for serves its loads and is not kept.
func TestPayloadsKeepNoHeavyChunk(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	big := event(0)
	big.Data = []byte(strings.Repeat("x", 100_000))
	big.Hash = schemas.HashBody(big.Data)
	r.Send(record.Encode(testTopic, big))
	l := r.payloads(func(c *PayloadsConfig) { c.ChunkBytes = 1000 })
	p := r.Pointer(0, 0)
	p.Hash = big.Hash
	e, err := l.Load(r.Ctx(), p)
	if err != nil || len(e.Data) != len(big.Data) {
		t.Fatalf("got %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) > 0 {
		t.Errorf("%d chunks are kept", len(l.kept))
	}
}

// Well compressed batches unpack to what is read of them and no more, one read at a time; one that unpacks to more than a record
// may weigh is no payload, and hides nobody's.
func TestPayloadsUnpackWithinBounds(t *testing.T) {
	t.Parallel()
	const limit, chunkBytes, size, batches = 256 << 10, 8 << 10, 200 << 10, 40
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "zstd": kgo.ZstdCompression(), "lz4": kgo.Lz4Compression(), "snappy": kgo.SnappyCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			zip := r.NewClient(kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(8<<20))
			var pointers []ledger.Pointer
			put := func(i, size int) {
				e := event(i)
				e.Data = bytes.Repeat([]byte("x"), size)
				e.Hash = schemas.HashBody(e.Data)
				if err := zip.ProduceSync(r.Ctx(), record.Encode(testTopic, e)).FirstErr(); err != nil {
					t.Fatal(err)
				}
				p := r.Pointer(i, int64(i))
				p.Hash = e.Hash
				pointers = append(pointers, p)
			}
			for i := range batches {
				put(i, size)
			}
			put(batches, 4<<20)
			put(batches+1, 100)
			l := r.payloads(func(c *PayloadsConfig) { c.MaxRecordBytes, c.ChunkBytes = limit, chunkBytes })
			at := ledger.Partition{Topic: testTopic, TopicID: r.TopicID()}
			for offset := int64(0); offset < batches; {
				c := l.chunks.chunk(r.Ctx(), at, offset)
				if w := c.weight(); w > maxKept*chunkBytes+limit || c.to <= offset || c.to > batches || len(c.records) == 0 {
					t.Fatalf("read from %d to %d, %d bytes: %v %v", offset, c.to, w, c.absent, c.err)
				}
				offset = c.to
			}
			for i, p := range pointers {
				e, err := l.Load(r.Ctx(), p)
				if i == batches {
					streamtest.IsLost(t, err, "of offsets 40 to 40, decompresses to more than the 262144 bytes that are read")
				} else if err != nil || e.Hash != p.Hash {
					t.Errorf("payload %d: %v", i, err)
				}
			}
		})
	}
}

func TestPayloadsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	l := r.payloads()
	hold := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: testTopic, Err: kerr.KafkaStorageError, Count: -1})
	got := make(chan error, 1)
	go func() { _, err := l.Load(t.Context(), r.Pointer(0, 0)); got <- err }()
	if err := hold.Wait(r.Ctx(), 1); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := <-got; !errors.Is(err, errPayloadsClosed) || sink.ClassOf(err) == sink.ClassPayload {
		t.Errorf("a load that waited: %v", err)
	}
	if _, err := l.Load(t.Context(), r.Pointer(0, 0)); !errors.Is(err, errPayloadsClosed) {
		t.Errorf("a load after: %v", err)
	}
	if _, err := NewPayloads(PayloadsConfig{ChunkBytes: -1}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("negative limit: %v", err)
	}
}
