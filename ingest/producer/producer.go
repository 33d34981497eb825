// Package producer makes deliveries durable on Kafka: it is the [ingest.Log] of production.
//
// The client is idempotent and waits for all in-sync replicas. A caller's context ends only the caller's wait: if it were given to
// kgo, one caller that gives up would fail all records that wait for the same partition. A record whose caller has given up may
// still become durable; the stream's dedupe then drops the provider's retry.
package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/trace"
)

// Room is how many bytes a record may have beside its body: key, headers and framing. A topic's max.message.bytes must be the
// largest body and at least this.
const Room = 64 << 10

const (
	defaultMaxBuffered = 256 << 20
	defaultGiveUp      = 30 * time.Second
)

// Config is what a [Producer] needs.
type Config struct {
	// Brokers are the seeds, host:port; required.
	Brokers []string
	// MaxBody is the largest body of any source in bytes. Default 25 MiB.
	MaxBody int64
	// TopicMaxBody returns the largest body that goes to a topic, in bytes; default MaxBody. It must return less for a topic that
	// takes less: otherwise the topic would refuse a whole batch of many small records.
	TopicMaxBody func(topic string) int64
	// MaxBuffered bounds the memory of the records that wait for their ack, in bytes; a small record takes about 6 KiB. Beyond it,
	// records are Throttled at once. Once half of it is used, so are those of a topic with records that have waited for a second or
	// were given up, and of one that has more than a sixteenth of what is left. Default 256 MiB, or four times MaxBody.
	MaxBuffered int64
	// Linger is how long a partition waits for more records before a request is built. Default none: while a request is in flight,
	// the next one fills up anyway. Measured on two cores against Apache Kafka with 1 KiB bodies: 1 ms costs a fifth of the rate or
	// more at 64 callers, and makes no measurable difference at 256.
	Linger time.Duration
	// GiveUp is how long a record that was never sent is kept while no broker can be reached. Its caller has gone long before. A
	// record that may be in the log already is kept until a broker answers, since the client numbers records. Default 30 s.
	GiveUp time.Duration
	// SchemaID returns the value of the header [record.SchemaIDHeader] of an event; nil: it has none. Called for every record, so it must
	// not wait. Default: no record has one.
	SchemaID func(*schemas.Event) []byte
	// Tracer makes a span of every record of an event; nil makes none.
	Tracer *trace.Tracer
	// ClientID names the client to the brokers. Default "forebay-ingest".
	ClientID string
	// Options are appended to the client's options: TLS, SASL, hooks and a logger.
	Options []kgo.Opt
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 25 << 20
	}
	if c.TopicMaxBody == nil {
		limit := c.MaxBody
		c.TopicMaxBody = func(string) int64 { return limit }
	}
	if c.MaxBuffered == 0 {
		c.MaxBuffered = max(defaultMaxBuffered, 4*c.MaxBody)
	}
	if c.SchemaID == nil {
		c.SchemaID = func(*schemas.Event) []byte { return nil }
	}
	if c.GiveUp == 0 {
		c.GiveUp = defaultGiveUp
	}
	if c.ClientID == "" {
		c.ClientID = "forebay-ingest"
	}
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Brokers) == 0:
		return errors.New("producer: Brokers is missing")
	case c.MaxBody < 0 || c.MaxBody > 900<<20:
		return errors.New("producer: MaxBody is outside 0 to 900 MiB")
	case c.MaxBuffered < c.MaxBody+Room:
		return errors.New("producer: MaxBuffered must hold at least one body of MaxBody")
	case c.Linger < 0 || c.GiveUp < time.Second:
		return errors.New("producer: Linger must not be negative, GiveUp at least 1s")
	}
	return nil
}

// Producer is an [ingest.Log]. Safe for concurrent use.
type Producer struct {
	client   atomic.Pointer[kgo.Client] // replaced where it can produce no more; see [Producer.checkID]
	options  []kgo.Opt                  // of each client
	connects connects
	room     room
	// schemaID is that of [Config].
	schemaID func(*schemas.Event) []byte
	tracer   *trace.Tracer
	// limit is how many bytes of a topic's records are sent at once, and so how large one may be.
	limit func(topic string) int64
	ids   sync.Map  // of [16]byte, by topic: under which the client writes
	calls sync.Pool // of *call: its encoder alone saves 0.9 of 1.4 us a record (BenchmarkEncode, BenchmarkEncoder)

	mu       sync.Mutex // held while a client is replaced
	replaced time.Time
	asked    map[string]time.Time // for the id of a topic
	closed   bool
}

