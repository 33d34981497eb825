package record

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is packed is what every client unpacks, in blocks of 64 KiB: a reader makes buffers of a block's size. The writer is used again.
func TestCompress(t *testing.T) {
	t.Parallel()
	c := newCompressor()
	for _, n := range []int{1, 100, 64 << 10, 1 << 20} {
		src := []byte(strings.Repeat("0123456789", n)[:n])
		packed, codec := c.Compress(new(bytes.Buffer), src)
		if codec != kgo.CodecLz4 {
			t.Fatalf("%d bytes: codec %v", n, codec)
		}
		if block := packed[5] >> 4 & 7; block != 4 { // of the frame's descriptor: 4 is 64 KiB, 7 is 4 MiB
			t.Errorf("%d bytes: blocks of size %d", n, block)
		}
		if n >= 64<<10 && len(packed) > n/50 {
			t.Errorf("%d bytes became %d", n, len(packed))
		}
		got, err := kgo.DefaultDecompressor().Decompress(packed, codec)
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%d bytes: unpacked %d, %v", n, len(got), err)
		}
	}
}
