package schemas

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// EncodingAttribute is the extension of an event whose Data is compressed, as its sender signed it. Its value is gzip.
const EncodingAttribute = "contentencoding"

// Zipped reports whether a body is compressed with gzip, by its first bytes: no text begins so, and the header that says so is not signed.
func Zipped(body []byte) bool { return bytes.HasPrefix(body, []byte{0x1f, 0x8b}) }

// GzipMost is how many times as large as it is what gzip has compressed can be, at most.
const GzipMost = 1032

// Unzip returns what a body is without its compression. More than limit bytes are an error.
func Unzip(body []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes once unpacked", limit)
	}
	return text, err
}

// Text returns Data without the compression that its sender made; at most limit bytes of that.
func (e *Event) Text(limit int64) ([]byte, error) {
	if e.Extensions[EncodingAttribute] == "" {
		return e.Data, nil
	}
	return Unzip(e.Data, limit)
}
