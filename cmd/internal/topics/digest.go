package topics

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// digest is a digest of a topic's records, to compare two topics: for each key the number of records, and a hash of them in their order.
// It takes about a hundred bytes per key. Digests of different processes cannot be compared.
type digest struct {
	keys    map[[16]byte]line
	keyless line // of records without a key: any order
	records int64
	bytes   int64
}

// line is one key's records.
type line struct {
	records int64
	sum     uint64
}

var seed = maphash.MakeSeed()

func newDigest() *digest { return &digest{keys: map[[16]byte]line{}} }

// add adds a record. The order of the records of one key counts; that of records without a key does not.
// add adds a record. The order of the records of one key counts; that of records without a key does not.
func (d *digest) add(r *kgo.Record) {
	d.records++
	d.bytes += int64(len(r.Key) + len(r.Value))
	sum := sumOf(r)
	if r.Key == nil {
		d.keyless = line{d.keyless.records + 1, d.keyless.sum + sum}
		return
	}
	full := sha256.Sum256(r.Key)
	key := [16]byte(full[:16])
	l := d.keys[key]
	l.records++
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:8], l.sum)
	binary.LittleEndian.PutUint64(both[8:], sum)
	l.sum = maphash.Bytes(seed, both[:])
	d.keys[key] = l
}

// sumOf returns a hash of everything that a copy must keep of a record. It includes lengths, and tells nil from empty.
func sumOf(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	number := func(n int64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	part := func(b []byte) {
		if b == nil {
			number(-1)
			return
		}
		number(int64(len(b)))
		h.Write(b)
	}
	part(r.Key)
	part(r.Value)
	for _, header := range r.Headers {
		part([]byte(header.Key))
		part(header.Value)
	}
	number(r.Timestamp.UnixMilli())
	return h.Sum64()
}

// compare returns an error if d, the digest of what was read of a topic, differs from that of what was sent to it.
func (d *digest) compare(sent *digest, topic string) error {
	op := "check " + topic
	if d.records != sent.records {
		return schemas.Errorf(schemas.Internal, op, "it holds %d records, %d were copied", d.records, sent.records)
	}
	if d.keyless != sent.keyless {
		return schemas.Errorf(schemas.Internal, op, "its records without a key differ from those copied")
	}
	differ := 0
	for key, l := range sent.keys {
		if d.keys[key] != l {
			differ++
		}
	}
	if differ > 0 || len(d.keys) != len(sent.keys) {
		return schemas.Errorf(schemas.Internal, op, "%d of %d keys differ from what was copied, in records or in their order", max(differ, 1), len(sent.keys))
	}
	return nil
}
