package stream

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// maxErrorText bounds why a record is not decodable: the text may quote the record.
const maxErrorText = 500

// decode gives the ledger's view of a record, and its event. It never fails: what cannot be read is a row with its
// bytes, so that one bad record never stops its partition.
func decode(r *kgo.Record, wanted func(eventType, source string) bool) (ledger.Record, *schemas.Event) {
	rec := ledger.Record{
		Record:      gate.Record{Offset: r.Offset, AppendTime: r.Timestamp},
		LeaderEpoch: r.LeaderEpoch,
		Packed:      func() []byte { return record.Pack(r) },
	}
	e, err := record.Decode(r)
	if err != nil {
		rec.Broken = gate.ReasonUndecodable
		rec.Error = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxErrorText)], "?")
		return rec, nil
	}
	rec.Key, rec.Hash, rec.Entity = e.Key(), e.Hash, e.Entity
	rec.Version, rec.First, rec.Payload, rec.Deleted = e.Version, e.First, e.Payload, e.Deleted
	rec.Backfill = e.Backfill
	rec.Filtered = !wanted(e.Type, e.Source)
	rec.Source, rec.ID, rec.Type, rec.ReceivedAt = e.Source, e.ID, e.Type, e.RecordedTime
	return rec, e
}

// unpack is the event of a payload copy, nil where it cannot be read: the lane then says so with the action.
func unpack(packed []byte) *schemas.Event {
	if len(packed) == 0 {
		return nil
	}
	r, err := record.Unpack(packed)
	if err != nil {
		return nil
	}
	e, err := record.Decode(r)
	if err != nil {
		return nil
	}
	return e
}
