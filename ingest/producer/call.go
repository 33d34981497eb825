package producer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// call is a record on its way to its ack, with the memory that takes, which is used again.
type call struct {
	encoder record.Encoder
	done    chan error // of one: the promise never blocks the client, whoever has gone
	promise func(*kgo.Record, error)
	timer   *time.Timer
}

func newCall() *call {
	c := &call{done: make(chan error, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	c.promise = func(_ *kgo.Record, err error) { c.done <- err }
	return c
}

// produce waits for r's ack until ctx is done or the time by has come; the zero time never comes. c, in which r may lie,
// is given back when the client is done with r: a caller that gives up leaves both to the client.
func (p *Producer) produce(ctx context.Context, by time.Time, c *call, r *kgo.Record) error {
	topic := r.Topic
	if err := ctx.Err(); err != nil {
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "%w", context.Cause(ctx))
	}
	var late <-chan time.Time
	if !by.IsZero() {
		left := time.Until(by)
		if left <= 0 {
			return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "too late: %w", context.DeadlineExceeded)
		}
		c.timer.Reset(left)
		late = c.timer.C
	}
	p.client.TryProduce(context.Background(), r, c.promise)
	select {
	case err := <-c.done:
		c.timer.Stop()
		c.encoder.Forget()
		p.calls.Put(c) // the last that is done with it
		return mapError(topic, err)
	case <-late:
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w", context.DeadlineExceeded)
	case <-ctx.Done():
		c.timer.Stop()
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w", context.Cause(ctx))
	}
}
