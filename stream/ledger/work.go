package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// work is one slice on its way through a transaction, or one claim whose waits have ended. It is filled anew at every
// try; only rejected and sure survive.
type work struct {
	Slice
	expire   bool         // no records: the overdue lines are decided, or what command says
	command  *Command     // nil: none
	rejected map[int]bool // records whose data the database refused; true: their bytes as well
	sure     bool         // the current window is asked for every event

	*scratch // from settle's begin to its end
	fenced   bool
	stored   storedProgress
	state    *gate.State
	writing  []*cachedLine // rows that were behind and are written
	entered  map[int64]int // offset to index, of records that entered the buffer; nil: none
	freed    []release     // out of the buffer, or parked in it
	parked   map[int64]int // offset to index, of those that are parked; nil: none
	held     map[int64]held
	about    *gate.Waiting // the event that the command is about
	laneAt   int64         // first lane_seq of this work
	laneEnd  int64         // behind the last
	window   int32         // into which its actions are written

	applied Applied
}

// storedProgress is the progress row as the first round trip read it.
type storedProgress struct {
	next, high, revision int64
}

// lineMark is a line before the gate's call, to tell afterwards what has changed.
type lineMark struct {
	exists  bool
	line    gate.Line
	waiting []waitMark
}

type waitMark struct {
	offset   int64
	decision gate.Decision
	stage    gate.Stage
}

// verdict is the last word on a record: one that was buffered may have been released in the same call.
type verdict struct {
	gate.Outcome
	duplicates int32
	laneSeq    int64
	actions    int32
}

// release is the last word on an event that waited before the call.
type release struct {
	waited  *gate.Waiting
	outcome gate.Outcome
	laneSeq int64
	actions int32
}

// held is what the buffer's row knows that the gate does not.
type held struct {
	window      int32
	leaderEpoch int32
	source, id  string
	eventType   string
	copied      bool
	packed      []byte // nil where the read had no room for it
}

// reset makes the work ready for a try.
func (w *work) reset() {
	*w = work{Slice: w.Slice, expire: w.expire, command: w.command, rejected: w.rejected, sure: w.sure, scratch: w.scratch, applied: Applied{Claim: w.Claim}}
	w.scratch.reset()
	w.state = &gate.State{Lines: w.begun, Waiting: map[gate.LineKey][]gate.Waiting{}}
	w.laneAt = w.Claim.laneSeq
}

// refuse says why nothing of the work is written.
func (w *work) refuse(err error) { w.applied = Applied{Claim: w.Claim, Refused: err} }

// giveBack lets go of what nobody needs after settle.
func (w *work) giveBack() {
	scratches.Put(w.scratch)
	w.scratch, w.state = nil, nil
}

// touch meets the lines of the records.
func (w *work) touch() {
	n := len(w.Records)
	w.keyOf, w.keys, w.cached = sized(w.keyOf, n), slices.Grow(w.keys, n), slices.Grow(w.cached, n)
	begun := w.Claim.cache.turn + 1
	w.Claim.cache.turn = begun
	unknown := map[gate.LineKey]int32{}
	for i := range w.Records {
		if w.broken(i) {
			w.keyOf[i] = -1
			continue
		}
		r := &w.Records[i]
		k := gate.LineKey{Entity: r.Entity, Clock: r.Version.Clock}
		l := w.Claim.cache.find(k)
		var (
			n   int32
			met bool
		)
		if l != nil {
			n, met = l.place, l.turn == begun
		} else {
			n, met = unknown[k]
		}
		if !met {
			n = w.meet(k, l)
		}
		switch {
		case met:
		case l != nil:
			l.turn, l.place = begun, n
		default:
			unknown[k] = n
		}
		w.keyOf[i] = n
	}
}

// broken reports whether nothing of record i is read but that it is to be quarantined.
func (w *work) broken(i int) bool {
	_, bad := w.rejected[i]
	return bad || w.Records[i].Broken != ""
}

