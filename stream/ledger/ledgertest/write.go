package ledgertest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// commit writes a decided batch. It cannot fail. The caller holds mu.
func (p *Process) commit(parts []*partitionBatch) {
	copies := packedOfLeft(parts)
	for _, w := range parts {
		if w.fenced {
			continue
		}
		w.applied.Actions = p.actions(w, copies)
		for i := range w.verdicts {
			p.writeRecord(w, i)
		}
		for i := range w.left {
			p.writeLeft(w, &w.left[i])
		}
		for _, k := range w.keys {
			if l := w.state.Lines[k]; l != nil {
				w.f.lines[k] = l
			}
		}
		p.syncBuffer(w)
		p.progress(w)
	}
}

// maxCopies bounds the payload copies that one read brings, in bytes.
const maxCopies = 8 << 20

type place struct {
	fence  int32
	offset int64
}

// packedOfLeft returns the payload copies of the events that leave the buffer, up to maxCopies bytes.
func packedOfLeft(parts []*partitionBatch) map[place][]byte {
	type row struct {
		place
		w *wait
	}
	var rows []row
	for _, w := range parts {
		for i := range w.left {
			at := w.left[i].waited.Offset
			rows = append(rows, row{place{w.f.id, at}, w.f.waits[at]})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(a.w.Version.Compare(b.w.Version), cmp.Compare(a.offset, b.offset), cmp.Compare(a.fence, b.fence))
	})
	out := map[place][]byte{}
	sum := 0
	for _, r := range rows {
		if sum += len(r.w.packed); sum <= maxCopies {
			out[r.place] = r.w.packed
		}
	}
	return out
}

// writeRecord writes the row of a record, by its final outcome.
func (p *Process) writeRecord(w *partitionBatch, i int) {
	m, v, r := p.m, &w.verdicts[i], &w.Records[i]
	switch {
	case v.Reason == gate.ReasonSeen:
		if e := m.events[r.Key]; e != nil && r.Offset >= w.f.high {
			e.duplicates++
		}
		return
	case v.Decision == gate.Conflict, v.Decision == gate.Quarantined, v.Decision == gate.Filtered, r.Filtered:
		w.addRejected(i)
		if v.Held { // nothing that is filtered is
			panic("a filtered event is held")
		}
		return
	}
	delete(w.f.rejected, r.Offset)
	e := &event{Record: *r, fence: w.f.id, decision: v.Decision, reason: v.Reason, version: v.Version, payload: p.payload(r.Payload)}
	m.events[r.Key] = e
	p.giveActions(w, e, v.laneSeq, v.Dead, v.Dead, packedOf(r))
	if v.Held {
		held := gate.Waiting{Record: r.Record, Decision: gate.Parked}
		held.Version = v.Version
		p.enterBuffer(w, i, held, true)
	}
}

// giveActions gives an event its actions. withRow says that they have rows, with a copy.
func (p *Process) giveActions(w *partitionBatch, e *event, laneSeq int64, withRow, dead bool, packed []byte) {
	if laneSeq == 0 {
		return
	}
	e.laneSeq, e.effects = laneSeq, p.spec.Actions
	for i, s := range p.spec.Actions {
		a := &action{laneSeq: laneSeq + int64(i), event: e, effect: s, withRow: withRow, status: ledger.Pending, made: p.m.now()}
		if withRow {
			w.withRow = append(w.withRow, a.laneSeq)
			if len(packed) > 0 {
				a.packed = packed
			}
		}
		if dead {
			a.status, a.class, a.err, a.finished = ledger.Dead, ledger.DeadClass, "stood behind a gap that was given up", p.m.now()
		}
		w.f.actions[a.laneSeq] = a
	}
}

// addRejected keeps a rejected record by its offset.
func (w *partitionBatch) addRejected(i int) {
	r, v := &w.Records[i], &w.verdicts[i]
	a := rejectedRecord{v.Decision, v.Reason, ledger.Clean(r.ID, 512), nil}
	if v.Decision != gate.Conflict && v.Decision != gate.Quarantined {
		a.decision, a.reason = gate.Filtered, r.FilteredBy()
	}
	if a.decision != gate.Filtered && r.Packed != nil {
		a.raw = r.Packed()
	}
	w.f.rejected[r.Offset] = a
}

