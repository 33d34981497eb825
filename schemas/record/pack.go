package record

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/twmb/franz-go/pkg/kgo"
)

// packVersion is the version of the packed form that is described here. Numbers are varints, bytes are their length plus one (zero is
// null) and themselves:
//
//	1 | seconds nanoseconds | topic | partition offset leaderEpoch | key | value | count (name value)...
//
// The zero time is written as it is. The producer's id and epoch and the attributes of the batch are left out.
const packVersion = 1

// Pack returns r as bytes that [Unpack] reads back: key, value, headers, timestamp, topic, partition, offset and leader epoch. It keeps
// null and empty apart.
func Pack(r *kgo.Record) []byte {
	b := append(make([]byte, 0, PackedSize(r)), packVersion)
	b = binary.AppendVarint(b, r.Timestamp.Unix())
	b = binary.AppendVarint(b, int64(r.Timestamp.Nanosecond()))
	b = appendBytes(b, []byte(r.Topic), false)
	b = binary.AppendVarint(b, int64(r.Partition))
	b = binary.AppendVarint(b, r.Offset)
	b = binary.AppendVarint(b, int64(r.LeaderEpoch))
	b = appendBytes(b, r.Key, r.Key == nil)
	b = appendBytes(b, r.Value, r.Value == nil)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendBytes(b, []byte(h.Key), false)
		b = appendBytes(b, h.Value, h.Value == nil)
	}
	return b
}

// PackEvent returns an event as bytes that [UnpackEvent] reads back: its record, without a place in the log.
func PackEvent(e *schemas.Event) []byte { return Pack(Encode("", e)) }

// UnpackEvent returns the event in a packed record. Errors are *schemas.Error of kind Invalid.
func UnpackEvent(packed []byte) (*schemas.Event, error) {
	r, err := Unpack(packed)
	if err != nil {
		return nil, err
	}
	return Decode(r)
}

// PackedSize returns how many bytes [Pack] gives for r.
func PackedSize(r *kgo.Record) int {
	n := 1 + varintSize(r.Timestamp.Unix()) + varintSize(int64(r.Timestamp.Nanosecond())) + varintSize(int64(r.Partition)) +
		varintSize(r.Offset) + varintSize(int64(r.LeaderEpoch))
	n += bytesSize(len(r.Topic), false) + bytesSize(len(r.Key), r.Key == nil) + bytesSize(len(r.Value), r.Value == nil)
	n += uvarintSize(uint64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += bytesSize(len(h.Key), false) + bytesSize(len(h.Value), h.Value == nil)
	}
	return n
}

// bytesSize returns how many bytes appendBytes appends for n bytes.
func bytesSize(n int, null bool) int {
	if null {
		return 1
	}
	return uvarintSize(uint64(n)+1) + n
}

func varintSize(v int64) int { return uvarintSize(uint64(v)<<1 ^ uint64(v>>63)) } // zigzag, as encoding/binary does

func uvarintSize(v uint64) int { return max(1, (bits.Len64(v)+6)/7) }

// appendBytes appends the length of v plus one, and v; only a zero if null is set.
func appendBytes(b, v []byte, null bool) []byte {
	if null {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(v))+1)
	return append(b, v...)
}

// Unpack reads what [Pack] wrote. The record shares b's bytes. Its timestamp is in UTC. Errors are *schemas.Error of
// kind Invalid.
func Unpack(b []byte) (*kgo.Record, error) {
	if len(b) == 0 || b[0] != packVersion {
		return nil, invalid("packed record: not of version %d", packVersion)
	}
	u := unpacker{rest: b[1:]}
	sec, nsec := u.int(math.MinInt64, math.MaxInt64), u.int(0, 999_999_999)
	r := &kgo.Record{Timestamp: time.Unix(sec, nsec).UTC()}
	r.Topic = string(u.bytes())
	r.Partition = int32(u.int(math.MinInt32, math.MaxInt32))
	r.Offset = u.int(math.MinInt64, math.MaxInt64)
	r.LeaderEpoch = int32(u.int(math.MinInt32, math.MaxInt32))
	r.Key = u.bytes()
	r.Value = u.bytes()
	count := u.uint()
	if count > uint64(len(u.rest))/2 { // a header has at least two bytes: nothing is allocated for a count that cannot be true
		u.bad = true
	}
	if count > 0 && !u.bad {
		r.Headers = make([]kgo.RecordHeader, 0, count)
		for range count {
			name := string(u.bytes())
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: u.bytes()})
		}
	}
	if u.bad || len(u.rest) > 0 {
		return nil, invalid("packed record: malformed")
	}
	return r, nil
}

// unpacker reads a packed record from its beginning. Once it has met something malformed, it returns zeros.
type unpacker struct {
	rest []byte // not read yet
	bad  bool   // something was malformed
}

// uint reads an unsigned varint.
func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.rest)
	if n <= 0 {
		u.bad, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

// int reads a varint that must be between low and high.
func (u *unpacker) int(low, high int64) int64 {
	v, n := binary.Varint(u.rest)
	if n <= 0 || v < low || v > high {
		u.bad, u.rest = true, nil
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

// bytes reads bytes, nil if they were null.
func (u *unpacker) bytes() []byte {
	n := u.uint()
	if n == 0 {
		return nil
	}
	n--
	if n > uint64(len(u.rest)) {
		u.bad, u.rest = true, nil
		return nil
	}
	v := u.rest[:n:n]
	u.rest = u.rest[n:]
	return v
}
