package ledger

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// writer gathers the rows of a batch, column by column, and queues the second round trip.
type writer struct {
	n   *Namespace
	win *windowSet

	events, words           eventRows // whose versions are numbers, or texts
	asides                  rows
	dead                    rows // actions that are dead letters at once
	begun, advanced, turned rows // lines that are new, that moved on, that changed otherwise
	buffer, moved, left     rows
	loose                   rows // actions of events that leave the buffer
	progress                rows
	// By window.
	duplicates, decided map[int32]*rows
	asked               rows // backfills
	forget              rows
}

// rows are the columns of one statement; cols[0] counts.
type rows []*column

func (r rows) n() int32 {
	if len(r) == 0 {
		return 0
	}
	return r[0].n
}

func (r rows) params(first ...[]byte) [][]byte {
	out := slices.Clone(first)
	for _, c := range r {
		out = append(out, c.param())
	}
	return out
}

// writers are used again: a batch's columns weigh half a MiB.
var writers = sync.Pool{New: func() any { return makeWriter() }}

func newWriter(n *Namespace, win *windowSet) *writer {
	w := writers.Get().(*writer)
	w.n, w.win, w.duplicates, w.decided = n, win, map[int32]*rows{}, map[int32]*rows{}
	return w
}

// free gives the writer back. What it queued has been sent.
func (w *writer) free() {
	w.n, w.win, w.duplicates, w.decided = nil, nil, nil, nil
	w.events.reset()
	w.words.reset()
	for _, r := range []rows{w.asides, w.dead, w.begun, w.advanced, w.turned, w.buffer, w.moved, w.left, w.loose,
		w.progress, w.asked, w.forget} {
		for _, c := range r {
			c.reset()
		}
	}
	writers.Put(w)
}

func makeWriter() *writer {
	return &writer{
		words: eventRows{word: true},
		dead:  rows{int32Column(0), int64Column(0), uuidColumn(0), int32Column(0), bytesColumn(0)},
		asked: rows{int32Column(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), textColumn(0)},
		asides: rows{int32Column(0), int64Column(0), int32Column(0), uuidColumn(0), uuidColumn(0), uuidColumn(0), timeColumn(), textColumn(0),
			textColumn(0), textColumn(0), int64Column(0), int64Column(0), textColumn(0), int32Column(0), textColumn(0), textColumn(0),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), bytesColumn(0)},
		loose: rows{int32Column(0), int64Column(0), uuidColumn(0), int32Column(0), int32Column(0), int64Column(0), boolColumn(0)},
		begun: lineRows(), turned: lineRows(),
		advanced: rows{int32Column(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int32Column(0), uuidColumn(0), int64Column(0)},
		buffer: rows{int32Column(0), int64Column(0), int32Column(0), timeColumn(), timeColumn(), uuidColumn(0), uuidColumn(0),
			int64Column(0), int64Column(0), textColumn(0), int32Column(0), int64Column(0), boolColumn(0), boolColumn(0), boolColumn(0),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0),
			textColumn(0), bytesColumn(0)},
		moved:    rows{int32Column(0), int64Column(0), textColumn(0), textColumn(0)},
		left:     rows{int32Column(0), int64Column(0)},
		progress: rows{int32Column(0), int64Column(0), int32Column(0), int64Column(0), timeColumn(), int64Column(0)},
		forget:   rows{int32Column(0), int64Column(0)},
	}
}

