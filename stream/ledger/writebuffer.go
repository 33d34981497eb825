package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// syncBuffer brings the gap buffer's rows to what waits now: it adds events that entered, changes rows whose decision or stage changed, and
// deletes those of events that left. A row that does not change keeps its deadline, even if its event waits behind another gap by now. On
// version lines for which a backfill is requested (wanted), all rows get the deadline of the answer.
func (w *writer) syncBuffer(k *partitionBatch, wanted []gate.Request) {
	var held map[int64]bool // offsets of events that waited and are held for an operator now
	for i := range k.left {
		if k.left[i].outcome.Held {
			if held == nil {
				held = map[int64]bool{}
			}
			held[k.left[i].waited.Offset] = true
		}
	}
	gone := func(before []waitingBefore) {
		for _, m := range before {
			if held[m.offset] {
				w.changeBuffered(k, m.offset, rowHeld, gate.Filling)
				continue
			}
			w.bufferLeft.add(k.Claim.ID, m.offset)
		}
	}
	for i, key := range k.keys {
		was, now := k.before[i].waiting, k.waiting(key)
		if len(was) == 0 && len(now) == 0 {
			continue
		}
		requested := slices.ContainsFunc(wanted, func(q gate.Request) bool { return q.VersionLine == key })
		for n := range now {
			if r, entered := k.entered[now[n].Offset]; entered { // a row with this offset that is still in was is deleted below
				w.addBuffered(k, &k.Records[r], &now[n], string(now[n].Decision))
				continue
			}
			d := slices.IndexFunc(was, func(m waitingBefore) bool { return m.offset == now[n].Offset }) // those that stay keep their order
			gone(was[:d])
			stayed := was[d]
			was = was[d+1:]
			if stayed.decision != now[n].Decision || stayed.stage != now[n].Stage || requested {
				w.changeBuffered(k, now[n].Offset, string(now[n].Decision), now[n].Stage)
			}
		}
		gone(was)
	}
}

// rowHeld is the decision in the buffer's row of an event that is held for an operator. The gate's word for it is Parked with Held set.
const rowHeld = "held"

// bufferChangeRows are rows of the buffer that change: the parameters of bufferUpdate.
type bufferChangeRows struct {
	columns
	fence           pg.Int32s
	offset          pg.Int64s
	decision, stage pg.Texts
}

func newBufferChangeRows() *bufferChangeRows {
	r := &bufferChangeRows{}
	r.columns = columns{{"fence", &r.fence}, {"log_offset", &r.offset}, {"decision", &r.decision}, {"stage", &r.stage}}
	return r
}

// changeBuffered changes a row that stays in the buffer.
func (w *writer) changeBuffered(k *partitionBatch, offset int64, decision string, stage gate.Stage) {
	r := w.bufferChanges
	r.fence.Add(k.Claim.ID)
	r.offset.Add(offset)
	r.decision.Add(decision)
	r.stage.Add(string(stage))
}

// backfillRows are requests for what is missing on version lines: the parameters of backfillsInsert.
type backfillRows struct {
	columns
	fence                       pg.Int32s
	entity, clock, kind, reason pg.Texts
	epoch, from, to             pg.Int64s
}

func newBackfillRows() *backfillRows {
	r := &backfillRows{}
	r.columns = columns{{"fence", &r.fence}, {"entity", &r.entity}, {"clock", &r.clock}, {"kind", &r.kind}, {"epoch", &r.epoch}, {"from_value", &r.from},
		{"to_value", &r.to}, {"reason", &r.reason}}
	return r
}

// line returns the columns that name the version line: the parameters of backfillsReplace.
func (r *backfillRows) line() columns { return r.columns[:3] }

// addBackfill adds a request for what is missing on a version line.
func (w *writer) addBackfill(k *partitionBatch, q gate.Request) {
	r := w.backfillRequests
	r.fence.Add(k.Claim.ID)
	r.entity.Add(string(q.VersionLine.Entity))
	r.clock.Add(q.VersionLine.Clock)
	r.kind.Add(string(q.Before.Kind))
	r.epoch.Add(q.Before.Epoch)
	r.from.Add(q.From)
	r.to.Add(q.To)
	r.reason.Add(string(q.Reason))
}

// bufferRows are events that wait, or are held: the parameters of bufferInsert.
type bufferRows struct {
	columns
	fence, leaderEpoch, sub                pg.Int32s
	offset, epoch, value, first            pg.Int64s
	appended, received                     pg.Times
	key, hash                              pg.UUIDs
	deleted, filtered, unmatched, backfill pg.Bools
	repeats                                pg.Bools
	versionText, decision, stage, payload  pg.Texts
	kind, entity, clock                    pg.Texts
	source, id, eventType                  pg.Texts
	packed                                 pg.Blobs
}

func newBufferRows() *bufferRows {
	r := &bufferRows{}
	r.columns = columns{{"fence", &r.fence}, {"log_offset", &r.offset}, {"leader_epoch", &r.leaderEpoch}, {"append_time", &r.appended},
		{"received_at", &r.received}, {"event_key", &r.key}, {"hash", &r.hash}, {"epoch", &r.epoch}, {"value", &r.value}, {"version_text", &r.versionText},
		{"sub", &r.sub}, {"first", &r.first}, {"deleted", &r.deleted}, {"filtered", &r.filtered}, {"unmatched", &r.unmatched}, {"backfill", &r.backfill}, {"repeats", &r.repeats}, {"decision", &r.decision},
		{"stage", &r.stage}, {"payload", &r.payload}, {"kind", &r.kind}, {"entity", &r.entity}, {"clock", &r.clock}, {"source", &r.source},
		{"event_id", &r.id}, {"type", &r.eventType}, {"packed", &r.packed}}
	return r
}

// addBuffered adds a row for an event that waits: of is its record, g what the gate keeps of it.
func (w *writer) addBuffered(k *partitionBatch, of *Record, g *gate.Waiting, decision string) {
	r := w.buffer
	r.fence.Add(k.Claim.ID)
	r.offset.Add(g.Offset)
	r.leaderEpoch.Add(of.LeaderEpoch)
	r.appended.Add(g.AppendTime)
	r.received.Add(of.ReceivedAt)
	r.key.Add(g.Key)
	r.hash.Add(g.Hash)
	r.epoch.Add(g.Version.Epoch)
	r.value.Add(g.Version.Value)
	r.versionText.Add(g.Version.Text)
	r.sub.Add(g.Version.Sub)
	if g.First == nil {
		r.first.Null()
	} else {
		r.first.Add(*g.First)
	}
	r.deleted.Add(g.Deleted)
	r.filtered.Add(g.Filtered)
	r.unmatched.Add(g.Unmatched)
	r.backfill.Add(g.Backfill)
	r.repeats.Add(g.Repeats)
	r.decision.Add(decision)
	r.stage.Add(string(g.Stage))
	r.payload.Add(string(g.Payload))
	r.kind.Add(string(g.Version.Kind))
	r.entity.Add(string(g.Entity))
	r.clock.Add(g.Version.Clock)
	r.source.Add(of.Source)
	r.id.Add(of.ID)
	r.eventType.Add(of.Type)
	r.packed.Add(packedOf(of))
}

// packedOf returns the packed record; empty, never nil, if there are no bytes: the column is NOT NULL.
func packedOf(r *Record) []byte {
	if r.Packed == nil {
		return []byte{}
	}
	if b := r.Packed(); b != nil {
		return b
	}
	return []byte{}
}
