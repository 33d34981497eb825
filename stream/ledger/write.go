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

	events, textEvents                 eventRows // events whose version is a number; a text
	rejected                           rows
	rejectedBefore                     bool // some of rejected may replace an earlier rejected record
	deadActions                        rows // actions that are dead letters at once
	newLines, movedLines, changedLines rows // version lines: new, moved on, changed otherwise
	buffer, bufferChanges, bufferLeft  rows
	bufferedActions                    rows // actions of events that left the buffer
	progress                           rows
	// By window.
	duplicates, decided map[int32]*rows
	backfillRequests    rows // backfills
	rejectedGone        rows
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

// free returns the writer to the pool, once what it queued has been sent.
func (w *writer) free() {
	w.n, w.win, w.duplicates, w.decided, w.rejectedBefore = nil, nil, nil, nil, false
	w.events.reset()
	w.textEvents.reset()
	for _, r := range []rows{w.rejected, w.deadActions, w.newLines, w.movedLines, w.changedLines, w.buffer, w.bufferChanges, w.bufferLeft, w.bufferedActions,
		w.progress, w.backfillRequests, w.rejectedGone} {
		for _, c := range r {
			c.reset()
		}
	}
	writers.Put(w)
}

func makeWriter() *writer {
	return &writer{
		textEvents:       eventRows{text: true},
		deadActions:      rows{int32Column(0), int64Column(0), uuidColumn(0), int32Column(0), bytesColumn(0)},
		backfillRequests: rows{int32Column(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int64Column(0), textColumn(0)},
		rejected: rows{int32Column(0), int64Column(0), int32Column(0), uuidColumn(0), uuidColumn(0), uuidColumn(0), timeColumn(), textColumn(0),
			textColumn(0), textColumn(0), int64Column(0), int64Column(0), textColumn(0), int32Column(0), textColumn(0), textColumn(0),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), bytesColumn(0)},
		bufferedActions: rows{int32Column(0), int64Column(0), uuidColumn(0), int32Column(0), int32Column(0), int64Column(0), boolColumn()},
		newLines:        lineRows(), changedLines: lineRows(),
		movedLines: rows{int32Column(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int32Column(0), uuidColumn(0), int64Column(0)},
		buffer: rows{int32Column(0), int64Column(0), int32Column(0), timeColumn(), timeColumn(), uuidColumn(0), uuidColumn(0),
			int64Column(0), int64Column(0), textColumn(0), int32Column(0), int64Column(0), boolColumn(), boolColumn(), boolColumn(),
			textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0), textColumn(0),
			textColumn(0), bytesColumn(0)},
		bufferChanges: rows{int32Column(0), int64Column(0), textColumn(0), textColumn(0)},
		bufferLeft:    rows{int32Column(0), int64Column(0)},
		progress:      rows{int32Column(0), int64Column(0), int32Column(0), int64Column(0), timeColumn(), int64Column(0)},
		rejectedGone:  rows{int32Column(0), int64Column(0)},
	}
}

// add adds one partition's rows. seenAt says in which window an event is that was known before the batch. duplicates counts
// the batch's duplicates of each event, and is emptied as they are written: an UPDATE takes one row per event.
func (w *writer) add(k *partitionBatch, seenAt map[schemas.EventKey]int32, duplicates map[schemas.EventKey]int32) {
	// Below this offset a record may be decided again (after a rewind, or in a topic that was created again): it replaces the
	// rejected record of the earlier reading.
	below := k.Claim.places
	if k.stored.high > k.stored.next {
		below = max(below, k.stored.high)
	}
	for i := range k.verdicts {
		v, r := &k.verdicts[i], &k.Records[i]
		switch {
		case v.Decision == gate.Duplicate:
			if window, ok := seenAt[r.Key]; ok && duplicates[r.Key] > 0 {
				w.addDuplicate(window, r.Key, duplicates[r.Key])
				delete(duplicates, r.Key)
			}
			continue
		case v.Decision == gate.Conflict, v.Decision == gate.Quarantined, v.Decision == gate.Filtered, r.Filtered:
			w.addRejected(k, i)
			w.rejectedBefore = w.rejectedBefore || r.Offset < below
			continue
		default:
			v.duplicates = duplicates[r.Key]
			w.addEvent(k, r, v)
			if v.Held {
				held := gate.Waiting{Record: r.Record}
				held.Version = v.Version // epoch set, timestamp clamped
				w.addBuffered(k, r, &held, rowHeld)
			}
			if v.Dead {
				w.addDead(k, r, v)
			}
		}
		if r.Offset < below {
			w.rejectedGone[0].int32(k.Claim.ID)
			w.rejectedGone[1].int64(r.Offset)
		}
	}
	for i := range k.left {
		w.addLeft(k, &k.left[i])
	}
	w.addLines(k)
	wanted := k.state.Wanted()
	w.syncBuffer(k, wanted)
	if k.aboutHeld() && len(k.left) > 0 { // an operator has released or discarded it
		w.bufferLeft[0].int32(k.Claim.ID)
		w.bufferLeft[1].int64(k.about.Offset)
	}
	for _, q := range wanted {
		w.addBackfill(k, q)
	}
}