func lineRows() rows {
	return rows{int32Column(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int32Column(0), uuidColumn(0),
		boolColumn(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0)}
}

// work writes one work's rows. seenAt tells in which window an event is that was known before the batch; again counts
// the batch's duplicates of each event, and is emptied as they are written: an UPDATE takes one row per event.
func (w *writer) work(k *work, seenAt map[schemas.EventKey]int32, again map[schemas.EventKey]int32) {
	rewound := k.stored.high > k.stored.next
	for i := range k.final {
		v, r := &k.final[i], &k.Records[i]
		switch {
		case v.Decision == gate.Duplicate:
			if window, ok := seenAt[r.Key]; ok && again[r.Key] > 0 {
				w.duplicate(window, r.Key, again[r.Key])
				delete(again, r.Key)
			}
			continue
		case v.Decision == gate.Conflict, v.Decision == gate.Quarantined, v.Decision == gate.Filtered, r.Filtered:
			w.aside(k, i)
		default:
			v.duplicates = again[r.Key]
			w.event(k, r, v)
			if v.Held {
				held := gate.Waiting{Record: r.Record}
				held.Version = v.Version // as the line took it
				w.buffered(k, r, &held, rowHeld)
			}
			if v.Dead {
				w.deadOnes(k, r, v)
			}
		}
		if rewound && r.Offset < k.stored.high {
			w.forget[0].int32(k.Claim.ID)
			w.forget[1].int64(r.Offset)
		}
	}
	for i := range k.freed {
		w.freed(k, &k.freed[i])
	}
	w.lines(k)
	w.move(k)
	if k.heldOne() && len(k.freed) > 0 {
		w.left[0].int32(k.Claim.ID)
		w.left[1].int64(k.about.Offset)
	}
	for _, q := range k.state.Wanted() {
		w.ask(k, q)
	}
}

func (w *writer) duplicate(window int32, key schemas.EventKey, times int32) {
	d := w.duplicates[window]
	if d == nil {
		d = &rows{uuidColumn(8), int32Column(8)}
		w.duplicates[window] = d
	}
	(*d)[0].uuid(key)
	(*d)[1].int32(times)
}

func laneSeqOrNull(c *column, v int64) {
	if v == 0 {
		c.null()
		return
	}
	c.int64(v)
}

func (w *writer) aside(k *work, i int) {
	r, v, c := &k.Records[i], &k.final[i], w.asides
	decision, reason := v.Decision, v.Reason
	if decision != gate.Conflict && decision != gate.Quarantined && decision != gate.Filtered {
		decision, reason = gate.Filtered, gate.ReasonType // it waits for its place on the line, and will not run
	}
	bare, bad := k.rejected[i]
	known := decision != gate.Quarantined || reason == gate.ReasonMisplaced // nothing of any other is to be trusted
	c[0].int32(k.Claim.ID)
	c[1].int64(r.Offset)
	c[2].int32(r.LeaderEpoch)
	switch {
	case !known:
		c[3].null()
		c[4].null()
		c[5].null()
	case decision == gate.Conflict:
		c[3].uuid(r.Key)
		c[4].uuid(r.Hash)
		c[5].uuid(k.state.Seen[r.Key].Hash)
	default:
		c[3].uuid(r.Key)
		c[4].uuid(r.Hash)
		c[5].null()
	}
	if r.ReceivedAt.IsZero() {
		c[6].null()
	} else {
		c[6].time(r.ReceivedAt)
	}
	c[7].text(string(decision))
	c[8].text(string(reason))
	if known {
		identity(c[9:], v.Version, string(r.Entity), r.Source, r.ID, r.Type)
	} else {
		identity(c[9:], schemas.Version{Kind: schemas.None}, "", clean(r.Source, 512), clean(r.ID, 512), clean(r.Type, 512))
	}
	switch {
	case bad && r.Error == "":
		c[19].text("the database refused the record's data")
	case r.Error == "":
		c[19].null()
	default:
		c[19].text(clean(r.Error, 4096))
	}
	if decision == gate.Filtered || bare || r.Packed == nil {
		c[20].null()
	} else {
		c[20].bytes(r.Packed())
	}
}

// identity fills kind, epoch, value, word, sub, clock, entity, source, event id and type.
func identity(c rows, v schemas.Version, entity, source, id, eventType string) {
	c[0].text(string(v.Kind))
	c[1].int64(v.Epoch)
	c[2].int64(v.Value)
	c[3].text(v.Word)
	c[4].int32(v.Sub)
	c[5].text(v.Clock)
	c[6].text(entity)
	c[7].text(source)
	c[8].text(id)
	c[9].text(eventType)
}

// freed tells what became of an event that waited before the batch, in whichever window its row is.
func (w *writer) freed(k *work, f *release) {
	if f.waited.Filtered {
		return // its row says filtered from the start
	}
	h := k.held[f.waited.Offset]
	d := w.decided[h.window]
	if d == nil {
		d = &rows{uuidColumn(8), textColumn(8), textColumn(8), int64Column(8), int64Column(8), int64Column(8), int32Column(8)}
		w.decided[h.window] = d
	}
	c := *d
	c[0].uuid(f.waited.Key)
	c[1].text(string(f.outcome.Decision))
	c[2].text(string(f.outcome.Reason))
	c[3].int64(f.outcome.Version.Epoch)
	c[4].int64(f.outcome.Version.Value)
	laneSeqOrNull(c[5], f.laneSeq)
	c[6].int32(f.actions)
	for i := range f.actions {
		l := w.loose
		l[0].int32(k.Claim.ID)
		l[1].int64(f.laneSeq + int64(i))
		l[2].uuid(f.waited.Key)
		l[3].int32(h.window)
		l[4].int32(w.n.effects[i])
		l[5].int64(f.waited.Offset)
		l[6].bool(f.outcome.Dead)
	}
}

// lines writes the lines that the gate has changed, now or later, and those whose time to be written has come.
func (w *writer) lines(k *work) {
	k.movers()
	k.lags(w.n.lag)
	k.later, k.now = make([]bool, len(k.keys)), make([]*gate.Line, len(k.keys))
	for i, key := range k.keys {
		k.now[i] = k.state.Lines[key]
		w.line(k, i)
	}
	for _, l := range k.writing {
		if l.writing == due {
			l.writing = queued
			w.advance(k, l.key, l.line)
		}
	}
}

// line writes a line that the gate has changed. One that waits for fillers is never left behind.
func (w *writer) line(k *work, i int) {
	key, was, h := k.keys[i], &k.lines[i], k.cached[i]
	l := k.now[i]
	if l == nil {
		return
	}
	behind := h != nil && h.since != 0
	now := behind && (h.writing == due || len(k.waiting(key)) > 0)
	if !now && was.exists && sameLine(l, &was.line) {
		return
	}
	moved := was.exists && l.At.Word == "" && onlyMoved(l, &was.line)
	if moved && !now && w.n.lag > 0 && len(k.waiting(key)) == 0 && k.told(i, l) {
		k.later[i] = true
		return
	}
	if behind {
		k.catchUp(h, queued)
	}
	c := w.begun
	switch {
	case moved:
		w.advance(k, key, l)
		return
	case was.exists:
		c = w.turned
	}
	c[0].int32(k.Claim.ID)
	c[1].text(string(key.Entity))
	c[2].text(key.Clock)
	c[3].text(string(l.At.Kind))
	c[4].int64(l.At.Epoch)
	c[5].int64(l.At.Value)
	c[6].int32(l.At.Sub)
	c[7].uuid(l.Key)
	c[8].bool(l.Filtered)
	if l.Parked == "" {
		c[9].null()
	} else {
		c[9].text(string(l.Parked))
	}
	if len(l.Skipped) == 0 {
		c[10].null()
	} else {
		c[10].text(spansText(l.Skipped))
	}
	c[11].text(l.At.Word)
	c[12].int64(k.laneEnd)
}

// advance writes what nearly every event does to its line.
func (w *writer) advance(k *work, key gate.LineKey, l *gate.Line) {
	c := w.advanced
	c[0].int32(k.Claim.ID)
	c[1].text(string(key.Entity))
	c[2].text(key.Clock)
	c[3].int64(l.At.Epoch)
	c[4].int64(l.At.Value)
	c[5].int32(l.At.Sub)
	c[6].uuid(l.Key)
	c[7].int64(k.laneEnd)
}

func onlyMoved(a, b *gate.Line) bool {
	return a.At.Kind == b.At.Kind && a.At.Clock == b.At.Clock && a.Filtered == b.Filtered && a.Parked == b.Parked &&
		slices.Equal(a.Skipped, b.Skipped)
}

func sameLine(a, b *gate.Line) bool {
	return a.At == b.At && a.Key == b.Key && a.Filtered == b.Filtered && a.Parked == b.Parked && slices.Equal(a.Skipped, b.Skipped)
}

// spansText is a bigint[] as text: from, to, from, to.
func spansText(spans []gate.Span) string {
	b := []byte{'{'}
	for i, s := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.From, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, s.To, 10)
	}
	return string(append(b, '}'))
}

