package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// call is a record on its way to its ack, with the memory that takes, which is used again.
type call struct {
	encoder record.Encoder
	done    chan error // of two, the ack and the timer's: the promise never blocks the client, whoever has gone
	promise func(*kgo.Record, error)
	timer   *time.Timer
}

func newCall() *call {
	c := &call{done: make(chan error, 2)}
	c.promise = func(_ *kgo.Record, err error) { c.done <- err }
	c.timer = time.AfterFunc(time.Hour, func() { c.done <- errLate })
	c.timer.Stop()
	return c
}

// errLate is of kind Unavailable, and what ended the wait.
var errLate = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

// produce waits for r's ack until ctx is done or the time by has come; the zero time never comes. c, in which r may lie,
// is given back when nobody has it any more: a caller that gives up leaves both to the client.
func (p *Producer) produce(ctx context.Context, by time.Time, c *call, r *kgo.Record) error {
	topic := r.Topic
	if err := ctx.Err(); err != nil {
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "%w", context.Cause(ctx))
	}
	if !by.IsZero() {
		left := time.Until(by)
		if left <= 0 {
			return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "too late: %w", context.DeadlineExceeded)
		}
		c.timer.Reset(left)
	}
	p.client.TryProduce(context.Background(), r, c.promise)
	select {
	case err := <-c.done:
		// A timer that has run would be taken for the next record's answer.
		if stopped := by.IsZero() || c.timer.Stop(); stopped {
			c.encoder.Forget()
			p.calls.Put(c)
		}
		return mapError(topic, err)
	case <-ctx.Done():
		c.timer.Stop()
		return schemas.Errorf(schemas.Unavailable, "produce to "+topic, "no answer in time: %w", context.Cause(ctx))
	}
}
