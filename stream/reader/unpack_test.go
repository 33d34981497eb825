package reader

import (
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

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
		if got, want := memoryOf(in), len(in)+records*recordBytes+headers*headerBytes; got != want {
			t.Fatalf("%d records with %d headers in %d bytes take %d, want %d", records, headers, len(in), got, want)
		}
		if len(in) > 0 && memoryOf(in) > len(in)*worstGrowth {
			t.Fatalf("%d bytes grow to %d", len(in), memoryOf(in))
		}
		for _, cut := range [][]byte{in[:rapid.IntRange(0, len(in)).Draw(t, "cut")], rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")} {
			if n := memoryOf(cut); n < len(cut) || n > len(cut)*worstGrowth {
				t.Fatalf("%d bytes of garbage take %d", len(cut), n)
			}
		}
	})
}
