package stream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/reader"
)

// A few kilobytes that unpack to records without number are passed like one record that is too large, and so they are where
// a payload in them is asked for.
func TestBatchesOfTooManyRecords(t *testing.T) {
	t.Parallel()
	const limit, many = 256 << 10, 20_000
	r := newRig(t, 1)
	zip := r.NewClient(kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(8<<20), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(2*many))
	r.Produce(0, 0)
	ctx := r.Ctx()
	for range many {
		zip.Produce(ctx, &kgo.Record{Topic: testTopic, Key: []byte("k")}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := zip.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	r.Produce(0, many+1)
	m := newMemory()
	cfg := r.config(m, newLanes())
	cfg.MaxRecordBytes = limit
	got := r.quarantined(cfg, m, many+2)
	if d := cmp.Diff([]string{"0/0 e0", "0/20001 e20001"}, m.lines); d != "" {
		t.Errorf("what was read: %s", d)
	}
	if len(got) != 1 || got[0].Offset != 1 || got[0].Broken != gate.ReasonTooLarge || !strings.Contains(got[0].Error, "of offsets 1 to 20000 decompresses to") {
		t.Errorf("%d are rejected, the first as %+v", len(got), got[0])
	}
	l := r.payloads(func(c *reader.PayloadsConfig) { c.MaxRecordBytes = limit })
	_, err := l.Load(r.Ctx(), r.Pointer(7, 7))
	streamtest.IsLost(t, err, "of offsets 1 to 20000, decompresses to more than")
}
