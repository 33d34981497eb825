package ledger

import (
	"context"
	"fmt"
	"slices"
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
	again                   bool // some of asides may be in places where something was set aside before
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
	w.n, w.win, w.duplicates, w.decided, w.again = nil, nil, nil, nil, false
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
		asked: rows{int32Column(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int64Column(0), textColumn(0)},
		asides: rows{int32Column(0), int64Column(0), int32Column(0), uuidColumn(0), uuidColumn(0), uuidColumn(0), timeColumn(), textColumn(0),
			textColumn(0), textColumn(0), int64Column(0), int64Column(0), textColumn(0), int32Column(0), textColumn(0), textColumn(0),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), bytesColumn(0)},
		loose: rows{int32Column(0), int64Column(0), uuidColumn(0), int32Column(0), int32Column(0), int64Column(0), boolColumn()},
		begun: lineRows(), turned: lineRows(),
		advanced: rows{int32Column(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int32Column(0), uuidColumn(0), int64Column(0)},
		buffer: rows{int32Column(0), int64Column(0), int32Column(0), timeColumn(), timeColumn(), uuidColumn(0), uuidColumn(0),
			int64Column(0), int64Column(0), textColumn(0), int32Column(0), int64Column(0), boolColumn(), boolColumn(), boolColumn(),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0),
			textColumn(0), bytesColumn(0)},
		moved:    rows{int32Column(0), int64Column(0), textColumn(0), textColumn(0)},
		left:     rows{int32Column(0), int64Column(0)},
		progress: rows{int32Column(0), int64Column(0), int32Column(0), int64Column(0), timeColumn(), int64Column(0)},
		forget:   rows{int32Column(0), int64Column(0)},
	}
}

// work writes one work's rows. seenAt tells in which window an event is that was known before the batch; again counts
// the batch's duplicates of each event, and is emptied as they are written: an UPDATE takes one row per event.
func (w *writer) work(k *work, seenAt map[schemas.EventKey]int32, again map[schemas.EventKey]int32) {
	below := k.Claim.places // places in which something may be set aside
	if k.stored.high > k.stored.next {
		below = max(below, k.stored.high)
	}
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
			w.again = w.again || r.Offset < below
			continue
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
		if r.Offset < below {
			w.forget[0].int32(k.Claim.ID)
			w.forget[1].int64(r.Offset)
		}
	}
	for i := range k.freed {
		w.freed(k, &k.freed[i])
	}
	w.lines(k)
	wanted := k.state.Wanted()
	w.move(k, wanted)
	if k.heldOne() && len(k.freed) > 0 {
		w.left[0].int32(k.Claim.ID)
		w.left[1].int64(k.about.Offset)
	}
	for _, q := range wanted {
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

// step is one statement: its parameters are lead, and the columns of rows.
type step struct {
	rows rows
	s    statement
	lead [][]byte
}

// live refuses rows that would have to be written to a window that is none any more.
func (w *writer) live() error {
	for _, of := range []map[int32]*rows{w.duplicates, w.decided} {
		for window := range of {
			if !slices.Contains(w.win.live, window) {
				return refusal{missedError{fmt.Sprintf("a write to window %d, which is gone,", window)}}
			}
		}
	}
	return nil
}

// queue adds the statements in lock order.
func (w *writer) queue(ctx context.Context, p *pipeline) error {
	if err := w.live(); err != nil {
		return err
	}
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
			steps = append(steps, step{*d, w.win.q.decided[win], [][]byte{int32Param(w.win.current), int32Param(w.n.plan)}})
		}
	}
	steps = append(steps, w.events.steps(w.win.q.eventsInsert, w.n.plan)...)
	steps = append(steps, w.words.steps(w.win.q.eventsWords, w.n.plan)...)
	set := w.win.q.asidesInsert
	if w.again {
		set = w.win.q.asidesAgain
	}
	steps = append(steps, step{w.asides, set, nil},
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
