package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// backlog is a deployment whose stream process gets many open actions, and many events that wait in gaps: a broker, a destination that
// does not answer, a configuration. close ends it.
type backlog struct {
	backlogSizes
	deployment
	count       int // of open actions
	waiting     int // of events that wait in gaps
	destination *blockingDestination
	name        string // of source and subscription
	brokers     []string
	closers     []func()
}

const backlogTeam = "bench"

func (h *backlog) topic() string { return "events." + backlogTeam + "." + h.name }
func (h *backlog) group() string { return backlogTeam + "." + h.name }

// newBacklog starts everything but the stream process, and prepares ledger and topics with forebay's own commands.
func (b *scaleBench) newBacklog(ctx context.Context, count, waiting int) (_ *backlog, err error) {
	h := &backlog{
		backlogSizes: b.backlog, deployment: deployment{postgres: b.pg.url},
		count: count, waiting: waiting, name: "held-" + strconv.FormatUint(b.next(), 36),
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
	brokers, closeBroker, err := b.brokersIn(ctx, dir)
	if err != nil {
		return nil, err
	}
	h.brokers, h.closers = brokers, append(h.closers, closeBroker)
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

// brokersIn returns the brokers that o names, or those of an embedded one that it starts in dir.
func (o Options) brokersIn(ctx context.Context, dir string) (addrs []string, stop func(), err error) {
	if len(o.Kafka) > 0 {
		return o.Kafka, func() {}, nil
	}
	broker, err := embedded.StartBroker(ctx, embedded.BrokerConfig{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		return nil, nil, err
	}
	return broker.Addrs(), func() { _ = broker.Close() }, nil
}

// close ends what was started, in the reverse order.
func (h *backlog) close() {
	for _, c := range slices.Backward(h.closers) {
		c()
	}
}

// configure starts the destination and writes the configuration.
func (h *backlog) configure(dir string) error {
	door, err := startBlockingDestination()
	if err != nil {
		return err
	}
	h.destination, h.closers = door, append(h.closers, door.close)
	if h.operator, err = rig.FindAddress(); err != nil {
		return err
	}
	h.config = filepath.Join(dir, "forebay.yaml")
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(h.brokers, `", "`)+`"`, "OPERATOR", h.operator, "PARTITIONS", strconv.Itoa(h.partitions),
		"TEAM", backlogTeam, "NAME", h.name, "AGENT", door.url).Replace(backlogConfig)
	return os.WriteFile(h.config, []byte(text), 0o600)
}

// ordersConfig begins the file of a deployment whose events are written to the log by the bench itself; the words in capitals are filled in.
const ordersConfig = `version: 1
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
`

// backlogConfig is the deployment. Nothing times out while memory is looked at.
const backlogConfig = ordersConfig + `    destinations:
      silent: {type: http, url: "AGENT", timeout: 10m, allow_networks: [127.0.0.0/8]}
    subscriptions:
      NAME:
        sources: [NAME]
        begin: all
        start: first
        gap: {wait: 1d, then: park, max_events: {subscription: 1000000}}
        actions: [{name: run, to: silent}]
`

// produce writes events to the source's topic, and waits until the broker has all of them.
func (h *backlog) produce(ctx context.Context, events iter.Seq[*schemas.Event]) error {
	return produce(ctx, h.brokers, h.topic(), events)
}

func produce(ctx context.Context, brokers []string, topic string, events iter.Seq[*schemas.Event]) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RequiredAcks(kgo.AllISRAcks()), record.Compressor())
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	for e := range events {
		cl.Produce(ctx, record.Encode(topic, e), func(_ *kgo.Record, err error) {
			if err != nil {
				failed(fmt.Errorf("produce to %s: %w", topic, err))
			}
		})
	}
	return errors.Join(cl.Flush(ctx), context.Cause(ctx))
}

// openAndWaiting returns the events of a backlog with as many open actions as waiting events: the first event of one entity, whose action
// stays open, then the second of another one, which waits because the first is missing, and so on.
func (h *backlog) openAndWaiting() iter.Seq[*schemas.Event] {
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

// event returns the event with a version of an entity.
func (h *backlog) event(entity string, rev int64) *schemas.Event {
	now := time.Now().UTC()
	text := fmt.Sprintf(`{"type":"order.changed","order":{"id":"%s","rev":%d},"note":"`, entity, rev)
	body := append([]byte(text), bytes.Repeat([]byte{'x'}, max(0, h.body-len(text)-2))...)
	body = append(body, `"}`...)
	return &schemas.Event{
		ID: fmt.Sprintf("%s-%s-%d", h.name, entity, rev), Source: "/" + backlogTeam + "/" + h.name, Type: "order.changed",
		Entity: schemas.NewEntityKey(entity), Time: now, RecordedTime: now, DataContentType: "application/json",
		Version: schemas.Version{Kind: schemas.Sequence, Value: rev}, First: new(int64(1)), Payload: schemas.Snapshot,
		Hash: schemas.HashBody(body), Data: body,
	}
}