func (w *writer) addDuplicate(window int32, key schemas.EventKey, times int32) {
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

func (w *writer) addRejected(k *partitionBatch, i int) {
	r, v, c := &k.Records[i], &k.verdicts[i], w.rejected
	decision, reason := v.Decision, v.Reason
	if decision != gate.Conflict && decision != gate.Quarantined && decision != gate.Filtered {
		decision, reason = gate.Filtered, gate.ReasonType // a filtered event that waits only to fill its place
	}
	bare, bad := k.refusedData[i]
	known := decision != gate.Quarantined || reason == gate.ReasonMisplaced // the fields of any other are not to be trusted
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

// identity fills kind, epoch, value, text, sub, clock, entity, source, event id and type.
func identity(c rows, v schemas.Version, entity, source, id, eventType string) {
	c[0].text(string(v.Kind))
	c[1].int64(v.Epoch)
	c[2].int64(v.Value)
	c[3].text(v.Text)
	c[4].int32(v.Sub)
	c[5].text(v.Clock)
	c[6].text(entity)
	c[7].text(source)
	c[8].text(id)
	c[9].text(eventType)
}

// addLeft adds the outcome of an event that waited before the batch, for the window that has its row.
func (w *writer) addLeft(k *partitionBatch, f *leftBuffer) {
	if f.waited.Filtered {
		return // it has a rejected record that says filtered
	}
	h := k.bufferedRows[f.waited.Offset]
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
		l := w.bufferedActions
		l[0].int32(k.Claim.ID)
		l[1].int64(f.laneSeq + int64(i))
		l[2].uuid(f.waited.Key)
		l[3].int32(h.window)
		l[4].int32(w.n.effects[i])
		l[5].int64(f.waited.Offset)
		l[6].bool(f.outcome.Dead)
	}
}

// addDead adds the rows of an event's actions that are dead letters at once.
func (w *writer) addDead(k *partitionBatch, r *Record, v *verdict) {
	for i := range v.actions {
		c := w.deadActions
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

// checkWindows refuses rows for a window that has been dropped.
func (w *writer) checkWindows() error {
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
	if err := w.checkWindows(); err != nil {
		return err
	}
	waits, window := w.n.waits(), [][]byte{int32Param(w.win.current)}
	var steps []step
	for _, win := range w.win.live {
		if w.rejectedGone.n() > 0 {
			steps = append(steps, step{w.rejectedGone, w.win.q.forget[win], nil})
		}
		if d := w.duplicates[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.duplicates[win], nil})
		}
		if d := w.decided[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.decided[win], [][]byte{int32Param(w.win.current), int32Param(w.n.plan)}})
		}
	}
	steps = append(steps, w.events.steps(w.win.q.eventsInsert, w.n.plan)...)
	steps = append(steps, w.textEvents.steps(w.win.q.eventsText, w.n.plan)...)
	set := w.win.q.rejectedInsert
	if w.rejectedBefore {
		set = w.win.q.rejectedReplace
	}
	steps = append(steps, step{w.rejected, set, nil},
		step{w.movedLines, linesAdvance, window}, step{w.changedLines, linesUpdate, window}, step{w.newLines, linesInsert, window},
		step{w.bufferedActions, w.win.q.bufferedActions, nil}, step{w.deadActions, w.win.q.actionsDead, nil}, step{w.bufferLeft, bufferDelete, nil},
		step{w.bufferChanges, bufferUpdate, waits},
		step{w.buffer, bufferInsert, append(waits, int32Param(w.win.current))},
		step{w.backfillRequests[:3], backfillsReplace, nil}, step{w.backfillRequests, backfillsInsert, nil},
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
