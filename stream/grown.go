package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// grownError says that a topic has another number of partitions than its claims were made for. Its producers may place keys by
// that number from any moment on, so no record is judged by the old one any more: the claims of the topic end, all of them.
type grownError struct {
	topic string
	now   topic
}

func (e *grownError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions by now", e.topic, e.now.partitions)
}

// countTimeout bounds the question for the number of partitions, which the fetcher waits for.
const countTimeout = 2 * time.Second

// counting knows how many partitions topics have, as it was asked after a poll came: a record of the poll may have been placed
// by a number that nobody here has heard of. It asks at most once a topic, and not at all where every record is in its place.
type counting struct {
	ask   func(ctx context.Context, name string) (topic, error) // nil in tests: nothing has changed
	asked map[string]topic
}

// check is nil where a record that is misplaced by the number that its claim knows is misplaced indeed.
func (c *counting) check(ctx context.Context, o *owned) error {
	if c.ask == nil {
		return nil
	}
	now, known := c.asked[o.at.topic]
	if !known {
		ctx, cancel := context.WithTimeoutCause(ctx, countTimeout, errors.New("no answer in time"))
		defer cancel()
		var err error
		if now, err = c.ask(ctx, o.at.topic); err != nil {
			return fmt.Errorf("a record is not where its key belongs, and whether the topic has grown cannot be asked: %w", err)
		}
		if c.asked == nil {
			c.asked = map[string]topic{}
		}
		c.asked[o.at.topic] = now
	}
	switch {
	case now.id != o.claim.Partition.TopicID:
		return kerr.UnknownTopicID
	case now.partitions != o.partitions:
		return &grownError{o.at.topic, now}
	}
	return nil
}

// count asks every broker that is up for a topic: any of them may have told a producer, and one may know later than another.
// The highest number is it. A broker that does not answer leaves the question open.
func (b *broker) count(ctx context.Context, name string) (topic, error) {
	first, brokers, err := b.lookUp(ctx, b.cl, name)
	if err != nil || len(brokers) < 2 {
		return first, err
	}
	all, errs := make([]topic, len(brokers)), make([]error, len(brokers))
	var asking sync.WaitGroup
	for i, id := range brokers {
		asking.Go(func() { all[i], _, errs[i] = b.lookUp(ctx, retried{b.cl.Broker(int(id))}, name) })
	}
	asking.Wait()
	for i, t := range all {
		switch {
		case errs[i] != nil:
			return first, fmt.Errorf("broker %d: %w", brokers[i], errs[i])
		case t.id != first.id:
			return first, fmt.Errorf("look up topic %s: brokers tell different ids", name)
		}
		first.partitions = max(first.partitions, t.partitions)
	}
	return first, nil
}

// retried asks one broker, again where a connection has broken since the last time.
type retried struct{ *kgo.Broker }

func (r retried) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return r.RetriableRequest(ctx, req)
}

// grown ends the claims of a topic that has another number of partitions than they know. The group is to hear of it as well: who
// gets a new partition shows that it is not read.
func (l *loop) grown(e *grownError) {
	before := len(l.claims)
	for _, o := range l.claims {
		p := o.claim.Partition
		switch {
		case p.Topic != e.topic:
		case p.TopicID != e.now.id && o.unreading:
			l.end(o, errRecheck)
		case p.TopicID == e.now.id && o.partitions != e.now.partitions:
			stop, _ := stopped(l.cfg.Group, p, &schemas.Error{Kind: schemas.Conflict, Op: "read " + p.Topic, Err: &ledger.TopicError{
				Topic: p.Topic, ID: p.TopicID, Known: p.TopicID, Count: e.now.partitions, Counts: o.partitions}})
			l.end(o, stop)
		}
	}
	if len(l.claims) < before {
		l.mirror.cl.ForceMetadataRefresh()
	}
}

// watchTopics asks now and then how many partitions the claimed topics have: a topic that is idle, or filtered, brings no record
// to tell by.
func (l *loop) watchTopics() {
	tick := time.NewTicker(l.cfg.TopicLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		for _, name := range l.cfg.Topics {
			ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
			now, err := l.broker.topic(ctx, name)
			cancel()
			if err == nil { // else it is asked again soon
				l.do(l.ctx, func() { l.grown(&grownError{name, now}) })
			}
		}
	}
}
