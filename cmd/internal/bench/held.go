package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// held is a deployment whose stream process ends up holding much: a broker, a destination that does not answer, a
// configuration. close ends it.
type held struct {
	heldSizes
	deployment
	count   int // of open actions
	waiting int // of events that wait in gaps
	door    *door
	name    string // of source and subscription
	brokers []string
	closers []func()
}

const heldTeam = "bench"

func (h *held) topic() string { return "events." + heldTeam + "." + h.name }
func (h *held) group() string { return heldTeam + "." + h.name }

// newHeld starts everything but the stream process, and prepares ledger and topics with forebay's own commands.
func (b *scaleBench) newHeld(ctx context.Context, count, waiting int) (_ *held, err error) {
	h := &held{
		heldSizes: b.held, deployment: deployment{postgres: b.pg.url},
		count: count, waiting: waiting, name: "held-" + strconv.FormatUint(b.next(), 36), brokers: b.Kafka,
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	dir, err := os.MkdirTemp("", "forebay-bench-held-")
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, func() { os.RemoveAll(dir) })
	if len(h.brokers) == 0 {
		broker, err := embedded.StartBroker(ctx, embedded.BrokerConfig{Dir: filepath.Join(dir, "broker")})
		if err != nil {
			return nil, err
		}
		h.closers = append(h.closers, func() { _ = broker.Close() })
		h.brokers = broker.Addrs()
	}
	if err := h.configure(dir); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"migrate", "-c", h.config}, {"topics", "apply", "-c", h.config}} {
		if err := h.command(ctx, args...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// close ends what was started, in the reverse order.
func (h *held) close() {
	for _, c := range slices.Backward(h.closers) {
		c()
	}
}

// configure starts the destination and writes the configuration.
func (h *held) configure(dir string) error {
	door, err := newDoor()
	if err != nil {
		return err
	}
	h.door, h.closers = door, append(h.closers, door.close)
	if h.operator, err = freeAddress(); err != nil {
		return err
	}
	h.config = filepath.Join(dir, "forebay.yaml")
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(h.brokers, `", "`)+`"`, "OPERATOR", h.operator, "PARTITIONS", strconv.Itoa(h.partitions),
		"TEAM", heldTeam, "NAME", h.name, "AGENT", door.url).Replace(heldConfig)
	return os.WriteFile(h.config, []byte(text), 0o600)
}

// heldConfig is the deployment; the words in capitals are filled in. Nothing times out while memory is looked at.
const heldConfig = `version: 1
kafka: {brokers: [BROKERS]}
postgres: {url: "${env:FOREBAY_POSTGRES_URL}"}
listen: {operator: "OPERATOR"}
topics: {partitions: PARTITIONS, replication: 1, retention: 7d}
teams:
  TEAM:
    sources:
      NAME:
        preset: generic
        secrets: [nobody-sends]
        verify: {algorithm: sha256, signature_header: X-Signature, encoding: hex, signed: "{body}"}
        event:
          id: header:X-Event-Id
          type: /type
          entity: [/order/id]
          version: {from: /order/rev, kind: sequence}
          payload: snapshot
    destinations:
      silent: {type: http, url: "AGENT", timeout: 10m, allow_networks: [127.0.0.0/8]}
    subscriptions:
      NAME:
        sources: [NAME]
        begin: all
        start: first
        gap: {wait: 1d, then: park, max_events: {subscription: 1000000}}
        actions: [{name: run, to: silent}]
`

// freeAddress is a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// produce writes events.
func (h *held) produce(ctx context.Context, events iter.Seq[*schemas.Event]) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(h.brokers...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	for e := range events {
		cl.Produce(ctx, record.Encode(h.topic(), e), func(_ *kgo.Record, err error) {
			if err != nil {
				failed(fmt.Errorf("produce to %s: %w", h.topic(), err))
			}
		})
	}
	return errors.Join(cl.Flush(ctx), context.Cause(ctx))
}

// pairs are an entity's first event for every action that is to be open, and an entity's second one for every event that
// is to wait.
func (h *held) pairs() iter.Seq[*schemas.Event] {
	return func(yield func(*schemas.Event) bool) {
		for i := range h.count {
			for rev := range int64(2) {
				if !yield(h.event(fmt.Sprintf("%d-%d", rev+1, i), rev+1)) {
					return
				}
			}
		}
	}
}

// event is the event of a version of an entity.
func (h *held) event(entity string, rev int64) *schemas.Event {
	now := time.Now().UTC()
	text := fmt.Sprintf(`{"type":"order.changed","order":{"id":"%s","rev":%d},"note":"`, entity, rev)
	body := append([]byte(text), bytes.Repeat([]byte{'x'}, max(0, h.body-len(text)-2))...)
	body = append(body, `"}`...)
	return &schemas.Event{
		ID: fmt.Sprintf("%s-%s-%d", h.name, entity, rev), Source: "/" + heldTeam + "/" + h.name, Type: "order.changed",
		Entity: schemas.NewEntityKey(entity), Time: now, RecordedTime: now, DataContentType: "application/json",
		Version: schemas.Version{Kind: schemas.Sequence, Value: rev}, First: new(int64(1)), Payload: schemas.Snapshot,
		Hash: schemas.HashBody(body), Data: body,
	}
}
