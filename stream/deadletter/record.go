package deadletter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/sink"
)

// Topic returns the topic to which a subscription's dead letters are exported; subscription is "<team>.<subscription>".
func Topic(subscription string) string { return "dead." + subscription }

// Store is where the payloads of dead letters are; see [ledger.Ledger.DeadPayload].
type Store interface {
	DeadPayload(ctx context.Context, d ledger.DeadLetter) (packed []byte, p ledger.Pointer, err error)
}

// Record returns the record to export for a dead letter: key, headers and body of the event's record, and headers that begin with
// forebay-dead and say what died where and why. If the event's bytes are gone, lost says why, and the record has only the entity as its
// key and the forebay-dead headers. err means that the bytes could not be read now.
func Record(ctx context.Context, from Store, payloads reader.Payloads, d *ledger.DeadLetter) (rec *kgo.Record, lost, err error) {
	packed, pointer, err := from.DeadPayload(ctx, *d)
	if err != nil {
		return nil, nil, err
	}
	if packed != nil {
		if rec, err = record.Unpack(packed); err != nil {
			rec, lost = nil, fmt.Errorf("the ledger's copy cannot be read: %w", err)
		}
	} else {
		e, err := payloads.Load(ctx, pointer)
		switch {
		case sink.ClassOf(err) == sink.ClassPayload:
			lost = err
		case err != nil:
			return nil, nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read a payload", Err: err}
		default:
			rec = record.Encode("", e)
		}
	}
	if rec == nil {
		rec = &kgo.Record{Key: []byte(d.Entity)}
	}
	out := &kgo.Record{Topic: Topic(d.Team + "." + d.Subscription), Key: rec.Key, Value: rec.Value, Headers: append([]kgo.RecordHeader{}, rec.Headers...)}
	add := func(name, value string) {
		if value != "" {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: "forebay-dead-" + name, Value: []byte(value)})
		}
	}
	add("action-id", string(d.ID))
	add("action", d.Action)
	add("destination", d.Destination)
	add("status", string(d.Status))
	add("class", d.Class)
	add("code", nonZero(int(d.Code)))
	add("error", d.Error)
	add("attempts", strconv.Itoa(int(d.Attempts)))
	add("deaths", strconv.Itoa(int(d.Deaths)))
	add("at", d.DiedAt.UTC().Format(time.RFC3339Nano))
	add("group", d.Fingerprint)
	add("source", d.Source)
	add("event-id", d.EventID)
	add("replay", nonZero(int(d.Generation))) // that ran it again
	add("place", fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset))
	if lost != nil {
		add("lost", lost.Error())
	}
	return out, lost, nil
}

// nonZero returns a number as text; "" for 0.
func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
