package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// partitionBatch is one partition's part of a transaction: a slice, the ended waits of a claim, or a command. Each try
// fills it again; only refusedData, askAllKeys and whole are kept between tries.
type partitionBatch struct {
	Slice
	expire      bool                         // no records: waits that have ended are decided, or the command
	command     *Command                     // nil: none
	replay      *replayStep                  // not nil: the slice is a part of a replay, and the partition's own position stays
	refusedData map[int]bool                 // by index: records whose data the database refused; true: their bytes as well
	askAllKeys  bool                         // every event is looked up in the current window
	whole       map[gate.VersionLineKey]bool // lines to be read whole; see readLong

	*scratch     // while a try works on it
	fenced       bool
	stored       storedProgress
	state        *gate.State
	writtenLines []*cachedLine // dirty lines that this try writes
	entered      map[int64]int // offset to index, of records that entered the buffer; nil: none
	left         []leftBuffer  // events that left the buffer, or are parked in it now
	parked       map[int64]int // offset to index, of those that are parked; nil: none
	bufferedRows map[int64]bufferedRow
	commandEvent *gate.Waiting // the event that the command is about
	laneAt       int64         // the first lane_seq that this batch gives
	laneEnd      int64         // the one behind the last
	window       int32         // into which its actions are written

	applied Applied
}

// storedProgress is the progress row as the first round trip read it.
type storedProgress struct {
	next, high, revision int64
}

// lineBefore is a version line before the gate's call: what has changed is found by comparing.
type lineBefore struct {
	exists  bool
	line    gate.VersionLine
	waiting []waitingBefore
}

// waitingBefore is an event that waits on a version line before the gate's call.
type waitingBefore struct {
	offset   int64
	decision gate.Decision
	stage    gate.Stage
}

// verdict is the final outcome of a record. One that was buffered may have been released in the same call.
type verdict struct {
	gate.Outcome
	duplicates int32
	laneSeq    int64
	actions    int32
}

// leftBuffer is the final outcome of an event that waited before the call.
type leftBuffer struct {
	waited  *gate.Waiting
	outcome gate.Outcome
	laneSeq int64
	actions int32
}

// bufferedRow is what the gap buffer's row has and the gate does not know.
type bufferedRow struct {
	window      int32
	leaderEpoch int32
	source, id  string
	eventType   string
	copied      bool
	packed      []byte // nil where the read had no room for it
}

// reset makes w ready for a try.
func (w *partitionBatch) reset() {
	*w = partitionBatch{Slice: w.Slice, expire: w.expire, command: w.command, replay: w.replay, refusedData: w.refusedData, askAllKeys: w.askAllKeys, whole: w.whole, scratch: w.scratch, applied: Applied{Claim: w.Claim}}
	w.scratch.reset()
	w.state = &gate.State{Lines: w.begun, Waiting: map[gate.VersionLineKey][]gate.Waiting{}}
	w.laneAt = w.Claim.laneSeq
}

// refuse sets why nothing of w is written.
func (w *partitionBatch) refuse(err error) { w.applied = Applied{Claim: w.Claim, Refused: err} }

// giveBack returns the scratch memory to the pool.
func (w *partitionBatch) giveBack() {
	scratches.Put(w.scratch)
	w.scratch, w.state = nil, nil
}

// collectLines collects the version lines of the records, each once: keyOf says which one is that of a record.
func (w *partitionBatch) collectLines() {
	n := len(w.Records)
	w.keyOf, w.keys, w.cached = sized(w.keyOf, n), slices.Grow(w.keys, n), slices.Grow(w.cached, n)
	turn := w.Claim.cache.turn + 1
	w.Claim.cache.turn = turn
	notCached := map[gate.VersionLineKey]int32{} // index of lines that the cache does not have
	for i := range w.Records {
		if w.broken(i) {
			w.keyOf[i] = -1
			continue
		}
		r := &w.Records[i]
		k := gate.VersionLineKey{Entity: r.Entity, Clock: r.Version.Clock}
		l := w.Claim.cache.find(k)
		if l != nil {
			if l.turn != turn {
				l.turn, l.index = turn, w.addLine(k, l)
			}
			w.keyOf[i] = l.index
			continue
		}
		index, known := notCached[k]
		if !known {
			index = w.addLine(k, nil)
			notCached[k] = index
		}
		w.keyOf[i] = index
	}
}

