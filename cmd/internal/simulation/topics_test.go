package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/owner"
)

// removedRecord is a record that an operator or an election has removed from a log, as it was before.
type removedRecord struct {
	topic     string
	partition int32
	id        string // of the event
	offset    int64
	since, at time.Time // when it was appended, and when it went
	kind      string    // of the fault
	life      [16]byte  // the id of the topic that it was in
	read      bool      // the ledger's position was behind it
}

// topicID is the id of a topic; zero while there is none of its name.
func (b *broker) topicID(topic string) (id [16]byte) {
	if t := b.cluster().TopicInfo(topic); t != nil {
		id = t.TopicID
	}
	return id
}

const patience = 60 * time.Second // how long an operator's question may take

// reading reads a topic as it is.
func (b *broker) reading(ctx context.Context, topic string, each func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	starts, err := offsets(ctx, b.adm.ListStartOffsets, topic)
	if err != nil {
		return err
	}
	ends, err := offsets(ctx, b.adm.ListEndOffsets, topic)
	if err != nil {
		return err
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for partition, start := range starts {
		if end, ok := ends[partition]; ok && end > start {
			from[partition], left[partition] = kgo.NewOffset().At(start), end
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(b.options("operator"), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read %s: %w", topic, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			each(r)
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

// recordsToBeRemoved returns the records of a topic that which selects.
func (w *world) recordsToBeRemoved(ctx context.Context, topic, kind string, which func(*kgo.Record) bool) (going []removedRecord, err error) {
	id := w.broker.topicID(topic)
	err = w.broker.reading(ctx, topic, func(r *kgo.Record) {
		if which(r) {
			going = append(going, removedOf(r, id, kind))
		}
	})
	return going, err
}

// deleteBelow deletes what lies below an offset of each partition, and notes what went: that which lies below the logs' starts
// afterwards, whatever was answered.
func (w *world) deleteBelow(ctx context.Context, topic, kind string, upto map[int32]int64) error {
	going, err := w.recordsToBeRemoved(ctx, topic, kind, func(r *kgo.Record) bool { return r.Offset < upto[r.Partition] })
	if err != nil {
		return err
	}
	to := kadm.Offsets{}
	for partition, at := range upto {
		to.Add(kadm.Offset{Topic: topic, Partition: partition, At: at})
	}
	done, failed := w.broker.adm.DeleteRecords(ctx, to)
	if failed == nil {
		failed = done.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	starts, err := offsets(ctx, w.broker.adm.ListStartOffsets, topic)
	for _, g := range going {
		if g.offset < starts[g.partition] {
			w.note(g)
		}
	}
	return errors.Join(failed, err)
}

// offsets asks for an offset of each of a topic's partitions until it is told: a topic that was just created has no leaders for a moment.
func offsets(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), topic string) (map[int32]int64, error) {
	for {
		listed, err := list(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err == nil {
			out := map[int32]int64{}
			listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		sleep(ctx, time.Second)
	}
}

const (
	cutOff    = "records are deleted"
	retained  = "the retention is reached"
	recreated = "the topic is created again"
	grown     = "the topic grows"
)

// cutTopic deletes a part of a partition's records while the subscription is stopped.
func cutTopic(ctx context.Context, w *world, p planned) (fact, func()) {
	defer w.byHand()()
	mend := w.stopAll()
	err := w.deleteBefore(ctx, func(end int64) int64 { return int64(p.chance>>16) % (end + 1) })
	if err != nil {
		w.trace.add("  %v", err)
	}
	return fact{what: cutOff}, mend
}

// deleteBefore deletes what lies before an offset of each partition; where says which, of the log's end.
func (w *world) deleteBefore(ctx context.Context, where func(end int64) int64) error {
	for _, source := range w.plan.sources {
		topic := topicOf(source)
		ends, err := w.broker.adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		upto := map[int32]int64{}
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil && o.Offset >= 0 {
				upto[o.Partition] = where(o.Offset)
			}
		})
		if err := w.deleteBelow(ctx, topic, cutOff, upto); err != nil {
			return err
		}
	}
	return nil
}

// reachRetention deletes what is older than the topics' retention, again and again, while everything runs.
func reachRetention(ctx context.Context, w *world, p planned) (fact, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := w.expireRecords(ctx); err != nil && ctx.Err() == nil {
				w.trace.add("  %v", err)
			}
			sleep(ctx, 5*time.Second)
		}
	}()
	return fact{node: "nobody", what: retained}, func() { cancel(); <-ended }
}

func (w *world) expireRecords(ctx context.Context) error {
	defer w.byHand()()
	for _, source := range w.plan.sources {
		topic := topicOf(source)
		old := time.Now().Add(-w.plan.retention)
		after, err := w.broker.adm.ListOffsetsAfterMilli(ctx, old.UnixMilli(), topic)
		if err != nil {
			return err
		}
		upto := map[int32]int64{}
		after.Each(func(o kadm.ListedOffset) {
			if o.Err == nil && o.Offset >= 0 {
				upto[o.Partition] = o.Offset
			}
		})
		if err := w.deleteBelow(ctx, topic, retained, upto); err != nil {
			return err
		}
	}
	return nil
}

// recreateTopic deletes a topic and creates it again, while nothing writes to it.
func recreateTopic(ctx context.Context, w *world, p planned) (fact, func()) {
	defer w.byHand()()
	in := w.takeIntake()
	if in == nil {
		return noVictim, nothing
	}
	in.stop()
	topic := topicOf(w.plan.sources[p.chance%uint64(len(w.plan.sources))])
	going, err := w.recordsToBeRemoved(ctx, topic, recreated, func(*kgo.Record) bool { return true })
	if err == nil {
		w.mu.Lock()
		w.removed = append(w.removed, going...)
		w.lives[topic] = append(w.lives[topic], w.broker.topicID(topic))
		w.mu.Unlock()
		_, err = w.broker.adm.DeleteTopics(ctx, topic)
	}
	sleep(ctx, p.lasts/2)
	if err == nil {
		_, err = w.broker.adm.CreateTopics(ctx, w.plan.partitions, 1, w.topicConfig(), topic)
	}
	if err != nil {
		w.t.Errorf("create %s again: %v", topic, err)
	}
	return fact{what: recreated}, w.startIntake
}

// growTopic gives a topic more partitions, for good: its entities are in other ones then. The way on is a copy (topics rekey), which
// is for an operator to make; until then the topic stands still and says so.
func growTopic(ctx context.Context, w *world, p planned) (fact, func()) {
	defer w.byHand()()
	topic := topicOf(w.plan.sources[p.chance%uint64(len(w.plan.sources))])
	if _, err := w.broker.adm.CreatePartitions(ctx, 1+int(p.chance>>32%3), topic); err != nil {
		w.trace.add("  %v", err)
	}
	if w.broker.cluster().PartitionInfo(topic, w.plan.partitions) != nil {
		w.mu.Lock()
		w.grown[topic] = true
		w.mu.Unlock()
	}
	return fact{what: grown}, nothing
}

// topicConfig is what topics apply gives a topic.
func (w *world) topicConfig() map[string]*string {
	return map[string]*string{
		"message.timestamp.type": new("LogAppendTime"), "max.message.bytes": new("3000000"),
		"retention.ms": new(fmt.Sprint(w.plan.retention.Milliseconds())),
	}
}

// excused are the events of which the world has deleted a record, and Forebay has said so: by an action that is dead for want of its
// payload, or by a stop that covers the record. Neither is enough alone. A topic that has grown stands still until an operator makes the
// copy: all of its events are excused, where the world has grown it and Forebay has said that. One that was created again and has grown before
// that was accepted is taken as it is then, and what was written before it grew is quarantined as misplaced.
func (w *world) excused() map[string]string {
	out := map[string]string{}
	for _, g := range w.removed {
		if !w.copied(g) && w.trace.payloadLost(g.id) {
			out[g.id] = payloadLost
		} else if why := w.reported(g); why != "" && !g.read && out[g.id] == "" {
			out[g.id] = why
		}
	}
	for _, s := range w.reports {
		for _, t := range w.sender.delivered {
			if topic := topicOf(t.source); s.Reason == owner.StopPartitions && topic == s.Stop.Partition.Topic && w.grown[topic] {
				out[t.id] = string(s.Reason)
			}
		}
	}
	for id, topic := range w.trace.misplaced {
		if w.grown[topic] {
			out[id] = misplaced
		}
	}
	return out
}

const (
	payloadLost = "payload_lost"
	misplaced   = "misplaced"
)

// forgiven are the excused events that need not be done at all. A stop speaks of what nobody has read: an event that was decided is owed
// all the same, and one of which a log still has another record.
func (w *world) forgiven() map[string]bool {
	out := map[string]bool{}
	for id, why := range w.excused() {
		known := w.inLogs[id] || w.trace.decided[id]
		out[id] = !known || why == payloadLost || why == misplaced || why == string(owner.StopPartitions)
	}
	return out
}

// copied reports whether what is open of a record that went must have had a copy in the ledger: where its retention was over, and
// nothing was in the owner's way meanwhile.
func (w *world) copied(g removedRecord) bool {
	return g.kind == retained && !slices.ContainsFunc(w.facts, func(f fact) bool {
		return f.node != "nobody" && !f.end.Add(recovery).Before(g.since) && !f.begin.After(g.at)
	})
}

// reported is the stop that covers a record which is gone. That a topic was created again is reported and accepted of all of its
// partitions at once: one that has not said so itself was told by another. It covers all that was unread in the topics before, however it went.
func (w *world) reported(g removedRecord) string {
	if g.kind == unclean {
		return w.reportedCut(g)
	}
	own, topic := false, false
	for _, s := range w.reports {
		at, again := s.Stop.Partition, s.Reason == owner.StopRecreated
		switch {
		case at.Topic != g.topic || again && at.TopicID == g.life || !again && g.kind == recreated:
		case again && w.between(s, g):
			return string(s.Reason)
		case at.Number != g.partition:
			topic = topic || again
		case s.Stop.From <= g.offset && (g.offset < s.Stop.To || again):
			return string(s.Reason)
		default:
			own = true
		}
	}
	if topic && !own {
		return string(owner.StopRecreated)
	}
	return ""
}

// reportedCut is the stop that says that the log was cut where a record went, or before: what was read and is gone shows the cut, but
// not how far the log went.
func (w *world) reportedCut(g removedRecord) string {
	for _, s := range w.reports {
		at, cut := s.Stop.Partition, s.Reason == owner.StopAboveEnd || s.Reason == owner.StopTruncated
		if cut && at.Topic == g.topic && at.Number == g.partition && at.TopicID == g.life && s.Stop.From <= g.offset {
			return string(s.Reason)
		}
	}
	return ""
}

// between reports whether a record was in a topic that was deleted and created again between the one that the ledger knew and the
// one that a stop is about.
func (w *world) between(s *owner.StopError, g removedRecord) bool {
	lives := w.lives[g.topic]
	known := slices.IndexFunc(lives, func(id [16]byte) bool {
		return strings.Contains(s.Stop.Detail, fmt.Sprintf("positions are of %x", id[:]))
	})
	now := slices.Index(lives, [16]byte(s.Stop.Partition.TopicID))
	if now < 0 {
		now = len(lives)
	}
	at := slices.Index(lives, g.life)
	return known >= 0 && known < at && at < now
}

// report keeps what a stopped partition says.
func (w *world) report(err error) {
	e, ok := errors.AsType[*owner.StopError](err)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, e)
}

// payloadLost reports whether the log of a process says that an event's action is dead for want of its bytes.
func (t *trace) payloadLost(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		if strings.Contains(line, "action is dead") && strings.Contains(line, " event_id="+id+" ") && strings.Contains(line, "class=payload_lost") {
			return true
		}
	}
	return false
}
