package spool

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var errPayload = errors.New("no record of a spool")

// encode returns the payload of a record: when it came, topic, key, headers, value. Texts have their length before them; that of the key is
// one more, 0 is none.
func encode(came time.Time, r *kgo.Record) []byte {
	size := 64 + len(r.Topic) + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += 10 + len(h.Key) + len(h.Value)
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, size), uint64(came.UnixNano()))
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(r.Topic)
	if r.Key == nil {
		b = binary.AppendUvarint(b, 0)
	} else {
		b = append(binary.AppendUvarint(b, uint64(len(r.Key))+1), r.Key...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		text(h.Key)
		text(string(h.Value))
	}
	return append(b, r.Value...)
}

// decode returns the record of a payload, whose memory it uses.
func decode(b []byte) (came time.Time, r *kgo.Record, err error) {
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) { // whatever is counted takes a byte at least
			err, n, size = errPayload, 0, 0
		}
		b = b[size:]
		return n
	}
	take := func(n uint64) []byte {
		if n > uint64(len(b)) {
			err, n = errPayload, 0
		}
		taken := b[:n:n]
		b = b[n:]
		return taken
	}
	if len(b) < 8 {
		return came, nil, errPayload
	}
	came = time.Unix(0, int64(binary.LittleEndian.Uint64(take(8))))
	r = &kgo.Record{Topic: string(take(number()))}
	if n := number(); n > 0 {
		r.Key = take(n - 1)
	}
	headers := number()
	for range headers {
		if err != nil {
			break
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(take(number())), Value: take(number())})
	}
	r.Value = b
	if r.Topic == "" {
		err = errPayload
	}
	return came, r, err
}