// broken reports whether record i is to be quarantined. Nothing else of it is read.
func (w *partitionBatch) broken(i int) bool {
	_, bad := w.refusedData[i]
	return bad || w.Records[i].NoEvent()
}

// addLine adds a line to w, with its cached state if there is one, and returns its index.
func (w *partitionBatch) addLine(k gate.VersionLineKey, l *cachedLine) int32 {
	n := int32(len(w.keys))
	w.keys, w.cached = append(w.keys, k), append(w.cached, l)
	if l == nil {
		return n
	}
	if l.line != nil {
		w.state.Lines[k] = l.line
	}
	if len(l.waiting) > 0 {
		w.state.Waiting[k] = l.waiting
	}
	return n
}

// compareKeys orders version lines by entity, then by clock.
func compareKeys(a, b gate.VersionLineKey) int {
	switch {
	case a.Entity != b.Entity:
		if a.Entity < b.Entity {
			return -1
		}
		return 1
	case a.Clock < b.Clock:
		return -1
	case a.Clock > b.Clock:
		return 1
	}
	return 0
}

// snapshotLines copies the lines before the gate changes them in place.
func (w *partitionBatch) snapshotLines() {
	w.before = zeroed(w.before, len(w.keys))
	for i, k := range w.keys {
		m := &w.before[i]
		if l := w.line(i); l != nil {
			m.exists, m.line = true, *l
			m.line.Skipped = slices.Clone(l.Skipped)
		}
		if waiting := w.waiting(k); len(waiting) > 0 {
			if w.cached[i] == nil { // as it was read
				w.state.Sort(k)
			}
			m.waiting = make([]waitingBefore, len(waiting))
			for i := range waiting {
				m.waiting[i] = waitingBefore{waiting[i].Offset, waiting[i].Decision, waiting[i].Stage}
			}
		}
	}
}

// line returns version line i as it was read from the cache or the table; nil if it has not begun.
func (w *partitionBatch) line(i int) *gate.VersionLine {
	if l := w.cached[i]; l != nil {
		return l.line
	}
	return w.state.Lines[w.keys[i]]
}

// waiting returns the events that wait on a version line.
func (w *partitionBatch) waiting(k gate.VersionLineKey) []gate.Waiting {
	if len(w.state.Waiting) == 0 { // nearly always, and cheaper than a look into the map
		return nil
	}
	return w.state.Waiting[k]
}

// decide calls the gate. seen and also are shared by the whole batch: one event in two partitions runs once, and so does what two say.
func (w *partitionBatch) decide(seen map[schemas.EventKey]gate.Seen, also map[gate.Also]gate.Said) {
	p := w.Claim.policy
	w.state.Seen, w.state.Also = seen, also
	w.state.Buffered, w.state.BufferedBytes = w.Claim.buffered, w.Claim.bytes
	w.snapshotLines()
	if w.command != nil {
		w.decideCommand(p)
		return
	}
	if w.expire {
		w.applied.Outcomes = gate.Expire(w.state, w.keys, p)
		return
	}
	w.gated = sized(w.gated, len(w.Records))
	for i := range w.Records {
		w.gated[i] = w.Records[i].Record
		if _, bad := w.refusedData[i]; bad {
			w.gated[i] = gate.Record{Offset: w.gated[i].Offset, Broken: gate.ReasonDataRejected}
			w.applied.Quarantined = append(w.applied.Quarantined, i)
		}
	}
	if w.replay.reprocesses() {
		w.applied.Outcomes = gate.Reprocess(w.state, w.gated, p, w.replay.evenStale, func(k schemas.EventKey) schemas.EventKey { return k.OfGeneration(w.replay.id) })
		return
	}
	if w.replay != nil {
		w.applied.Outcomes = gate.Fill(w.state, w.gated, p)
		return
	}
	w.applied.Outcomes = gate.Decide(w.state, w.gated, p)
}

