package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GrownError says that a topic has another number of partitions than its claims were made with. Producers may place keys by the new
// number already, so no more records are decided by the old one: all claims of the topic end.
type GrownError struct {
	Topic string
	Now   Topic
}

func (e *GrownError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions by now", e.Topic, e.Now.Partitions)
}

// countTimeout bounds asking for the number of partitions. The reader waits for the answer.
const countTimeout = 2 * time.Second

// counting finds out, for the records of one poll, how many partitions their topics have now: a producer may have placed a record by a
// number that is not known here yet. It asks once per topic at most, and only if a record seems to be in the wrong partition.
type counting struct {
	ask     func(ctx context.Context, name string) (Topic, error) // nil in tests: nothing has changed
	answers map[string]Topic                                      // by topic
}

// check is called for a record that is in the wrong partition by the claim's number of partitions. It returns nil if the topic still has
// that number: the record is misplaced. It returns a [GrownError] if the number is another one, kerr.UnknownTopicID if the topic was
// created again, and another error if the brokers could not be asked.
func (c *counting) check(ctx context.Context, r *Reading) error {
	if c.ask == nil {
		return nil
	}
	now, known := c.answers[r.Partition.Topic]
	if !known {
		ctx, cancel := context.WithTimeoutCause(ctx, countTimeout, errors.New("no answer in time"))
		defer cancel()
		var err error
		if now, err = c.ask(ctx, r.Partition.Topic); err != nil {
			return fmt.Errorf("a record is in another partition than its key's, and the brokers could not be asked whether the topic has grown: %w", err)
		}
		if c.answers == nil {
			c.answers = map[string]Topic{}
		}
		c.answers[r.Partition.Topic] = now
	}
	switch {
	case now.ID != r.Partition.TopicID:
		return kerr.UnknownTopicID
	case now.Partitions != r.partitions:
		return &GrownError{r.Partition.Topic, now}
	}
	return nil
}

// Count asks every broker that is up for a topic's number of partitions and returns the highest: brokers learn of new partitions one
// after the other, and a producer may have asked any of them. If one does not answer, Count returns an error.
func (l *Log) Count(ctx context.Context, name string) (Topic, error) {
	first, brokers, err := lookUp(ctx, l.cl, name)
	if err != nil || len(brokers) < 2 {
		return first, err
	}
	all, errs := make([]Topic, len(brokers)), make([]error, len(brokers))
	var asking sync.WaitGroup
	for i, id := range brokers {
		asking.Go(func() { all[i], _, errs[i] = lookUp(ctx, retried{l.cl.Broker(int(id))}, name) })
	}
	asking.Wait()
	for i, t := range all {
		switch {
		case errs[i] != nil:
			return first, fmt.Errorf("broker %d: %w", brokers[i], errs[i])
		case t.ID != first.ID:
			return first, fmt.Errorf("look up topic %s: brokers give it different ids", name)
		}
		first.Partitions = max(first.Partitions, t.Partitions)
	}
	return first, nil
}

// retried sends requests to one broker, and sends them again if the connection turns out to be broken.
type retried struct{ *kgo.Broker }

func (r retried) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return r.RetriableRequest(ctx, req)
}
