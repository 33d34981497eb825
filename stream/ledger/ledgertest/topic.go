package ledgertest

import (
	"math"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// recreated is the kind of stop that concerns a topic as a whole.
const recreated = "topic_recreated"

// checkTopic refuses a topic that was created again, until that is accepted, or that has another number of partitions than
// recorded. The caller holds mu.
func (m *Memory) checkTopic(k *claiming) error {
	at := k.req.Partition
	known, ok := m.topics[at.Topic]
	k.topic = topic{at.TopicID, k.req.Partitions}
	if !ok {
		return nil
	}
	e := &ledger.TopicError{Topic: at.Topic, ID: at.TopicID, Known: known.id, Partitions: k.req.Partitions, KnownPartitions: known.partitions}
	switch {
	case e.Recreated():
		return m.adoptRecreatedTopic(k, e)
	case e.Partitions != e.KnownPartitions:
		return &schemas.Error{Kind: schemas.Conflict, Op: k.op, Err: e}
	}
	return nil
}

// adoptRecreatedTopic makes a topic that was created again the subscription's, if an operator has accepted that.
func (m *Memory) adoptRecreatedTopic(k *claiming, e *ledger.TopicError) error {
	for _, f := range m.fences {
		if f.partition.TopicID == e.ID && f.epoch > 0 || f.former == e.ID {
			return schemas.Errorf(schemas.Unavailable, k.op, "a broker still tells topic %s by its former id %x", e.Topic, e.ID[:])
		}
	}
	var lost, waits int64
	for _, f := range m.newest(e.Topic) {
		open, waiting := f.open(), int64(len(f.waits))
		if f.partition.Number == k.req.Partition.Number {
			e.Open, e.Waiting = open, waiting
		}
		if f.partition.Number >= k.req.Partitions {
			lost, waits = lost+open, waits+waiting
		}
	}
	if lost+waits > 0 {
		return schemas.Errorf(schemas.Conflict, k.op, "topic %s was created again with %d partitions, it had %d, and those that are missing hold %d actions "+
			"that are open and %d events that wait", e.Topic, e.Partitions, e.KnownPartitions, lost, waits)
	}
	for _, s := range m.stops {
		if s.open() && s.Partition.Topic == e.Topic && s.Partition.TopicID == e.ID && (s.Kind != recreated || s.Accepted != nil) {
			return nil
		}
	}
	e.Next = -1
	for _, f := range m.fences {
		if f.partition.TopicID == e.Known && f.partition.Number == k.req.Partition.Number && f.stored {
			e.Next, e.ProcessedAt = f.next.Offset, f.processed
		}
	}
	return &schemas.Error{Kind: schemas.Conflict, Op: k.op, Err: e}
}

// newest are the fences of a topic's partitions, of each that which was claimed in the topic as it was last.
func (m *Memory) newest(name string) map[int32]*fence {
	out := map[int32]*fence{}
	for _, f := range m.fences {
		if f.partition.Topic == name && f.epoch > 0 {
			out[f.partition.Number] = f
		}
	}
	return out
}

// open counts the actions that have not ended.
func (f *fence) open() (n int64) {
	for _, a := range f.actions {
		if a.open() {
			n++
		}
	}
	return n
}

// inherit makes the fence that of the topic as it is now. What it knows of the log is forgotten; what is open or waits goes on.
// The caller has counted the epoch on.
func (f *fence) inherit(m *Memory, id ledger.TopicID) {
	f.former, f.lanesFrom, f.places = f.partition.TopicID, f.laneSeq, max(f.places, f.high)
	f.partition.TopicID = id
	f.moveOutOfLog(m, 0)
	waits := map[gate.VersionLineKey]bool{}
	for _, w := range f.waits {
		if !w.held {
			waits[w.line()] = true
		}
	}
	for k := range f.lines {
		if !waits[k] {
			delete(f.lines, k)
		}
	}
	f.next, f.high, f.processed = ledger.Position{LeaderEpoch: -1}, 0, zero
}

// moveOutOfLog gives waiting events and rejected records of the cut part of the log places outside of it; see the ledger's.
func (f *fence) moveOutOfLog(m *Memory, cut int64) {
	out := func(offset int64) int64 { return math.MinInt64 + f.epoch<<40 + offset }
	moved := map[int64]*wait{}
	for offset, w := range f.waits {
		if offset >= cut {
			if e := m.events[w.Key]; e != nil && e.fence == f.id && e.Offset == offset {
				e.Offset = out(offset)
			}
			w.Offset = out(offset)
		}
		moved[w.Offset] = w
	}
	f.waits = moved
	kept := map[int64]rejectedRecord{}
	for offset, a := range f.rejected {
		if offset >= cut && a.decision != gate.Filtered {
			offset = out(offset)
		}
		kept[offset] = a
	}
	f.rejected = kept
	for _, c := range m.commands {
		if c.Claim == f.id && !c.ended && c.LaneSeq == 0 && c.Offset >= cut {
			c.Offset = out(c.Offset)
		}
	}
}
