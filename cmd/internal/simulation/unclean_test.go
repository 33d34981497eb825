package simulation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
)

// unclean is an election of leaders that lack the end of what others have acknowledged. It cuts one log, and the log grows on over
// the same offsets under a new leader epoch.
const unclean = "an unclean election cuts a log"

// dataDir is where the brokers keep their logs; empty in a world in which they have one life, which is lighter.
func (p *plan) dataDir(t *testing.T) string {
	if !p.has(unclean) {
		return ""
	}
	return t.TempDir()
}

func (p *plan) has(name string) bool {
	return slices.ContainsFunc(p.faults, func(f planned) bool { return f.name == name })
}

// electUncleanly stops the brokers, takes the last batches of one log away, and starts them again. kfake cuts no log while it lives;
// what it has on disk in between is all that it knows afterwards. Every other time the subscription is stopped meanwhile, and only its
// last batch goes, so that the log has grown over the cut before anybody looks.
func electUncleanly(ctx context.Context, w *world, p planned) (fact, func()) {
	done := w.byHand()
	topics := map[string]ledger.TopicID{}
	for _, source := range w.plan.sources {
		topics[topicOf(source)] = w.broker.topicID(topicOf(source))
	}
	startAgain, unseen, most := func() {}, p.chance>>32%2 == 0, int(p.chance>>16%4)
	if unseen {
		startAgain, most = w.stopAll(), 0
	}
	w.broker.cluster().Close()
	c, err := w.cutLog(topics, p.chance, most)
	if err != nil {
		w.t.Errorf("cut a log: %v", err)
	}
	return fact{what: unclean}, func() {
		defer startAgain()
		if err := w.broker.start(); err != nil {
			w.t.Errorf("start the brokers again: %v", err)
		}
		if c == nil {
			done()
			return
		}
		w.operations.Go(func() {
			defer done()
			w.untilKnown(ctx, *c)
		})
		if unseen {
			w.untilGrown(ctx, *c)
		}
	}
}

// cut is where a log was cut.
type cut struct {
	ledger.Partition
	epoch int32 // the leader's after it
	next  int64 // where the subscription read on
}

// cutLog has a new leader for one log, which ends earlier than the one before; nil where nothing was read of what could go: that nobody
// can miss. Of what was read so many batches go at most, besides the last.
func (w *world) cutLog(topics map[string]ledger.TopicID, chance uint64, most int) (*cut, error) {
	logs, err := diskLogs(w.broker.dir)
	if err != nil {
		return nil, err
	}
	var found []cuttable
	for _, l := range logs {
		if c, ok := w.cuttable(l, topics[l.topic]); ok {
			found = append(found, c)
		}
	}
	var victim cuttable
	if len(found) > 0 {
		victim = found[chance%uint64(len(found))]
		victim.first = max(victim.first, victim.last-most)
		if err := w.sever(victim); err != nil {
			return nil, err
		}
	}
	for _, l := range logs {
		if l != victim.log {
			err = errors.Join(err, l.write())
		}
	}
	if victim.log == nil || err != nil {
		return nil, err
	}
	l := victim.log
	l.elect(victim.first)
	return &cut{victim.at, l.snapshot.Epoch, victim.next}, errors.Join(l.write(), l.recoverProducers(w.broker.dir))
}

// cuttable is a log that can be cut so that it is missed: before any of the batches from first to last.
type cuttable struct {
	log         *diskLog
	at          ledger.Partition
	next        int64 // where the subscription reads on
	first, last int
}

// cuttable reports whether a subscription has read of the log as it is: the record before its position is of the leader epoch in which it
// was read. Where the epoch is not known, behind a seek, a cut that is grown over cannot be told; see the ownership search.
func (w *world) cuttable(l *diskLog, id ledger.TopicID) (c cuttable, ok bool) {
	c = cuttable{log: l, at: ledger.Partition{Topic: l.topic, TopicID: id, Number: l.partition}}
	next, ok := w.db.Next(c.at)
	if !ok {
		return c, false
	}
	c.next = next.Offset
	c.first = slices.IndexFunc(l.batches, func(b diskBatch) bool { return b.FirstOffset > l.snapshot.LogStartOffset })
	c.last = slices.IndexFunc(l.batches, func(b diskBatch) bool {
		return b.PartitionLeaderEpoch == next.LeaderEpoch && b.FirstOffset < next.Offset && next.Offset <= b.FirstOffset+int64(b.LastOffsetDelta)+1
	})
	return c, c.first >= 0 && c.first <= c.last
}

// sever notes the records that go: the judge excuses no others.
func (w *world) sever(c cuttable) error {
	records, err := c.log.records(c.first)
	if err != nil {
		return err
	}
	w.trace.add("  %s/%d is cut from %d to %d, and was read up to %d", c.at.Topic, c.at.Number, c.log.snapshot.HighWatermark, records[0].Offset, c.next)
	for _, r := range records {
		g := removedOf(r, c.at.TopicID, unclean)
		g.read = r.Offset < c.next
		w.note(g)
	}
	return nil
}

// known is how long a cut may go unnoticed or unaccepted while the operator leaves the logs alone.
const known = 3 * time.Minute

// untilKnown waits until the ledger's position is one of the log as it is after a cut: somebody has read its new leader's records, or
// goes on where its stop was accepted.
func (w *world) untilKnown(ctx context.Context, c cut) {
	for begin := time.Now(); time.Since(begin) < known && ctx.Err() == nil; {
		if next, ok := w.db.Next(c.Partition); ok && (next.LeaderEpoch < 0 || next.LeaderEpoch >= c.epoch) {
			return
		}
		sleep(ctx, time.Second)
	}
	w.trace.add("operator: the cut of %s/%d is not accepted", c.Topic, c.Number)
}

// untilGrown waits until a log that was cut is longer than what was read of it, for some seconds at most.
func (w *world) untilGrown(ctx context.Context, c cut) {
	for range 20 {
		ends, err := w.broker.adm.ListEndOffsets(ctx, c.Topic)
		if end, ok := ends.Lookup(c.Topic, c.Number); err == nil && ok && end.Offset >= c.next {
			return
		}
		sleep(ctx, time.Second)
	}
}

// removedOf describes a record of an event that is about to be removed.
func removedOf(r *kgo.Record, life [16]byte, kind string) removedRecord {
	g := removedRecord{life: life, topic: r.Topic, partition: r.Partition, offset: r.Offset, since: r.Timestamp, at: time.Now(), kind: kind}
	if e, err := record.Decode(r); err == nil {
		g.id = e.ID
	}
	return g
}

func (w *world) note(g removedRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, g)
}

// readLogs notes the events of which the logs have a record when all is over. A stop excuses none of them.
func (w *world) readLogs(ctx context.Context) {
	if len(w.removed) == 0 {
		return
	}
	for _, source := range w.plan.sources {
		err := w.broker.reading(ctx, topicOf(source), func(r *kgo.Record) {
			if e, err := record.Decode(r); err == nil {
				w.inLogs[e.ID] = true
			}
		})
		if err != nil {
			w.t.Errorf("read the logs: %v", err)
		}
	}
}
