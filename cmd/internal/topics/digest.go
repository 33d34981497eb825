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
	keys    map[[16]byte]keyDigest // by the first half of the key's SHA-256
	keyless keyDigest              // of records without a key: in any order
	records int64
	bytes   int64
}

// keyDigest is a digest of the records of one key.
type keyDigest struct {
	records int64
	hash    uint64
}

var seed = maphash.MakeSeed()

func newDigest() *digest { return &digest{keys: map[[16]byte]keyDigest{}} }

// add adds a record. The order of the records of one key counts; that of records without a key does not.
func (d *digest) add(r *kgo.Record) {
	d.records++
	d.bytes += int64(len(r.Key) + len(r.Value))
	hash := hashOf(r)
	if r.Key == nil {
		d.keyless.records++
		d.keyless.hash += hash // a sum is the same in any order
		return
	}
	full := sha256.Sum256(r.Key)
	key := [16]byte(full[:16])
	k := d.keys[key]
	k.records++
	var both [16]byte // the hash of a hash and the next depends on the order
	binary.LittleEndian.PutUint64(both[:8], k.hash)
	binary.LittleEndian.PutUint64(both[8:], hash)
	k.hash = maphash.Bytes(seed, both[:])
	d.keys[key] = k
}

// hashOf returns a hash of everything that a copy must keep of a record. It includes lengths, and tells nil from empty.
func hashOf(r *kgo.Record) uint64 {
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
	for key, k := range sent.keys {
		if d.keys[key] != k {
			differ++
		}
	}
	if differ > 0 || len(d.keys) != len(sent.keys) {
		return schemas.Errorf(schemas.Internal, op, "%d of %d keys differ from what was copied, in records or in their order", max(differ, 1), len(sent.keys))
	}
	return nil
}
