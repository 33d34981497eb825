package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// grown ends the claims of a topic that has another number of partitions than they know.
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

// watchTopics asks now and then how many partitions the claimed topics have: a topic that is idle, or filtered, brings no record
// to tell by.
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
			if err == nil { // else it is asked again soon
				l.do(l.ctx, func() { l.grown(&reader.GrownError{Topic: name, Now: now}) })
			}
		}
	}
}