// meet adds a line to those of the work, as the cache has it, if it has it, and returns its place among them.
func (w *work) meet(k gate.LineKey, l *cachedLine) int32 {
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

func compareKeys(a, b gate.LineKey) int {
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

// mark remembers the lines as they are before the gate changes them in place.
func (w *work) mark() {
	w.lines = zeroed(w.lines, len(w.keys))
	for i, k := range w.keys {
		m := &w.lines[i]
		if l := w.line(i); l != nil {
			m.exists, m.line = true, *l
			m.line.Skipped = slices.Clone(l.Skipped)
		}
		if waiting := w.waiting(k); len(waiting) > 0 {
			m.waiting = make([]waitMark, len(waiting))
			for i := range waiting {
				m.waiting[i] = waitMark{waiting[i].Offset, waiting[i].Decision, waiting[i].Stage}
			}
		}
	}
}

// line is line i as it was read, from the cache or the table; nil where it has not begun.
func (w *work) line(i int) *gate.Line {
	if l := w.cached[i]; l != nil {
		return l.line
	}
	return w.state.Lines[w.keys[i]]
}

// waiting is what waits on a line, which nearly always is nothing on any.
func (w *work) waiting(k gate.LineKey) []gate.Waiting {
	if len(w.state.Waiting) == 0 {
		return nil
	}
	return w.state.Waiting[k]
}

// decide calls the gate. seen is shared by the whole batch, so that one event in two partitions runs once.
func (w *work) decide(seen map[schemas.EventKey]gate.Seen) {
	p := w.Claim.policy
	w.state.Seen = seen
	w.state.Buffered, w.state.BufferedBytes = w.Claim.buffered, w.Claim.bytes
	w.mark()
	if w.command != nil {
		w.obey(p)
		return
	}
	if w.expire {
		w.applied.Outcomes = gate.Expire(w.state, w.keys, p)
		return
	}
	w.gated = sized(w.gated, len(w.Records))
	for i := range w.Records {
		w.gated[i] = w.Records[i].Record
		if _, bad := w.rejected[i]; bad {
			w.gated[i] = gate.Record{Offset: w.gated[i].Offset, Broken: gate.ReasonDataRejected}
			w.applied.Quarantined = append(w.applied.Quarantined, i)
		}
	}
	w.applied.Outcomes = gate.Decide(w.state, w.gated, p)
}

// conclude gathers the last word on every record and every released event, and gives the lane_seq in outcome order.
func (w *work) conclude(actions int) {
	w.final = zeroed(w.final, len(w.Records))
	laneSeq := w.laneAt
	for _, o := range w.applied.Outcomes {
		var first int64
		var n int32
		if o.Decision.Runs() && actions > 0 {
			first, n = laneSeq, int32(actions)
			laneSeq += int64(actions)
		}
		switch {
		case o.Record >= 0:
			w.final[o.Record] = verdict{Outcome: o, laneSeq: first, actions: n}
			if !o.Held && (o.Decision == gate.Buffered || o.Decision == gate.Parked) {
				w.enter(o.Record)
			}
		default:
			if i, own := w.entered[o.Released.Offset]; own {
				v := &w.final[i]
				v.Outcome, v.laneSeq, v.actions = o, first, n
				continue
			}
			w.free(release{waited: o.Released, outcome: o, laneSeq: first, actions: n})
		}
	}
	w.laneEnd = laneSeq
}

// free notes what became of an event that waited. One that is parked and let go in the same call has one row to write.
func (w *work) free(f release) {
	offset := f.waited.Offset
	if i, again := w.parked[offset]; again {
		w.freed[i] = f
		return
	}
	if f.outcome.Decision == gate.Parked {
		if w.parked == nil {
			w.parked = map[int64]int{}
		}
		w.parked[offset] = len(w.freed)
	}
	w.freed = append(w.freed, f)
}

// enter notes that a record has entered the buffer. Its offset alone does not tell: after a rewind the place may be
// taken by its first reading, which leaves the buffer before it is decided anew (a filtered event whose filter was
// mended) or makes it a duplicate, which enters nothing.
func (w *work) enter(i int) {
	if w.entered == nil {
		w.entered = map[int64]int{}
	}
	w.entered[w.Records[i].Offset] = i
}

// settle puts what was committed into the claim.
func (w *work) settle() {
	c := w.Claim
	for i, k := range w.keys {
		line, waiting := w.now[i], w.waiting(k)
		c.waiting += len(waiting) - len(w.lines[i].waiting)
		if line == nil && len(waiting) == 0 {
			c.cache.drop(k)
			continue
		}
		l := w.cached[i]
		if l == nil || l.gone {
			l = c.cache.put(k, line, waiting)
		} else {
			l.line, l.waiting = line, waiting
		}
		if w.later[i] {
			c.behind.add(l, w.laneAt)
		}
	}
	c.behind.written(w.writing)
	if w.laneEnd > c.laneSeq {
		c.extend(c.laneSeq, w.laneEnd, w.window, w.rowed())
	}
	c.laneSeq = w.laneEnd
	c.buffered, c.bytes = w.state.Buffered, w.state.BufferedBytes
	c.revision++
	if !w.expire {
		c.Next = w.Next
	}
	w.applied.Waiting = c.buffered > 0
	w.applied.Asked = len(w.state.Wanted()) > 0
}

// rowed are the lane_seqs whose actions have a row from the start: their events left the gap buffer, or are dead letters.
func (w *work) rowed() (rows []int64) {
	for i := range w.freed {
		for a := range int64(w.freed[i].actions) {
			rows = append(rows, w.freed[i].laneSeq+a)
		}
	}
	for i := range w.final {
		for a := range int64(w.final[i].actions) {
			if w.final[i].Dead {
				rows = append(rows, w.final[i].laneSeq+a)
			}
		}
	}
	return rows
}

// setAside reports whether what waited at an offset was set aside for a person.
func (w *work) setAside(offset int64) bool {
	return slices.ContainsFunc(w.freed, func(f release) bool { return f.outcome.Held && f.waited.Offset == offset })
}

// discard forgets the touched lines: the gate has advanced them in place and nothing was committed. Those whose rows are
// behind are brought back to what they were.
func (w *work) discard() {
	for _, l := range w.writing {
		l.writing = notWriting
	}
	for i, k := range w.keys {
		if i >= len(w.cached) || w.cached[i] == nil || w.cached[i].since == 0 {
			w.Claim.cache.drop(k)
			continue
		}
		if i < len(w.lines) {
			was := w.lines[i].line
			was.Skipped = slices.Clone(was.Skipped)
			w.cached[i].line, w.cached[i].waiting = &was, nil
		}
	}
}
