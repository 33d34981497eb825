package reader

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// maxErrorText bounds the text that says why a record cannot be decoded, since it may quote the record.
const maxErrorText = 500

// errNoKey is for a record without a key: it may be in any partition, so nothing keeps its entity's events in order.
var errNoKey = errors.New("key is missing: it names the partition, and without one no order per entity holds")

// bounds is what decode checks a record against.
type bounds struct {
	partitions int32 // how many the topic has; 0: not known, and no record is misplaced
	maxBytes   int   // of a record
}

// decode returns a record for the ledger, and its event; nil if the record is to be quarantined. It has no error: a record that cannot be
// decided goes to the ledger with its bytes, and does not stop its partition. wanted decides what is filtered and gives second keys, see [Reader.wants].
func decode(r *kgo.Record, wanted func(*schemas.Event) (gate.Reason, gate.Also, error), b bounds) (ledger.Record, *schemas.Event) {
	rec := ledger.Record{
		Record:      gate.Record{Offset: r.Offset, AppendTime: r.Timestamp},
		LeaderEpoch: r.LeaderEpoch,
		Packed:      func() []byte { return record.Pack(r) },
	}
	if n := weight(r); n > b.maxBytes {
		kept := record.Pack(beginning(r)) // packed now: the large record can then be freed
		rec.Packed = func() []byte { return kept }
		rec.Broken = gate.ReasonTooLarge
		rec.Error = fmt.Sprintf("it weighs %d bytes, more than the %d that are read; its first %d are kept here, and all of it in the log for as long as the topic keeps it",
			n, b.maxBytes, keptBytes)
		return rec, nil
	}
	e, err := record.Decode(r)
	if err == nil && r.Key == nil {
		err = errNoKey
	}
	if err != nil {
		rec.Broken = gate.ReasonUndecodable
		rec.Error = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxErrorText)], "?")
		return rec, nil
	}
	rec.Key, rec.Hash, rec.Entity = e.Key(), e.Hash, e.Entity
	rec.Version, rec.First, rec.Payload, rec.Deleted = e.Version, e.First, e.Payload, e.Deleted
	rec.Backfill = e.Backfill
	rec.Size = int64(record.PackedSize(r))
	rec.Source, rec.ID, rec.Type, rec.ReceivedAt = e.Source, e.ID, e.Type, e.RecordedTime
	if place := b.place(r); place != r.Partition {
		rec.Broken = gate.ReasonMisplaced
		rec.Error = fmt.Sprintf("its key belongs in partition %d of %d, it is in %d: its producer does not place keys as Kafka's own does (murmur2), or saw another number of partitions",
			place, b.partitions, r.Partition)
		return rec, nil
	}
	why, also, err := wanted(e)
	if err != nil {
		rec.Broken, rec.Error = why, strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxErrorText)], "?")
		return rec, nil
	}
	rec.Filtered, rec.Unmatched, rec.Also = why != "", why == gate.ReasonMatch, also
	return rec, e
}

// place returns the partition that r belongs in by its key; the one that it is in if the number of partitions is not known.
func (b bounds) place(r *kgo.Record) int32 {
	if b.partitions == 0 {
		return r.Partition
	}
	return record.Place(r, b.partitions)
}

// keptBytes is how many bytes are kept of a record that is too large: enough to see where it comes from.
const keptBytes = 64 << 10

// beginning returns r with its key, headers and value cut to keptBytes in all: the key first, then whole headers, then the value.
func beginning(r *kgo.Record) *kgo.Record {
	b := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp}
	room := keptBytes
	cut := func(v []byte) []byte {
		v = v[:min(len(v), room)]
		room -= len(v)
		return v
	}
	b.Key = cut(r.Key)
	for _, h := range r.Headers {
		const each = 8 // even empty ones take room
		if len(h.Key)+len(h.Value)+each > room {
			break
		}
		room -= len(h.Key) + len(h.Value) + each
		b.Headers = append(b.Headers, h)
	}
	b.Value = cut(r.Value)
	return b
}