var _ ingest.Log = (*Producer)(nil)

// New builds a producer. It connects with the first record.
func New(c Config) (*Producer, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	request := max(100<<20, c.MaxBody+2*Room)
	limit := func(topic string) int64 { return min(c.TopicMaxBody(topic)+Room, request-Room) }
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(c.Linger),
		kgo.MetadataMaxAge(30 * time.Second), // the first record of a topic may wait for the next metadata where a right came late
		kgo.MaxBufferedRecords(1 << 20),      // [room] is the bound
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return int32(limit(topic)) }),
		kgo.BrokerMaxWriteBytes(int32(request)),
		kgo.RecordDeliveryTimeout(c.GiveUp),
		// lz4 halves JSON. Its cost in the client does not differ measurably from that of snappy or no compression; brokers store the
		// batch as it is.
		record.Compressor(),
		// By key, as every Kafka client does by default, so that an entity stays in its partition.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	p := &Producer{options: append(opts, c.Options...), schemaID: c.SchemaID, tracer: c.Tracer, asked: map[string]time.Time{}}
	p.options = append(p.options, kgo.WithHooks(&p.connects))
	client, err := kgo.NewClient(p.options...)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	p.client.Store(client)
	p.limit, p.room.most = limit, c.MaxBuffered
	p.calls.New = func() any { return p.newCall() }
	return p, nil
}

// Append implements [ingest.Log].
func (p *Producer) Append(ctx context.Context, deadline time.Time, topic string, e *schemas.Event) error {
	c := p.calls.Get().(*call)
	span := p.sends(topic, e)
	err := p.produce(ctx, deadline, c, p.encode(&c.encoder, topic, e, span))
	span.EndWith(err)
	return err
}

// Record returns the record that Append appends. Its value is the event's body, its memory else its own.
func (p *Producer) Record(topic string, e *schemas.Event) *kgo.Record {
	return p.encode(new(record.Encoder), topic, e, nil)
}

func (p *Producer) encode(w *record.Encoder, topic string, e *schemas.Event, span *trace.Span) *kgo.Record {
	w.SchemaID = p.schemaID(e)
	parent, state := span.Context()
	if parent == "" {
		parent, state = trace.Child(e.TraceParent, e.TraceState) // this hop is a span of its own in the event's trace
	}
	return w.EncodeHop(topic, e, parent, state)
}

// AppendAll implements [ingest.Log]. What is for quarantine waits for the events: nothing drops it when the list comes again because of these.
func (p *Producer) AppendAll(ctx context.Context, deadline time.Time, topic string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	records, spans := make([]*kgo.Record, 0, len(events)), make([]*trace.Span, len(events))
	for i, e := range events {
		spans[i] = p.sends(topic, e)
		records = append(records, p.encode(new(record.Encoder), topic, e, spans[i]))
	}
	_, err := p.ProduceAll(ctx, deadline, records)
	for _, s := range spans {
		s.EndWith(err)
	}
	if err != nil || len(rest) == 0 {
		return err
	}
	records = records[:0]
	for _, d := range rest {
		records = append(records, p.QuarantineRecord(quarantine, d))
	}
	_, err = p.ProduceAll(ctx, deadline, records)
	return err
}

// Quarantine implements [ingest.Log].
func (p *Producer) Quarantine(ctx context.Context, deadline time.Time, topic string, d *ingest.Delivery) error {
	return p.produce(ctx, deadline, p.calls.Get().(*call), p.QuarantineRecord(topic, d))
}

// Republish appends a record with the same key, value and headers, byte for byte, to the partition of its key in a topic. It returns
// the new partition and offset. The key must not be null.
func (p *Producer) Republish(ctx context.Context, topic string, r *kgo.Record) (partition int32, offset int64, err error) {
	if r.Key == nil {
		return 0, 0, schemas.Errorf(schemas.Invalid, "produce to "+topic, "the record has no key")
	}
	fresh := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if err := p.produce(ctx, time.Time{}, p.calls.Get().(*call), fresh); err != nil {
		return 0, 0, err
	}
	return fresh.Partition, fresh.Offset, nil
}

