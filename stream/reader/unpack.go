package reader

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// unpackOptions returns client options that bound what a compressed batch may become: maxBytes decompressed, and four times that in
// memory as records and headers. Otherwise a few kilobytes of the log may become millions of empty records, of 200 bytes each. For a
// batch over a bound, kgo returns a [kgo.ErrDecompressTooLarge].
func unpackOptions(maxBytes int) ([]kgo.Opt, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(maxBytes)) // the only way to a bounded decompressor; it never connects
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	defer cl.Close()
	inner := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return []kgo.Opt{kgo.WithDecompressor(&boundedDecompressor{inner, 4 * maxBytes}), kgo.MaxDecompressBatchBytes(maxBytes)}, nil
}

// boundedDecompressor refuses batches that would become more than maxMemory bytes in memory, before kgo makes records of them.
type boundedDecompressor struct {
	kgo.Decompressor
	maxMemory int
}

// Decompress implements [kgo.Decompressor].
func (d *boundedDecompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.Decompressor.Decompress(src, codec)
	if err == nil && codec != kgo.CodecNone && len(out)*worstGrowth > d.maxMemory && memoryOf(out) > d.maxMemory {
		return nil, kgo.ErrMaxDecompress
	}
	return out, err
}

// How many bytes kgo's structs for a record and a header take. kgo accepts a header count of up to one per byte of the record, so a
// batch grows by the factor worstGrowth at most. A batch that stays below the bound even then is not looked at by memoryOf.
const (
	recordBytes = 192
	headerBytes = 40
	worstGrowth = 1 + headerBytes
	minRecord   = 6 // bytes of a record, without its length
)

// memoryOf returns about how many bytes the records of a batch take in memory. It stops at the first broken record, as kgo does.
func memoryOf(in []byte) (bytes int) {
	bytes = len(in)
	for len(in) > 0 {
		length, n := binary.Varint(in)
		if n <= 0 || length < minRecord || length > int64(len(in)-n) {
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