// writeLeft writes the outcome of an event that waited.
func (p *Process) writeLeft(w *partitionBatch, r *leftBuffer) {
	if r.waited.Filtered {
		return // it is a rejected record from the start
	}
	e, v := p.m.events[r.waited.Key], w.f.waits[r.waited.Offset]
	if e == nil {
		return
	}
	e.decision, e.reason = r.outcome.Decision, r.outcome.Reason
	e.version.Epoch, e.version.Value = r.outcome.Version.Epoch, r.outcome.Version.Value
	p.giveActions(w, e, r.laneSeq, true, r.outcome.Dead, v.packed)
}

// syncBuffer brings the gap buffer to what waits now: it deletes what left, changes what changed and adds what entered. A row
// that does not change keeps its deadline; where a backfill is asked for, the line's rows get its deadline.
func (p *Process) syncBuffer(w *partitionBatch) {
	wanted := w.state.Wanted()
	asks := map[gate.VersionLineKey]bool{}
	for _, q := range wanted {
		asks[q.VersionLine] = true
	}
	var gone []int64
	var stays, enters []gate.Waiting
	var held []int64
	for _, k := range w.keys {
		before := map[int64]gate.Waiting{}
		for _, v := range w.before[k] {
			before[v.Offset] = v
		}
		for _, now := range w.state.Waiting[k] {
			if _, entered := w.entered[now.Offset]; entered {
				enters = append(enters, now)
				continue
			}
			was := before[now.Offset]
			delete(before, now.Offset)
			if was.Decision != now.Decision || was.Stage != now.Stage || asks[k] {
				stays = append(stays, now)
			}
		}
		for offset := range before {
			if slices.ContainsFunc(w.left, func(r leftBuffer) bool { return r.outcome.Held && r.waited.Offset == offset }) {
				held = append(held, offset)
			} else {
				gone = append(gone, offset)
			}
		}
	}
	if w.about != nil && w.about.held && len(w.left) > 0 {
		gone = append(gone, w.about.Offset)
	}
	for _, offset := range gone {
		delete(w.f.waits, offset)
	}
	for _, now := range stays {
		v := w.f.waits[now.Offset]
		v.Decision, v.Stage = now.Decision, now.Stage
		v.deadline = p.deadline(v)
	}
	for _, offset := range held {
		v := w.f.waits[offset]
		v.held, v.Decision, v.Stage, v.deadline = true, gate.Parked, gate.Filling, time.Time{}
	}
	for _, now := range enters {
		p.enterBuffer(w, w.entered[now.Offset], now, false)
	}
	for _, q := range wanted {
		p.addBackfill(w, q)
	}
}

// enterBuffer puts a record into the gap buffer.
func (p *Process) enterBuffer(w *partitionBatch, i int, as gate.Waiting, held bool) {
	r := &w.Records[i]
	v := &wait{Waiting: as, held: held, since: p.m.now(), leaderEpoch: r.LeaderEpoch, source: r.Source, id: r.ID, eventType: r.Type, packed: packedOf(r)}
	v.AppendTime = v.AppendTime.Truncate(time.Microsecond)
	v.Size = int64(len(v.packed))
	v.deadline = p.deadline(v)
	w.f.waits[as.Offset] = v
}

// deadline is when the wait of an event ends: never later than its age allows, if that is bounded.
func (p *Process) deadline(v *wait) time.Time {
	if v.Stage == gate.Releasing {
		return p.m.now()
	}
	if v.held || v.Decision != gate.Buffered {
		return time.Time{}
	}
	length := p.spec.Policy.GapWait
	if v.Stage == gate.Backfilling {
		length = p.spec.Policy.BackfillWait
	}
	end := p.m.now().Add(length.Truncate(time.Microsecond))
	if age := p.spec.MaxAge; age > 0 && v.since.Add(age).Before(end) {
		end = v.since.Add(age)
	}
	return end
}

// packedOf is never nil.
func packedOf(r *ledger.Record) []byte {
	if r.Packed == nil {
		return []byte{}
	}
	if b := r.Packed(); b != nil {
		return b
	}
	return []byte{}
}

