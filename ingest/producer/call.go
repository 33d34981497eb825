package producer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// firstWait is how long a call waits for nothing but its ack; after that it also watches the caller's context. Most calls have ended
// by then, and waiting on one channel costs a third of waiting on several.
const firstWait = 50 * time.Millisecond

// call is a record that waits for its ack, with its memory, which is reused.
type call struct {
	encoder     record.Encoder
	done        chan error // capacity 2, for the ack and the timer: the client never blocks on it
	promise     func(*kgo.Record, error)
	timer       *time.Timer // sends errTimeUp to done
	weight      int64
	topicBytes  *topicBytes // those of its topic in [room]
	endedOrLate atomic.Bool // the record has ended, or it is late: the first of the two sets it
}

// newCall makes a call that can be used again and again, with its timer stopped.
func (p *Producer) newCall() *call {
	c := &call{done: make(chan error, 2)}
	c.promise = func(_ *kgo.Record, err error) {
		if c.endedOrLate.Swap(true) {
			c.topicBytes.late.Add(-c.weight)
		}
		p.room.give(c.topicBytes, c.weight)
		c.done <- err
	}
	c.timer = time.AfterFunc(time.Hour, func() { c.done <- errTimeUp })
	c.timer.Stop()
	return c
}

var errTimeUp = errors.New("no ack within the first wait")

// produce sends r and waits for its ack until ctx is done or deadline; zero is no deadline. An error of waiting leaves open whether r was
// written. r may use the memory of c, so c is reused only where the client does not have r: after the ack, or if r was never sent.
func (p *Producer) produce(ctx context.Context, deadline time.Time, c *call, r *kgo.Record) error {
	topic, size, left := r.Topic, sizeOf(r), firstWait
	if !deadline.IsZero() {
		left = min(left, time.Until(deadline))
	}
	client, err := p.start(ctx, deadline, c, r)
	if err != nil {
		return err
	}
	c.timer.Reset(left)
	err = <-c.done
	if errors.Is(err, errTimeUp) {
		var gaveUp error
		if err, gaveUp = c.wait(ctx, deadline); gaveUp != nil {
			return p.unanswered(topic, gaveUp)
		}
	} else if c.timer.Stop() { // else errTimeUp is in done, and the next record would take it for its own
		p.reuse(c)
	}
	return p.failed(ctx, client, topic, size, err)
}

// start gives r to the client, unless it is too late or there is no room.
func (p *Producer) start(ctx context.Context, deadline time.Time, c *call, r *kgo.Record) (*kgo.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "produce to "+r.Topic, "%w", context.Cause(ctx))
	}
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return nil, schemas.Errorf(schemas.Unavailable, "produce to "+r.Topic, "too late: %w", context.DeadlineExceeded)
	}
	c.weight = weight(r)
	if c.topicBytes = p.room.take(r.Topic, c.weight); c.topicBytes == nil {
		p.reuse(c)
		return nil, full(r.Topic)
	}
	c.endedOrLate.Store(false)
	client := p.client.Load()
	client.TryProduce(context.Background(), r, c.promise)
	return client, nil
}

// ProduceAll appends records that have been made by [Producer.Record] or [Producer.QuarantineRecord], in their order, and waits for the acks of
// all. It returns how many of them, from the first on, are durable, and why the next one is not; those behind it may be durable all the same.
// It gives up as [ingest.Log] says. The records must not be used again.
func (p *Producer) ProduceAll(ctx context.Context, deadline time.Time, records []*kgo.Record) (durable int, failed error) {
	type sent struct {
		*call
		client *kgo.Client
		topic  string
		size   int64
	}
	all := make([]sent, 0, len(records))
	for _, r := range records {
		c := p.calls.Get().(*call)
		size := sizeOf(r)
		client, err := p.start(ctx, deadline, c, r)
		if failed = err; err != nil {
			break // those before it are on their way
		}
		all = append(all, sent{c, client, r.Topic, size})
	}
	durable = len(all)
	for i, s := range all {
		err, gaveUp := s.wait(ctx, deadline)
		if gaveUp != nil {
			err = p.unanswered(s.topic, gaveUp)
		} else {
			p.reuse(s.call)
			err = p.failed(ctx, s.client, s.topic, s.size, err)
		}
		if err != nil && i < durable {
			durable, failed = i, err
		}
	}
	return durable, failed
}

// connects is a hook that keeps why the last connection to a broker failed; nil where it did not. kgo tries again without a word, and a process
// whose other connections are older than the reason, such as a certificate that has expired, has no other sign of it.
type connects struct {
	failed  atomic.Pointer[error]
	refused sync.Map // the ids of brokers whose last connection failed at once: one that hangs is waited for elsewhere
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (c *connects) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	timedOut, _ := errors.AsType[net.Error](err)
	if err != nil && !errors.Is(err, context.Canceled) && (timedOut == nil || !timedOut.Timeout()) {
		c.refused.Store(broker.NodeID, nil)
	} else {
		c.refused.Delete(broker.NodeID)
	}
	if err == nil {
		c.failed.Store(nil)
	} else {
		c.failed.Store(&err)
	}
}

// refuses returns why a broker still takes no connection for records, where it refused the last one; nil: it does, or nobody has tried. It asks with a
// request without records, so that a process that gets no more deliveries learns that it takes connections again.
func (p *Producer) refuses(ctx context.Context, client *kgo.Client, broker int32) error {
	if _, refused := p.connects.refused.Load(broker); !refused {
		return nil
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	_, err := client.Broker(int(broker)).Request(ctx, req)
	return err
}

// unanswered is the error of a record that got no answer before gaveUp.
func (p *Producer) unanswered(topic string, gaveUp error) error {
	if why := p.connects.failed.Load(); why != nil {
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w; the last connection to a broker failed: %v", gaveUp, *why)
	}
	return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w", gaveUp)
}

// reuse makes the call available to the next record.
func (p *Producer) reuse(c *call) {
	c.encoder.Forget()
	p.calls.Put(c)
}

// wait waits for an ack that takes longer than firstWait. It returns the record's error, or why the caller gives up: then the record goes on.
func (c *call) wait(ctx context.Context, deadline time.Time) (err, gaveUp error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	select {
	case err := <-c.done:
		return err, nil
	case <-time.After(lateAfter - firstWait):
	case <-ctx.Done():
	}
	c.late()
	select {
	case err := <-c.done:
		return err, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// late counts the record's bytes as late until it ends, unless it has ended meanwhile.
func (c *call) late() {
	c.topicBytes.late.Add(c.weight)
	if c.endedOrLate.Swap(true) {
		c.topicBytes.late.Add(-c.weight)
	}
}
