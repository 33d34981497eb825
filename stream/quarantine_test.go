package stream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// quarantined waits until a partition is read up to next and gives the rejected records, by offset.
func (r *rig) quarantined(cfg setup, m *memory, next int64) []ledger.Record {
	r.T.Helper()
	run := r.start(cfg)
	m.until(r.T, "all read", func() bool { return m.next(0) == next })
	run.stop(r.T)
	m.check(r.T)
	return m.broken
}

// A record in another partition than its key's is quarantined with its identity and its bytes; its partition goes on.
func TestMisplacedRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.Produce(0, 1)
	e := event(2)
	e.Entity = entityIn(2, 3)
	stray := record.Encode(testTopic, e)
	stray.Partition = 0
	r.Send(stray)
	r.Produce(0, 3)
	m, lanes := newMemory(), newLanes()
	cfg := r.config(m, lanes)
	cfg.Filter = reader.Globs([]string{"nothing.of.this"}) // which is not asked about a record that cannot be decided
	got := r.quarantined(cfg, m, 3)
	if len(got) != 1 {
		t.Fatalf("rejected: %+v", got)
	}
	q := got[0]
	if q.Broken != gate.ReasonMisplaced || q.Offset != 1 || !strings.Contains(q.Error, "belongs in partition 2 of 3, it is in 0") || q.Filtered {
		t.Errorf("%+v", q)
	}
	if q.Key != e.Key() || q.Hash != e.Hash || q.Entity != e.Entity || q.ID != "e2" || q.Source != e.Source {
		t.Errorf("who it is about is lost: %+v", q)
	}
	back, err := record.Unpack(q.Packed())
	if err != nil || !bytes.Equal(back.Key, stray.Key) || !bytes.Equal(back.Value, stray.Value) || len(back.Headers) != len(stray.Headers) {
		t.Errorf("packed bytes came back as %+v, %v", back, err)
	}
}

// What is no CloudEvent, or has no key, is quarantined one by one, with what it was.
func TestRecordsThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	keyless := []kgo.RecordHeader{{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte("1")},
		{Key: "ce_source", Value: []byte("/acme/orders")}, {Key: "ce_type", Value: []byte("t")}, {Key: "ce_subject", Value: []byte("order/1")}}
	own := record.Encode(testTopic, event(1))
	own.Key = nil
	foreign := &kgo.Record{Topic: testTopic, Value: []byte("{}"), Headers: keyless}
	withKey := &kgo.Record{Topic: testTopic, Key: []byte("order/1"), Value: []byte("{}"), Headers: keyless}
	tombstone := &kgo.Record{Topic: testTopic, Key: []byte("order/1")}
	r.Send(&kgo.Record{Topic: testTopic, Key: []byte("k"), Value: []byte("\x00\xff")}, own, foreign, tombstone, withKey)
	m := newMemory()
	got := r.quarantined(r.config(m, newLanes()), m, 5)
	var said []string
	for _, q := range got {
		said = append(said, fmt.Sprintf("%d %s %s", q.Offset, q.Broken, q.Error))
		back, err := record.Unpack(q.Packed())
		if err != nil || back.Offset != q.Offset || (q.Offset == 2) != (back.Key == nil && bytes.Equal(back.Value, foreign.Value)) {
			t.Errorf("packed bytes of %d came back as %+v, %v", q.Offset, back, err)
		}
	}
	want := []string{
		"0 undecodable read record: attribute specversion is missing: not a CloudEvent",
		"1 undecodable read record: key is missing",
		"2 undecodable key is missing: it names the partition, and without one no order per entity holds",
		"3 undecodable read record: value is null",
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0/4 1"}, m.lines); d != "" {
		t.Errorf("a foreign event with a key: %s", d)
	}
}

// A record over the limit leaves its beginning, a batch over it what stands in the log; both are passed, and what
// stands before and behind them in the same fetch is read.
func TestRecordsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	r := newRig(t, 1)
	r.Client = r.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	zip := r.NewClient(kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(900<<10), kgo.ProducerLinger(0))
	large := func(i, size int) *kgo.Record {
		e := event(i)
		e.Data = bytes.Repeat([]byte("x"), size)
		e.Hash = schemas.HashBody(e.Data)
		return record.Encode(testTopic, e)
	}
	r.Produce(0, 0)
	plain := large(1, limit)
	r.Send(plain)
	r.Produce(0, 2)
	if err := zip.ProduceSync(r.Ctx(), large(3, limit), large(4, limit)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.Produce(0, 5)
	r.Send(large(6, limit-2000))
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.MaxRecordBytes = limit
	got := r.quarantined(cfg, m, 7)
	if d := cmp.Diff([]string{"0/0 e0", "0/2 e2", "0/5 e5", "0/6 e6"}, m.lines); d != "" {
		t.Errorf("what was read: %s", d)
	}
	if len(got) == 3 && got[1].Offset == 3 && got[2].Offset == 4 { // the client sent two batches of one record each
		got[1].Error = strings.Replace(got[1].Error, "3 to 3", "3 to 4", 1)
		got = got[:2]
	}
	if len(got) != 2 {
		t.Fatalf("rejected: %+v", got)
	}
	one, batch := got[0], got[1]
	if one.Broken != gate.ReasonTooLarge || one.Offset != 1 || !strings.Contains(one.Error, fmt.Sprintf("it weighs %d bytes, more than the %d", weight(plain), limit)) {
		t.Errorf("%+v", one)
	}
	back, err := record.Unpack(one.Packed())
	if err != nil || !bytes.Equal(back.Key, plain.Key) || len(back.Headers) != len(plain.Headers) || !bytes.HasPrefix(plain.Value, back.Value) {
		t.Fatalf("its beginning: %+v, %v", back, err)
	}
	const kept = 64 << 10
	if n := weight(back); n > kept || n < kept-1000 {
		t.Errorf("%d bytes are kept of it", n)
	}
	if batch.Broken != gate.ReasonTooLarge || batch.Offset != 3 || !strings.Contains(batch.Error, "offsets 3 to 4 decompresses to more than the 262144 bytes") {
		t.Errorf("%+v", batch)
	}
	var raw kmsg.RecordBatch
	if err := raw.ReadFrom(batch.Packed()); err != nil || raw.FirstOffset != 3 || raw.Attributes&7 != 1 {
		t.Errorf("what is kept is no batch: %v %+v", err, raw.FirstOffset)
	}
}

// weight is what a record weighs by the config's limit.
func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
