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
			w.bufferLeft[0].Int32(k.Claim.ID)
			w.bufferLeft[1].Int64(offset)
		}
	}
}

// rowHeld is the buffer's decision of an event that is held for an operator. The gate does not know it.
const rowHeld = "held"

// changeBuffered changes a row that stays in the buffer.
func (w *writer) changeBuffered(k *partitionBatch, offset int64, decision string, stage gate.Stage) {
	w.bufferChanges[0].Int32(k.Claim.ID)
	w.bufferChanges[1].Int64(offset)
	w.bufferChanges[2].Text(decision)
	w.bufferChanges[3].Text(string(stage))
}

// addBackfill adds a request for what is missing on a line.
func (w *writer) addBackfill(k *partitionBatch, q gate.Request) {
	c := w.backfillRequests
	c[0].Int32(k.Claim.ID)
	c[1].Text(string(q.Line.Entity))
	c[2].Text(q.Line.Clock)
	c[3].Text(string(q.Before.Kind))
	c[4].Int64(q.Before.Epoch)
	c[5].Int64(q.From)
	c[6].Int64(q.To)
	c[7].Text(string(q.Reason))
}

func (w *writer) addBuffered(k *partitionBatch, r *Record, g *gate.Waiting, decision string) {
	c := w.buffer
	c[0].Int32(k.Claim.ID)
	c[1].Int64(g.Offset)
	c[2].Int32(r.LeaderEpoch)
	c[3].Time(g.AppendTime)
	c[4].Time(r.ReceivedAt)
	c[5].UUID(g.Key)
	c[6].UUID(g.Hash)
	c[7].Int64(g.Version.Epoch)
	c[8].Int64(g.Version.Value)
	c[9].Text(g.Version.Text)
	c[10].Int32(g.Version.Sub)
	if g.First == nil {
		c[11].Null()
	} else {
		c[11].Int64(*g.First)
	}
	c[12].Bool(g.Deleted)
	c[13].Bool(g.Filtered)
	c[14].Bool(g.Backfill)
	c[15].Text(decision)
	c[16].Text(string(g.Stage))
	c[17].Text(string(g.Payload))
	c[18].Text(string(g.Version.Kind))
	c[19].Text(string(g.Entity))
	c[20].Text(g.Version.Clock)
	c[21].Text(r.Source)
	c[22].Text(r.ID)
	c[23].Text(r.Type)
	c[24].Bytes(packedOf(r))
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
