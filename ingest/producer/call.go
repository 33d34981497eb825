package producer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// soon is when a call that has no ack yet begins to look whether its caller is still there. Most are over by then, and a
// wait for one channel costs a third of one for several.
const soon = 50 * time.Millisecond

// call is a record on its way to its ack, with the memory that takes, which is used again.
type call struct {
	encoder record.Encoder
	done    chan error // of two, the ack and the timer's: the promise never blocks the client, whoever has gone
	promise func(*kgo.Record, error)
	timer   *time.Timer // gives done errSoon
	weight  int64
	has     *atomic.Int64 // what the weight is a part of; see [room]
}

func (p *Producer) newCall() *call {
	c := &call{done: make(chan error, 2)}
	c.promise = func(_ *kgo.Record, err error) {
		p.room.give(c.has, c.weight)
		c.done <- err
	}
	c.timer = time.AfterFunc(time.Hour, func() { c.done <- errSoon })
	c.timer.Stop()
	return c
}

var errSoon = errors.New("not an answer")

// produce waits for r's ack until ctx is done or the time by has come; the zero time never comes. c, in which r may lie,
// is given back when nobody has it any more: a caller that gives up leaves both to the client.
func (p *Producer) produce(ctx context.Context, by time.Time, c *call, r *kgo.Record) error {
	topic, left := r.Topic, soon
	if err := ctx.Err(); err != nil {
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "%w", context.Cause(ctx))
	}
	if !by.IsZero() {
		if left = min(left, time.Until(by)); left <= 0 {
			return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "too late: %w", context.DeadlineExceeded)
		}
	}
	c.weight = weight(r)
	if c.has = p.room.take(topic, c.weight); c.has == nil {
		p.again(c)
		return full(topic)
	}
	c.timer.Reset(left)
	p.client.TryProduce(context.Background(), r, c.promise)
	err := <-c.done
	if errors.Is(err, errSoon) {
		return c.wait(ctx, by, topic)
	}
	if c.timer.Stop() { // one that has run would be taken for the next record's
		p.again(c)
	}
	return mapError(topic, err)
}

// again lets the next record have the call.
func (p *Producer) again(c *call) {
	c.encoder.Forget()
	p.calls.Put(c)
}

// wait is for what takes longer.
func (c *call) wait(ctx context.Context, by time.Time, topic string) error {
	if !by.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	select {
	case err := <-c.done:
		return mapError(topic, err)
	case <-ctx.Done():
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w", context.Cause(ctx))
	}
}