// mapError wraps an error of kgo in a *schemas.Error with its kind.
func mapError(topic string, err error) error {
	if err == nil {
		return nil
	}
	op := "produce to " + topic
	kind := schemas.Internal
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		kind = schemas.Throttled
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		kind = schemas.TooLarge
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return schemas.Errorf(schemas.Unavailable, op, "%w; run `forebay topics apply`", err)
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, kgo.ErrClientClosed),
		errors.Is(err, kgo.ErrAborting), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), kerr.IsRetriable(err), isNetwork(err),
		errors.Is(err, kerr.SaslAuthenticationFailed): // the last: a password is set in the brokers and in the file one after the other
		kind = schemas.Unavailable
	}
	return schemas.Errorf(kind, op, "%w", err)
}

// isNetwork reports whether a broker was not reached, or its connection was lost: kgo fails with the error of the last attempt to dial.
func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || kgo.IsRetryableBrokerErr(err)
}

// Trouble is what is wrong with a topic.
type Trouble struct {
	Err  error // NotFound where the topic is missing, else Unavailable
	Part bool  // some of its partitions can be written: what belongs to those is taken
}

// Check asks the brokers whether topics exist and their partitions have leaders that take connections, and returns what is wrong, by topic. An error is
// Unavailable: no broker answers, or they let this user write to no topic at all. The topics' settings, which P1 depends on, are checked
// earlier, by `forebay topics apply` and at the start.
func (p *Producer) Check(ctx context.Context, topics ...string) (map[string]Trouble, error) {
	client := p.client.Load()
	resp, err := metadataOf(topics).RequestWith(ctx, client)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "check topics", "%w", err)
	}
	if err := p.checkID(ctx, client); err != nil {
		return nil, err
	}
	wrong, refuse := map[string]Trouble{}, map[int32]error{} // refuse: by leader
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		for _, partition := range t.Partitions {
			if _, asked := refuse[partition.Leader]; !asked {
				refuse[partition.Leader] = p.refuses(ctx, client, partition.Leader)
			}
		}
		if trouble := troubleOf(client, *t.Topic, &t, refuse); trouble.Err != nil {
			wrong[*t.Topic] = trouble
		}
	}
	return wrong, nil
}

// metadataOf asks for topics: directly, since an admin client would answer from its cache.
func metadataOf(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(topics)) // none is none; nil would be all that the cluster has
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = new(topic)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// troubleOf returns what is wrong with a topic: it is missing, or partitions have no leader, or one that refuses connections.
func troubleOf(client *kgo.Client, name string, t *kmsg.MetadataResponseTopic, refuse map[int32]error) Trouble {
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return Trouble{Err: schemas.Errorf(schemas.NotFound, "", "%s is missing; run `forebay topics apply`", name)}
	case err != nil:
		return Trouble{Err: schemas.Errorf(schemas.Unavailable, "", "%s: %w", name, record.Lacks(client, "Write", "topic "+name, err))}
	}
	without, refused, why := 0, 0, error(nil)
	for _, partition := range t.Partitions {
		if partition.ErrorCode != 0 || partition.Leader < 0 {
			without++
		} else if err := refuse[partition.Leader]; err != nil {
			refused++
			why = err
		}
	}
	part := without+refused < len(t.Partitions)
	switch {
	case refused > 0:
		return Trouble{Part: part, Err: schemas.Errorf(schemas.Unavailable, "", "the leaders of %d of %d partitions of %s take no new connection: %w", refused, len(t.Partitions), name, why)}
	case without > 0:
		return Trouble{Part: part, Err: schemas.Errorf(schemas.Unavailable, "", "%d of %d partitions of %s have no leader", without, len(t.Partitions), name)}
	}
	return Trouble{}
}

// Close waits for the records in the producer, until ctx is done at the latest, and closes it. Records that are not acknowledged by
// then may be lost; their senders got 503, or get no answer.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	client := p.client.Load()
	p.mu.Unlock()
	defer client.Close()
	if err := client.Flush(ctx); err != nil {
		return schemas.Errorf(schemas.Unavailable, "flush the producer", "%d records left: %w", client.BufferedProduceRecords(), context.Cause(ctx))
	}
	return nil
}
