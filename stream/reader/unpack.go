package reader

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// unpackOptions bound what a compressed batch may come to: most bytes, and fourfold that in memory with what its records
// and headers take there. A few kilobytes of the log unpack to millions of records without a byte in them, of 200 bytes each.
// A batch over the bound is a [kgo.ErrDecompressTooLarge].
func unpackOptions(most int) ([]kgo.Opt, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(most)) // the only way to a bounded decompressor; it never connects
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	defer cl.Close()
	inner := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	return []kgo.Opt{kgo.WithDecompressor(&fewRecords{inner, 4 * most}), kgo.MaxDecompressBatchBytes(most)}, nil
}

// fewRecords refuses batches that come to more than most bytes in memory, before there are any records of them.
type fewRecords struct {
	kgo.Decompressor
	most int
}

func (d *fewRecords) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := d.Decompressor.Decompress(src, codec)
	if err == nil && codec != kgo.CodecNone && len(out)*worstGrowth > d.most && unpacked(out) > d.most {
		return nil, kgo.ErrMaxDecompress
	}
	return out, err
}

// What kgo makes of a record and of a header. It believes a record that it has a header a byte, so that nothing grows more
// than by one of those: batches below that are not looked at.
const (
	recordBytes = 192
	headerBytes = 40
	worstGrowth = 1 + headerBytes
	leastRecord = 6 // bytes, without its length
)

// unpacked is about what the records of a batch take in memory. What is no record ends it, as it ends kgo's reading.
func unpacked(in []byte) (bytes int) {
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

// headersIn is how many headers a record says it has, but no more than could be.
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
