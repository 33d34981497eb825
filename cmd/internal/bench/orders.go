package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// ordersConfig follows the stack's head: a source with versions that count up, whose events the bench itself writes to the log, and a
// subscription of it. Nothing times out while it is looked at, and what waits is not bounded.
const ordersConfig = `      orders:
        preset: generic
        secrets: [nobody-sends-with-this]
        verify: {algorithm: sha256, signature_header: X-Signature, encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/id], version: {from: /rev, kind: sequence}, payload: snapshot}
    destinations:
      agent: {type: http, url: "AGENT/run", timeout: 10m, allow_networks: [127.0.0.0/8]}
    subscriptions:
      all:
        sources: [orders]
        begin: all
        start: first
        gap: {wait: 1d, then: park, max_events: {entity: 1000000, subscription: 1000000}, max_bytes: {entity: 0, subscription: 0}}
        actions: [{name: run, to: agent}]
`

func (w *stack) ordersTopic() string { return "events." + w.team + ".orders" }

// orderEvent is an event of the source: its entity and version are those of a delivery. The body has so many bytes at least.
func (w *stack) orderEvent(delivery uint64, body int) *schemas.Event {
	now, id, entity := time.Now().UTC(), strconv.FormatUint(delivery, 16), strconv.FormatUint(kindAndEntityOf(delivery), 16)
	text := fmt.Appendf(nil, `{"type":"order.changed","id":%q,"rev":%d,"note":"`, entity, stepOf(delivery))
	text = append(append(text, bytes.Repeat([]byte{'x'}, max(0, body-len(text)-2))...), `"}`...)
	return &schemas.Event{
		ID: id, DeliveryID: id, Source: "/" + w.team + "/orders", Type: "order.changed", Entity: schemas.NewEntityKey(entity),
		Time: now, RecordedTime: now, DataContentType: "application/json", Version: schemas.Version{Kind: schemas.Sequence, Value: int64(stepOf(delivery))},
		First: new(int64(1)), Payload: schemas.Snapshot, Hash: schemas.HashBody(text), Data: text,
	}
}

// produce writes events of the source to the log, and waits until the broker has all of them.
func (w *stack) produce(ctx context.Context, brokers []string, body int, deliveries iter.Seq[uint64]) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RequiredAcks(kgo.AllISRAcks()), record.Compressor())
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	for d := range deliveries {
		cl.Produce(ctx, record.Encode(w.ordersTopic(), w.orderEvent(d, body)), func(_ *kgo.Record, err error) {
			if err != nil {
				failed(fmt.Errorf("produce to %s: %w", w.ordersTopic(), err))
			}
		})
	}
	return errors.Join(cl.Flush(ctx), context.Cause(ctx))
}

// countUp are deliveries: version first of each of some entities, then the next version of each, until there are n.
func countUp(kind uint64, first, entities, n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(deliveryOf(kind, uint64(first+i/entities), uint64(i%entities))) {
				return
			}
		}
	}
}
