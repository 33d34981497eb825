package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/stream/gate"
)

// move brings the buffer's rows to what waits now: new ones in, changed ones on, released ones out. What still waits as it
// did keeps its deadline, which began when it was first seen, whatever gap it waits for by now; where its line asks (wanted)
// it waits for that answer.
func (w *writer) move(k *work, wanted []gate.Request) {
	for i, key := range k.keys {
		was, now := k.lines[i].waiting, k.waiting(key)
		if len(was) == 0 && len(now) == 0 {
			continue
		}
		before := make(map[int64]waitMark, len(was))
		for _, m := range was {
			before[m.offset] = m
		}
		asks := slices.ContainsFunc(wanted, func(q gate.Request) bool { return q.Line == key })
		for n := range now {
			if r, entered := k.entered[now[n].Offset]; entered { // the row that was at its place leaves, whatever it said
				w.buffered(k, &k.Records[r], &now[n], string(now[n].Decision))
				continue
			}
			d := before[now[n].Offset]
			delete(before, now[n].Offset)
			if d.decision != now[n].Decision || d.stage != now[n].Stage || asks {
				w.stays(k, now[n].Offset, string(now[n].Decision), now[n].Stage)
			}
		}
		for offset := range before {
			if k.setAside(offset) {
				w.stays(k, offset, rowHeld, gate.Filling)
				continue
			}
			w.left[0].int32(k.Claim.ID)
			w.left[1].int64(offset)
		}
	}
}

// rowHeld is the buffer's word for an event that is set aside for a person, which the gate knows only as parked.
const rowHeld = "held"

// stays writes what became of a row that keeps its place in the buffer.
func (w *writer) stays(k *work, offset int64, decision string, stage gate.Stage) {
	w.moved[0].int32(k.Claim.ID)
	w.moved[1].int64(offset)
	w.moved[2].text(decision)
	w.moved[3].text(string(stage))
}

// ask writes down a question for what is missing on a line.
func (w *writer) ask(k *work, q gate.Request) {
	c := w.asked
	c[0].int32(k.Claim.ID)
	c[1].text(string(q.Line.Entity))
	c[2].text(q.Line.Clock)
	c[3].text(string(q.Before.Kind))
	c[4].int64(q.Before.Epoch)
	c[5].int64(q.From)
	c[6].int64(q.To)
	c[7].text(string(q.Reason))
}

func (w *writer) buffered(k *work, r *Record, g *gate.Waiting, decision string) {
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
	c[9].text(g.Version.Word)
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

// packedOf is never nil: the column is what must outlive the log.
func packedOf(r *Record) []byte {
	if r.Packed == nil {
		return []byte{}
	}
	if b := r.Packed(); b != nil {
		return b
	}
	return []byte{}
}
