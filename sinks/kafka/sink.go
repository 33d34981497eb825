package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Sink].
type Config struct {
	// Client are the options of the cluster: brokers, TLS, SASL. Required.
	Client []kgo.Opt
	// Topic is written to. Required.
	Topic string
	// Params are those that [Params] declares. Required.
	Params *template.Set
	// Idempotent says whether the topic's consumers look at forebay-action-id; nil: they do.
	Idempotent *bool
	// Timeout is how long a record is tried at most; default 10 s.
	Timeout time.Duration
	// MaxRecordBytes is the largest record that is tried; default 64 MiB. What the topic takes is its own to say.
	MaxRecordBytes int
	// Hidden is as in [spec.Destination].
	Hidden []schemas.Secret
}

// Sink writes to one topic. Safe for concurrent use.
type Sink struct {
	sink.Opaque
	topic  string
	params *template.Set
	kind   sink.Idempotency
	turn   chan struct{} // capacity 1: a record is on its way through alone
	redact *redact.Redactor

	options []kgo.Opt
	mu      sync.Mutex
	clients *clients // of now
	made    time.Time
	closed  bool
}

// clients are those of a topic, by the id that it had when they first saw it.
type clients struct {
	all   *kgo.Client
	alone *kgo.Client // for one record at a time
}

func newClients(options []kgo.Opt) (*clients, error) {
	all, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	alone, err := kgo.NewClient(options...)
	if err != nil {
		all.Close()
		return nil, err
	}
	return &clients{all, alone}, nil
}

func (c *clients) close() {
	c.all.Close()
	c.alone.Close()
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

var topicForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// CheckTopic refuses names that Kafka does not take, and topics that are Forebay's or Kafka's own.
func CheckTopic(topic string) error {
	switch {
	case topic == "":
		return errors.New("is missing: the topic to write to")
	case !topicForm.MatchString(topic) || topic == "." || topic == "..":
		return fmt.Errorf("%.64q is not the name of a topic", topic)
	case strings.HasPrefix(topic, "__"):
		return fmt.Errorf("%s is one of Kafka's own topics", topic)
	}
	for _, prefix := range []string{"events.", "quarantine.", "dead.", "agents."} {
		if strings.HasPrefix(topic, prefix) {
			return fmt.Errorf("%s is one of Forebay's own topics: what is written there would come back as an event, or make an agent; choose a name outside of events.*, quarantine.*, dead.* and agents.*", topic)
		}
	}
	return nil
}

// New makes a sink. It connects with the first record.
func New(cfg Config) (*Sink, error) {
	const op = "make a kafka destination"
	if err := CheckTopic(cfg.Topic); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "topic %w", err)
	}
	if cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "params are missing")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxRecordBytes == 0 {
		cfg.MaxRecordBytes = 64 << 20
	}
	s := &Sink{Opaque: "kafka destination", topic: cfg.Topic, params: cfg.Params, kind: sink.Idempotent, turn: make(chan struct{}, 1), redact: redact.New(redact.Words(cfg.Hidden...)...)}
	if cfg.Idempotent != nil && !*cfg.Idempotent {
		s.kind = sink.Unsafe
	}
	s.options = append(slices.Clone(cfg.Client),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(int32(cfg.MaxRecordBytes)),
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, cfg.MaxRecordBytes+1<<20))),
		kgo.RecordDeliveryTimeout(max(time.Second, cfg.Timeout)),
		record.Compressor(),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // as every client does by default
	)
	var err error
	if s.clients, err = newClients(s.options); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	return s, nil
}

func (s *Sink) now() *clients {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients
}

// createdAgain makes new clients, once a second at most: kgo keeps the first id of a topic, and fails every record of one that was deleted and
// created again. The old clients are not told to forget it: their numbers would begin again under one producer id, and a broker that has the topic
// still would take a record for one that it has.
func (s *Sink) createdAgain(c *clients) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.clients != c || time.Since(s.made) < time.Second {
		return
	}
	fresh, err := newClients(s.options)
	if err != nil { // these options have made clients before
		return
	}
	s.clients, s.made = fresh, time.Now()
	go c.close() // fails what they still have
}

