package reader

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// unpackOptions bounds what a compressed batch may become: most bytes decompressed, and four times that in memory as records and
// headers. Otherwise a few kilobytes of the log may become millions of empty records, of 200 bytes each. A batch over a bound is a
// [kgo.ErrDecompressTooLarge].
func unpackOptions(most int) ([]kgo.Opt, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(most)) // the only way to a bounded decompressor; it never connects
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	defer cl.Close()
	inner := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return []kgo.Opt{kgo.WithDecompressor(&boundedDecompressor{inner, 4 * most}), kgo.MaxDecompressBatchBytes(most)}, nil
}

// boundedDecompressor refuses batches that would become more than most bytes in memory, before kgo makes records of them.
type boundedDecompressor struct {
	kgo.Decompressor
	most int
}

func (d *boundedDecompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.Decompressor.Decompress(src, codec)
	if err == nil && codec != kgo.CodecNone && len(out)*worstGrowth > d.most && memoryOf(out) > d.most {
		return nil, kgo.ErrMaxDecompress
	}
	return out, err
}

// How many bytes kgo's structs for a record and a header take. It accepts a header count of up to one per byte of the record, so a
// batch grows by worstGrowth at most; smaller batches are not counted.
const (
	recordBytes = 192
	headerBytes = 40
	worstGrowth = 1 + headerBytes
	leastRecord = 6 // bytes, without its length
)

// memoryOf returns about how many bytes the records of a batch take in memory. It stops at the first broken record, as kgo does.
func memoryOf(in []byte) (bytes int) {
	bytes = len(in)
	for len(in) > 0 {
		length, n := binary.Varint(in)
		if n <= 0 || length < leastRecord || length > int64(len(in)-n) {
			return bytes
		}
		bytes += recordBytes + headersIn(in[n:n+int(length)])*headerBytes
		in = in[n+int(length):]
	}
	return bytes
}

// headersIn returns how many headers a record claims to have, at most one per byte that is left in it.
func headersIn(record []byte) int {
	if len(record) == 0 {
		return 0
	}
	record = record[1:] // attributes
	for range 2 {       // time and offset
		_, n := binary.Varint(record)
		if n <= 0 {
			return 0
		}
		record = record[n:]
	}
	for range 2 { // key and value
		length, n := binary.Varint(record)
		if n <= 0 || length > int64(len(record)-n) {
			return 0
		}
		record = record[n+int(max(length, 0)):]
	}
	count, n := binary.Varint(record)
	if n <= 0 || count < 0 {
		return 0
	}
	return int(min(count, int64(len(record)-n)))
}
