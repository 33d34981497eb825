package record

import (
	"bytes"
	"sync"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compressor is what [Compressor] makes.
type compressor struct{ writers sync.Pool }

// Compressor has a client pack its batches with lz4 in blocks of 64 KiB, as Java's client does. kgo's own has blocks of 4 MiB, and with them
// each writer here and each reader of the log has twice 4 MiB of buffers, for batches of some kilobytes.
func Compressor() kgo.Opt {
	return kgo.WithCompressor(newCompressor())
}

func newCompressor() *compressor {
	return &compressor{sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
			panic(err) // it is one of four sizes that there are
		}
		return w
	}}}
}

// Compress implements [kgo.Compressor]. kgo takes what is smaller than src.
func (c *compressor) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	w := c.writers.Get().(*lz4.Writer)
	defer c.writers.Put(w)
	w.Reset(dst)
	if _, err := w.Write(src); err != nil {
		return nil, kgo.CodecError // the batch goes as it is
	}
	if err := w.Close(); err != nil {
		return nil, kgo.CodecError
	}
	return dst.Bytes(), kgo.CodecLz4
}
