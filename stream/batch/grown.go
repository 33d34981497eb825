package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// grown ends the claims of a topic that were made with another number of partitions than it has now; Kafka only ever adds some. A
// topic that was deleted and created again has another id. Of its claims, grown ends those that only run lanes: they read no records,
// so that nothing else shows them the new topic.
func (l *Loop) grown(e *reader.GrownError) {
	for _, p := range l.claims {
		of := p.Claim.Partition
		switch {
		case of.Topic != e.Topic:
		case of.TopicID != e.Now.ID && p.LanesOnly:
			l.end(p, ErrRecheck)
		case of.TopicID == e.Now.ID && p.Partitions != e.Now.Partitions:
			l.end(p, &schemas.Error{Kind: schemas.Conflict, Op: "read " + of.Topic, Err: &ledger.TopicError{
				Topic: of.Topic, ID: of.TopicID, Known: of.TopicID, Count: e.Now.Partitions, Counts: p.Partitions}})
		}
	}
}

// watchTopics asks every TopicLook how many partitions the topics have: an idle or filtered topic brings no record that shows that
// it has grown.
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
