package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/stream/gate"
)

// syncBuffer brings the gap buffer's rows to what waits now: it adds what entered, changes what changed and deletes what
// left. A row that does not change keeps its deadline, even if its event waits behind another gap by now. Where a backfill
// is asked for (wanted), the line's rows get its deadline.
func (w *writer) syncBuffer(k *partitionBatch, wanted []gate.Request) {
	for i, key := range k.keys {
		was, now := k.before[i].waiting, k.waiting(key)
		if len(was) == 0 && len(now) == 0 {
			continue
		}
		before := make(map[int64]waitingBefore, len(was))
		for _, m := range was {
			before[m.offset] = m
		}
		requested := slices.ContainsFunc(wanted, func(q gate.Request) bool { return q.Line == key })
		for n := range now {
			if r, entered := k.entered[now[n].Offset]; entered { // a row that was in its place leaves
				w.addBuffered(k, &k.Records[r], &now[n], string(now[n].Decision))
				continue
			}
			d := before[now[n].Offset]
			delete(before, now[n].Offset)
			if d.decision != now[n].Decision || d.stage != now[n].Stage || requested {
				w.changeBuffered(k, now[n].Offset, string(now[n].Decision), now[n].Stage)
			}
		}
		for offset := range before {
			if k.becameHeld(offset) {
				w.changeBuffered(k, offset, rowHeld, gate.Filling)
				continue
			}
			w.bufferLeft[0].int32(k.Claim.ID)
			w.bufferLeft[1].int64(offset)
		}
	}
}

// rowHeld is the buffer's decision of an event that is held for an operator. The gate does not know it.
const rowHeld = "held"

// changeBuffered changes a row that stays in the buffer.
func (w *writer) changeBuffered(k *partitionBatch, offset int64, decision string, stage gate.Stage) {
	w.bufferChanges[0].int32(k.Claim.ID)
	w.bufferChanges[1].int64(offset)
	w.bufferChanges[2].text(decision)
	w.bufferChanges[3].text(string(stage))
}

// addBackfill adds a request for what is missing on a line.
func (w *writer) addBackfill(k *partitionBatch, q gate.Request) {
	c := w.backfillRequests
	c[0].int32(k.Claim.ID)
	c[1].text(string(q.Line.Entity))
	c[2].text(q.Line.Clock)
	c[3].text(string(q.Before.Kind))
	c[4].int64(q.Before.Epoch)
	c[5].int64(q.From)
	c[6].int64(q.To)
	c[7].text(string(q.Reason))
}

func (w *writer) addBuffered(k *partitionBatch, r *Record, g *gate.Waiting, decision string) {
	c := w.buffer
	c[0].int32(k.Claim.ID)
	c[1].int64(g.Offset)
	c[2].int32(r.LeaderEpoch)
	c[3].time(g.AppendTime)
	c[4].time(r.ReceivedAt)
	c[5].uuid(g.Key)
	c[6].uuid(g.Hash)
	c[7].int64(g.Version.Epoch)
	c[8].int64(g.Version.Value)
	c[9].text(g.Version.Text)
	c[10].int32(g.Version.Sub)
	if g.First == nil {
		c[11].null()
	} else {
		c[11].int64(*g.First)
	}
	c[12].bool(g.Deleted)
	c[13].bool(g.Filtered)
	c[14].bool(g.Backfill)
	c[15].text(decision)
	c[16].text(string(g.Stage))
	c[17].text(string(g.Payload))
	c[18].text(string(g.Version.Kind))
	c[19].text(string(g.Entity))
	c[20].text(g.Version.Clock)
	c[21].text(r.Source)
	c[22].text(r.ID)
	c[23].text(r.Type)
	c[24].bytes(packedOf(r))
}

// packedOf is the packed record, never nil: the column is NOT NULL.
func packedOf(r *Record) []byte {
	if r.Packed == nil {
		return []byte{}
	}
	if b := r.Packed(); b != nil {
		return b
	}
	return []byte{}
}
