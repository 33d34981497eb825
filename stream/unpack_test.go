package stream

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/stream/gate"
)

// A few kilobytes that unpack to records without number are passed like one record that is too large, and so they are where
// a payload in them is asked for.
func TestBatchesOfTooManyRecords(t *testing.T) {
	t.Parallel()
	const limit, many = 256 << 10, 20_000
	r := newRig(t, 1)
	zip := r.newClient(kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerLinger(time.Second),
		kgo.MaxBufferedRecords(2*many))
	r.produce(0, 0)
	var batch []*kgo.Record
	for range many {
		batch = append(batch, &kgo.Record{Topic: testTopic, Key: []byte("k")})
	}
	if err := zip.ProduceSync(r.ctx(), batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.produce(0, many+1)
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.MaxRecordBytes = limit
	got := r.quarantined(cfg, m, many+2)
	if d := cmp.Diff([]string{"0/0 e0", "0/20001 e20001"}, m.lines); d != "" {
		t.Errorf("what was read: %s", d)
	}
	if len(got) != 1 || got[0].Offset != 1 || got[0].Broken != gate.ReasonTooLarge || !strings.Contains(got[0].Error, "of offsets 1 to 20000 decompresses to") {
		t.Errorf("%d are set aside, the first as %+v", len(got), got[0])
	}
	l := r.payloads(func(c *PayloadsConfig) { c.MaxRecordBytes = limit })
	_, err := l.Load(r.ctx(), r.pointer(7, 7))
	isLost(t, err, "of offsets 1 to 20000, decompresses to more than")
}

// What is counted is what kgo makes of it, and no less.
func TestUnpackedCountsRecordsAndHeaders(t *testing.T) {
	t.Parallel()
	if record, header := int(unsafe.Sizeof(kgo.Record{})+unsafe.Sizeof(&kgo.Record{})), int(unsafe.Sizeof(kgo.RecordHeader{})); record > recordBytes || header > headerBytes {
		t.Fatalf("a record takes %d bytes, a header %d", record, header)
	}
	rapid.Check(t, func(t *rapid.T) {
		var in []byte
		records, headers := rapid.IntRange(0, 20).Draw(t, "records"), 0
		for i := range records {
			k := kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: rapid.Int64().Draw(t, "time"), Key: rapid.SliceOf(rapid.Byte()).Draw(t, "key")}
			if rapid.Bool().Draw(t, "value") {
				k.Value = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
			}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				k.Headers = append(k.Headers, kmsg.Header{Key: "k", Value: []byte("v")})
			}
			headers += len(k.Headers)
			k.Length = int32(len(k.AppendTo(nil)) - 1) // a length of 0 takes a byte
			in = k.AppendTo(in)
		}
		if got, want := unpacked(in), len(in)+records*recordBytes+headers*headerBytes; got != want {
			t.Fatalf("%d records with %d headers in %d bytes take %d, want %d", records, headers, len(in), got, want)
		}
		if len(in) > 0 && unpacked(in) > len(in)*worstGrowth {
			t.Fatalf("%d bytes grow to %d", len(in), unpacked(in))
		}
		for _, cut := range [][]byte{in[:rapid.IntRange(0, len(in)).Draw(t, "cut")], rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")} {
			if n := unpacked(cut); n < len(cut) || n > len(cut)*worstGrowth {
				t.Fatalf("%d bytes of garbage take %d", len(cut), n)
			}
		}
	})
}