// Do writes one record and waits until all in-sync replicas have it.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := s.params.Render(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: err, Untouched: true}
	}
	r, c := s.record(a, values.Text("key")), s.now()
	done := make(chan error, 1) // buffered: the promise never blocks the client, whoever has gone
	// Not with ctx: kgo would fail, with one impatient action, all records that wait for the same partition.
	c.all.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { done <- err })
	err = acknowledged(ctx, done)
	if is(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord) {
		// The broker has refused a batch, in which the client may have put the records of other actions: nothing of it was written.
		r, err = s.produceAlone(ctx, c, a, values.Text("key"))
	}
	if is(err, kerr.UnknownTopicID) {
		s.createdAgain(c)
	}
	if err != nil {
		return sink.Outcome{}, s.redact.Err(classify(s.lacks(c, err)))
	}
	return sink.Outcome{Response: s.redact.Bytes(fmt.Appendf(nil, "%s/%d at offset %d", r.Topic, r.Partition, r.Offset))}, nil
}

// produceAlone produces the record of an action in a batch of its own, so that the broker's answer is about it and no other.
func (s *Sink) produceAlone(ctx context.Context, c *clients, a sink.Action, key string) (*kgo.Record, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, &sink.AttemptError{Class: sink.ClassTimeout, Err: fmt.Errorf("the broker refused the batch that the record was in, and there was no time for one of its own: %w", context.Cause(ctx)), Untouched: true}
	}
	r, done := s.record(a, key), make(chan error, 1)
	c.alone.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { <-s.turn; done <- err })
	return r, acknowledged(ctx, done)
}

// acknowledged waits for the end of a record.
func acknowledged(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &sink.AttemptError{Class: sink.ClassTimeout, Err: fmt.Errorf("no acknowledgement in time: %w", context.Cause(ctx))}
	}
}

// Headers beside those of the event.
const (
	headerAction = "forebay-action-id"
	headerLate   = "forebay-late"
)

// record makes the record of an action.
func (s *Sink) record(a sink.Action, key string) *kgo.Record {
	r := record.Encode(s.topic, a.Event)
	if key != "" && key != string(a.Event.Entity) {
		record.SetPartitionKey(r, key)
	}
	parent, state := a.Hop()
	record.SetHop(r, parent, state)
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerAction, Value: []byte(a.ID)})
	a.Call().Headers(func(name, value string) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: strings.ToLower(name), Value: []byte(value)})
	})
	if a.Late {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerLate, Value: []byte("true")})
	}
	return r
}

// classify gives an error of producing its class. Untouched is what the broker refused or the client never sent; of all
// the rest nobody knows.
func classify(err error) error {
	if _, ok := errors.AsType[*sink.AttemptError](err); ok {
		return err
	}
	class, untouched := sink.ClassNetwork, false
	switch {
	case is(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed):
		class, untouched = sink.ClassDenied, true
	case is(err, kerr.SaslAuthenticationFailed): // a password is set in the brokers and in the file one after the other: it may be a minute's
		class, untouched = sink.ClassBusy, true
	case is(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTopicException, kerr.InvalidRecord):
		class, untouched = sink.ClassRejected, true
	case is(err, kgo.ErrMaxBuffered):
		class, untouched = sink.ClassThrottled, true
	case is(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID):
		err = fmt.Errorf("%w: create the topic, forebay does not", err)
		class, untouched = sink.ClassBusy, true
	case is(err, kgo.ErrRecordTimeout, context.DeadlineExceeded):
		class = sink.ClassTimeout
	case is(err, kgo.ErrClientClosed, kgo.ErrAborting, context.Canceled):
		class = sink.ClassBusy
	case is(err, kerr.CorruptMessage, kerr.UnsupportedForMessageFormat, kerr.UnsupportedVersion):
		class = sink.ClassBug
	}
	return &sink.AttemptError{Class: class, Err: err, Untouched: untouched}
}

// lacks has an error say which right is missing, where the brokers refused the topic for that: what is recorded of an attempt is its text alone.
func (s *Sink) lacks(c *clients, err error) error {
	err = record.Lacks(c.all, "Write", "topic "+s.topic, err)
	if r, ok := errors.AsType[*record.Right](err); ok {
		return fmt.Errorf("%w: %s", err, r.Lack())
	}
	return err
}

func is(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// Check reports whether the topic is there.
func (s *Sink) Check(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &s.topic
	req.Topics = append(req.Topics, t)
	c := s.now()
	resp, err := req.RequestWith(ctx, c.all)
	if err != nil {
		return classify(err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return classify(s.lacks(c, err))
		}
	}
	return nil
}

// Close fails what still waits for a broker.
func (s *Sink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.clients.close()
	return nil
}

// Idempotency returns idempotent for consumers that look at the key; see the package comment.
func (s *Sink) Idempotency() sink.Idempotency { return s.kind }