// gatherVerdicts collects the final outcome of every record and of every waiting event that the gate let go, and gives lane_seqs in the order
// of the outcomes, actions of them to each event that runs. An event that entered the gap buffer and left it in this batch has the later outcome.
func (w *partitionBatch) gatherVerdicts(actions int) {
	w.verdicts = zeroed(w.verdicts, len(w.Records))
	laneSeq := w.laneAt
	for _, o := range w.applied.Outcomes {
		var first int64
		var n int32
		if o.Decision.Runs() && actions > 0 {
			first, n = laneSeq, int32(actions)
			laneSeq += int64(actions)
		}
		if o.Record >= 0 {
			w.verdicts[o.Record] = verdict{Outcome: o, laneSeq: first, actions: n}
			if !o.Held && (o.Decision == gate.Buffered || o.Decision == gate.Parked) {
				w.addEntered(o.Record)
			}
			continue
		}
		if i, enteredNow := w.entered[o.Released.Offset]; enteredNow {
			v := &w.verdicts[i]
			v.Outcome, v.laneSeq, v.actions = o, first, n
			continue
		}
		w.addLeft(leftBuffer{waited: o.Released, outcome: o, laneSeq: first, actions: n})
	}
	w.laneEnd = laneSeq
}

// addLeft adds the outcome of an event that waited. If it is parked and released in the same call, only the last outcome counts.
func (w *partitionBatch) addLeft(f leftBuffer) {
	offset := f.waited.Offset
	if i, ok := w.parked[offset]; ok {
		w.left[i] = f
		return
	}
	if f.outcome.Decision == gate.Parked {
		if w.parked == nil {
			w.parked = map[int64]int{}
		}
		w.parked[offset] = len(w.left)
	}
	w.left = append(w.left, f)
}

// addEntered remembers by its offset that a record entered the gap buffer. After a rewind the same offset may be in the buffer already: then
// that event leaves it before the record is decided (a filtered event whose filter was corrected), or the record is a duplicate and does
// not enter.
func (w *partitionBatch) addEntered(i int) {
	if w.entered == nil {
		w.entered = map[int64]int{}
	}
	w.entered[w.Records[i].Offset] = i
}

// markCommitted takes what was committed over into the claim and its cache.
func (w *partitionBatch) markCommitted() {
	c := w.Claim
	for i, k := range w.keys {
		line, waiting := w.after[i], w.waiting(k)
		c.waiting += len(waiting) - len(w.before[i].waiting)
		if line == nil && len(waiting) == 0 || w.isLong(k) {
			c.cache.drop(k)
			continue
		}
		l := w.cached[i]
		if l == nil || l.gone {
			l = c.cache.put(k, line, waiting)
		} else {
			c.cache.update(l, line, waiting)
		}
		w.lineCommitted(i, l)
	}
	c.dirty.written(w.writtenLines)
	c.cache.shed()
	if w.laneEnd > c.laneSeq {
		c.extend(c.laneSeq, w.laneEnd, w.window, w.withRow())
	}
	c.laneSeq = w.laneEnd
	c.buffered, c.bytes = w.state.Buffered, w.state.BufferedBytes
	c.revision.Add(1)
	if !w.keepsPosition() {
		c.Next = w.Next
	}
	w.applied.Waiting = c.buffered > 0 || slices.ContainsFunc(w.keys, w.state.Releasing)
	w.applied.BackfillRequested = len(w.state.Wanted()) > 0
}

// keepsPosition reports whether the partition's position is not moved: the batch has no records, or those of a replay.
func (w *partitionBatch) keepsPosition() bool { return w.expire || w.replay != nil }

// withRow lists the lane_seqs of actions that have a row from the start: their event left the gap buffer, or they are dead
// letters.
func (w *partitionBatch) withRow() (rows []int64) {
	for i := range w.left {
		for a := range int64(w.left[i].actions) {
			rows = append(rows, w.left[i].laneSeq+a)
		}
	}
	for i := range w.verdicts {
		for a := range int64(w.verdicts[i].actions) {
			if w.verdicts[i].Dead {
				rows = append(rows, w.verdicts[i].laneSeq+a)
			}
		}
	}
	return rows
}

// discard drops the version lines of w from the cache: the gate has changed them in place, and nothing was committed. Dirty lines
// exist nowhere else, and are set back to what they were.
func (w *partitionBatch) discard() {
	for i, k := range w.keys {
		if i >= len(w.cached) || w.cached[i] == nil || !w.cached[i].dirty() {
			w.Claim.cache.drop(k)
		}
	}
	w.linesDiscarded()
}