// move brings the buffer's rows to what waits now: new ones in, changed ones on, released ones out. After an expiry
// what still waits on the line waits for another gap, with a deadline of its own.
func (w *writer) move(k *work) {
	for i, key := range k.keys {
		was, now := k.lines[i].waiting, k.waiting(key)
		if len(was) == 0 && len(now) == 0 {
			continue
		}
		before := make(map[int64]waitMark, len(was))
		for _, m := range was {
			before[m.offset] = m
		}
		for n := range now {
			if r, entered := k.entered[now[n].Offset]; entered { // the row that was at its place leaves, whatever it said
				w.buffered(k, &k.Records[r], &now[n], string(now[n].Decision))
				continue
			}
			d := before[now[n].Offset]
			delete(before, now[n].Offset)
			if d.decision != now[n].Decision || d.stage != now[n].Stage || k.expire && d.decision == gate.Buffered {
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
	c[4].int64(q.From)
	c[5].int64(q.To)
	c[6].text(string(q.Reason))
}

// deadOnes gives an event's actions their rows: dead letters at once.
func (w *writer) deadOnes(k *work, r *Record, v *verdict) {
	for i := range v.actions {
		c := w.dead
		c[0].int32(k.Claim.ID)
		c[1].int64(v.laneSeq + int64(i))
		c[2].uuid(r.Key)
		c[3].int32(w.n.effects[i])
		c[4].bytes(packedOf(r))
	}
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

// step is one statement: its parameters are lead, and the columns of rows.
type step struct {
	rows rows
	s    statement
	lead [][]byte
}

// queue adds the statements in lock order.
func (w *writer) queue(ctx context.Context, p *pipeline) error {
	waits, window := w.n.waits(), [][]byte{int32Param(w.win.current)}
	var steps []step
	for _, win := range w.win.live {
		if w.forget.n() > 0 {
			steps = append(steps, step{w.forget, w.win.q.forget[win], nil})
		}
		if d := w.duplicates[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.duplicates[win], nil})
		}
		if d := w.decided[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.decided[win], [][]byte{int32Param(w.win.current)}})
		}
	}
	steps = append(steps, w.events.steps(w.win.q.eventsInsert, w.n.plan)...)
	steps = append(steps, w.words.steps(w.win.q.eventsWords, w.n.plan)...)
	steps = append(steps, step{w.asides, w.win.q.asidesInsert, nil},
		step{w.advanced, linesAdvance, window}, step{w.turned, linesUpdate, window}, step{w.begun, linesInsert, window},
		step{w.loose, w.win.q.actionsFreed, nil}, step{w.dead, w.win.q.actionsDead, nil}, step{w.left, bufferDelete, nil},
		step{w.moved, bufferUpdate, waits},
		step{w.buffer, bufferInsert, append(waits, int32Param(w.win.current))},
		step{w.asked[:3], backfillsReplace, nil}, step{w.asked, backfillsInsert, nil},
		// Last: results recorded meanwhile move lane_low in the same row.
		step{w.progress, progressWrite, nil})
	for _, s := range steps {
		if s.rows.n() == 0 {
			continue
		}
		if err := p.add(ctx, s.s, nil, s.rows.params(s.lead...)...); err != nil {
			return err
		}
	}
	return p.add(ctx, commit, nil)
}
