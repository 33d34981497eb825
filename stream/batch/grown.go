package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// grown ends the claims of a topic that were made with another number of partitions than it has now; Kafka only ever adds some. If the
// topic was deleted and created again, its id is another one. Then grown ends only those claims that run nothing but lanes: they read
// no records, and nothing else would show them the new topic.
func (l *Loop) grown(e *reader.GrownError) {
	for _, p := range l.claims {
		claimed := p.Claim.Partition
		if claimed.Topic != e.Topic {
			continue
		}
		switch {
		case claimed.TopicID != e.Now.ID && p.LanesOnly:
			l.end(p, ErrRecheck)
		case claimed.TopicID == e.Now.ID && p.Partitions != e.Now.Partitions:
			l.end(p, &schemas.Error{Kind: schemas.Conflict, Op: "read " + claimed.Topic, Err: &ledger.TopicError{
				Topic: claimed.Topic, ID: claimed.TopicID, Known: claimed.TopicID, Partitions: e.Now.Partitions, KnownPartitions: p.Partitions}})
		}
	}
}

// watchTopics asks the brokers every TopicLook for the topics' ids and numbers of partitions: an idle or filtered topic brings no record
// that shows that it has grown.
func (l *Loop) watchTopics() {
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
			now, err := l.cfg.Log.Topic(ctx, name)
			cancel()
			if err == nil { // otherwise the next tick asks again
				l.do(l.ctx, func() { l.grown(&reader.GrownError{Topic: name, Now: now}) })
			}
		}
	}
}