// progress moves the position on.
func (p *Process) progress(w *partitionBatch) {
	f := w.f
	f.revision++
	f.laneSeq = w.laneEnd
	if !w.positionStays() {
		f.next = w.Next
		f.high = max(f.high, w.Next.Offset)
		if n := len(w.Records); n > 0 {
			f.processed = later(f.processed, p.m.past(w.Records[n-1].AppendTime))
		}
	}
	w.applied.Waiting = w.state.Buffered > 0 || slices.ContainsFunc(w.keys, w.state.Releasing)
	w.applied.BackfillRequested = len(w.state.Wanted()) > 0
	if w.command != nil {
		if c := p.m.command(w.command.ID); c != nil && !c.ended && c.Detail.Of == w.command.Detail.Of {
			did := c.Detail.After(w.applied.Outcomes)
			if left := w.state.Waiting[c.VersionLine]; len(left) > 0 && w.about != nil && !w.about.held && c.Kind == ledger.Release {
				last := &left[len(left)-1]
				c.Offset, c.key, c.Detail = last.Offset, last.Key, did
				return
			}
			c.end(p.m, did.Outcome(len(w.applied.Outcomes)), w.Claim.Epoch)
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// payload is the kind of an event's payload as it is written down: empty where lanes do not ask for it.
func (p *Process) payload(k schemas.PayloadKind) schemas.PayloadKind {
	switch {
	case !p.spec.Latest:
		return ""
	case k == schemas.Snapshot:
		return schemas.Snapshot
	}
	return schemas.Delta
}

// actions are the new open actions of a partition, in lane_seq order.
func (p *Process) actions(w *partitionBatch, copies map[place][]byte) []ledger.Action {
	byLane := map[int64]ledger.Action{}
	for i := range w.verdicts {
		v, r := &w.verdicts[i], &w.Records[i]
		if v.laneSeq == 0 || v.Dead {
			continue
		}
		a := p.action(w, &r.Record, &v.Outcome, r.LeaderEpoch)
		a.Source, a.EventID, a.EventType, a.Record = r.Source, r.ID, r.Type, i
		p.fill(byLane, a, v.laneSeq)
	}
	for i := range w.left {
		r := &w.left[i]
		if r.laneSeq == 0 || r.outcome.Dead {
			continue
		}
		v := w.f.waits[r.waited.Offset]
		a := p.action(w, &r.waited.Record, &r.outcome, v.leaderEpoch)
		a.Source, a.EventID, a.EventType, a.Record = v.source, v.id, v.eventType, -1
		a.HasCopy, a.Packed = len(v.packed) > 0, copies[place{w.f.id, r.waited.Offset}]
		p.fill(byLane, a, r.laneSeq)
	}
	var out []ledger.Action
	for _, lane := range slices.Sorted(maps.Keys(byLane)) {
		out = append(out, byLane[lane])
	}
	return out
}

func (p *Process) action(w *partitionBatch, r *gate.Record, o *gate.Outcome, leaderEpoch int32) ledger.Action {
	at := w.Claim.Partition
	return ledger.Action{
		Claim: w.Claim.ID, Entity: r.Entity, Version: o.Version, Late: o.Decision == gate.Late, Payload: p.payload(r.Payload), Reason: o.Reason,
		Pointer: ledger.Pointer{TopicID: at.TopicID, Topic: at.Topic, Partition: at.Number, Offset: r.Offset, LeaderEpoch: leaderEpoch, Key: r.Key, Hash: r.Hash},
		Status:  ledger.Pending,
	}
}

// fill makes an event's actions, one per ActionSpec.
func (p *Process) fill(out map[int64]ledger.Action, a ledger.Action, laneSeq int64) {
	for i, s := range p.spec.Actions {
		a.LaneSeq = laneSeq + int64(i)
		a.ID = schemas.NewActionID(p.spec.Name, p.spec.Generation, a.Source, a.EventID, s.Name)
		a.Name, a.Destination, a.OnDead = s.Name, s.Destination, s.OnDead
		out[a.LaneSeq] = a
	}
}
