package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// newActions returns a partition's new actions that are to run, in lane_seq order. Those that are dead letters at once are left out.
func (t *batchTx) newActions(w *partitionBatch) []Action {
	n := w.laneEnd - w.laneAt
	if n == 0 {
		return nil
	}
	out := make([]Action, n)
	for i := range w.verdicts {
		v, r := &w.verdicts[i], &w.Records[i]
		if v.actions == 0 || v.Dead {
			continue
		}
		a := &out[v.laneSeq-w.laneAt]
		a.of(&r.Record, &v.Outcome)
		a.Generation = w.replay.generation(t.n.spec.Generation)
		a.Pointer = t.pointer(w, r.Offset, r.LeaderEpoch, keyInLog(r.Key, w.replay.reprocesses(), r.Source, r.ID), r.Hash)
		a.Source, a.EventID, a.EventType, a.Record = r.Source, r.ID, r.Type, i
		t.fillActions(out, w, v.laneSeq)
	}
	for i := range w.left {
		f := &w.left[i]
		if f.actions == 0 || f.outcome.Dead {
			continue
		}
		h, r := w.bufferedRows[f.waited.Offset], f.waited
		a := &out[f.laneSeq-w.laneAt]
		a.of(&r.Record, &f.outcome)
		a.Generation = t.n.spec.Generation
		a.Pointer = t.pointer(w, r.Offset, h.leaderEpoch, r.Key, r.Hash)
		a.Source, a.EventID, a.EventType, a.Record, a.HasCopy, a.Packed = h.source, h.id, h.eventType, -1, h.copied, h.packed
		t.fillActions(out, w, f.laneSeq)
	}
	return slices.DeleteFunc(out, func(a Action) bool { return a.LaneSeq == 0 }) // dead letters: they do not run
}

// pointer returns where an event of the partition is in the log.
func (t *batchTx) pointer(w *partitionBatch, offset int64, leaderEpoch int32, key schemas.EventKey, hash schemas.BodyHash) Pointer {
	p := w.Claim.Partition
	return Pointer{TopicID: p.TopicID, Topic: p.Topic, Partition: p.Number, Offset: offset, LeaderEpoch: leaderEpoch, Key: key, Hash: hash}
}

// of copies the fields that an action takes from its event and the decision.
func (a *Action) of(r *gate.Record, o *gate.Outcome) {
	a.Entity, a.Payload = r.Entity, r.Payload
	a.Version, a.Late, a.Reason = o.Version, o.Decision == gate.Late, o.Reason
}

// fillActions makes an event's actions, one per ActionSpec. The event's fields are already in the first of them.
func (t *batchTx) fillActions(out []Action, w *partitionBatch, laneSeq int64) {
	spec, first := &t.n.spec, laneSeq-w.laneAt
	out[first].Payload = t.n.payload(out[first].Payload)
	for i := range spec.Actions {
		s, a := &spec.Actions[i], &out[first+int64(i)]
		if i > 0 {
			*a = out[first]
		}
		a.Claim, a.LaneSeq = w.Claim.ID, laneSeq+int64(i)
		a.ID = schemas.NewActionID(spec.Name, a.Generation, a.Source, a.EventID, s.Name)
		a.Name, a.Destination, a.OnDead, a.Status = s.Name, s.Destination, s.OnDead, Pending
	}
}
