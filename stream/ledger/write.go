package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
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
type rows []*pg.Column

func (r rows) n() int {
	if len(r) == 0 {
		return 0
	}
	return r[0].Len()
}

func (r rows) params(first ...[]byte) [][]byte {
	out := slices.Clone(first)
	for _, c := range r {
		out = append(out, c.Param())
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
			c.Reset()
		}
	}
	writers.Put(w)
}

func makeWriter() *writer {
	return &writer{
		textEvents:       eventRows{text: true},
		deadActions:      rows{pg.Int32Column(0), pg.Int64Column(0), pg.UUIDColumn(0), pg.Int32Column(0), pg.BytesColumn(0)},
		backfillRequests: rows{pg.Int32Column(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.Int64Column(0), pg.Int64Column(0), pg.Int64Column(0), pg.TextColumn(0)},
		rejected: rows{pg.Int32Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.UUIDColumn(0), pg.UUIDColumn(0), pg.UUIDColumn(0), pg.TimeColumn(), pg.TextColumn(0),
			pg.TextColumn(0), pg.TextColumn(0), pg.Int64Column(0), pg.Int64Column(0), pg.TextColumn(0), pg.Int32Column(0), pg.TextColumn(0), pg.TextColumn(0),
			pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.BytesColumn(0)},
		bufferedActions: rows{pg.Int32Column(0), pg.Int64Column(0), pg.UUIDColumn(0), pg.Int32Column(0), pg.Int32Column(0), pg.Int64Column(0), pg.BoolColumn()},
		newLines:        lineRows(), changedLines: lineRows(),
		movedLines: rows{pg.Int32Column(0), pg.TextColumn(0), pg.TextColumn(0), pg.Int64Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.UUIDColumn(0), pg.Int64Column(0)},
		buffer: rows{pg.Int32Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.TimeColumn(), pg.TimeColumn(), pg.UUIDColumn(0), pg.UUIDColumn(0),
			pg.Int64Column(0), pg.Int64Column(0), pg.TextColumn(0), pg.Int32Column(0), pg.Int64Column(0), pg.BoolColumn(), pg.BoolColumn(), pg.BoolColumn(),
			pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0),
			pg.TextColumn(0), pg.BytesColumn(0)},
		bufferChanges: rows{pg.Int32Column(0), pg.Int64Column(0), pg.TextColumn(0), pg.TextColumn(0)},
		bufferLeft:    rows{pg.Int32Column(0), pg.Int64Column(0)},
		progress:      rows{pg.Int32Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.Int64Column(0), pg.TimeColumn(), pg.Int64Column(0)},
		rejectedGone:  rows{pg.Int32Column(0), pg.Int64Column(0)},
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
			w.rejectedGone[0].Int32(k.Claim.ID)
			w.rejectedGone[1].Int64(r.Offset)
		}
	}
	for i := range k.left {
		w.addLeft(k, &k.left[i])
	}
	w.addLines(k)
	wanted := k.state.Wanted()
	w.syncBuffer(k, wanted)
	if k.aboutHeld() && len(k.left) > 0 { // an operator has released or discarded it
		w.bufferLeft[0].Int32(k.Claim.ID)
		w.bufferLeft[1].Int64(k.about.Offset)
	}
	for _, q := range wanted {
		w.addBackfill(k, q)
	}
}

func (w *writer) addDuplicate(window int32, key schemas.EventKey, times int32) {
	d := w.duplicates[window]
	if d == nil {
		d = &rows{pg.UUIDColumn(8), pg.Int32Column(8)}
		w.duplicates[window] = d
	}
	(*d)[0].UUID(key)
	(*d)[1].Int32(times)
}

func laneSeqOrNull(c *pg.Column, v int64) {
	if v == 0 {
		c.Null()
		return
	}
	c.Int64(v)
}

func (w *writer) addRejected(k *partitionBatch, i int) {
	r, v, c := &k.Records[i], &k.verdicts[i], w.rejected
	decision, reason := v.Decision, v.Reason
	if decision != gate.Conflict && decision != gate.Quarantined && decision != gate.Filtered {
		decision, reason = gate.Filtered, gate.ReasonType // a filtered event that waits only to fill its place
	}
	bare, bad := k.refusedData[i]
	known := decision != gate.Quarantined || reason == gate.ReasonMisplaced // the fields of any other are not to be trusted
	c[0].Int32(k.Claim.ID)
	c[1].Int64(r.Offset)
	c[2].Int32(r.LeaderEpoch)
	switch {
	case !known:
		c[3].Null()
		c[4].Null()
		c[5].Null()
	case decision == gate.Conflict:
		c[3].UUID(r.Key)
		c[4].UUID(r.Hash)
		c[5].UUID(k.state.Seen[r.Key].Hash)
	default:
		c[3].UUID(r.Key)
		c[4].UUID(r.Hash)
		c[5].Null()
	}
	if r.ReceivedAt.IsZero() {
		c[6].Null()
	} else {
		c[6].Time(r.ReceivedAt)
	}
	c[7].Text(string(decision))
	c[8].Text(string(reason))
	if known {
		identity(c[9:], v.Version, string(r.Entity), r.Source, r.ID, r.Type)
	} else {
		identity(c[9:], schemas.Version{Kind: schemas.None}, "", pg.Clean(r.Source, 512), pg.Clean(r.ID, 512), pg.Clean(r.Type, 512))
	}
	switch {
	case bad && r.Error == "":
		c[19].Text("the database refused the record's data")
	case r.Error == "":
		c[19].Null()
	default:
		c[19].Text(pg.Clean(r.Error, 4096))
	}
	if decision == gate.Filtered || bare || r.Packed == nil {
		c[20].Null()
	} else {
		c[20].Bytes(r.Packed())
	}
}

// identity fills kind, epoch, value, text, sub, clock, entity, source, event id and type.
func identity(c rows, v schemas.Version, entity, source, id, eventType string) {
	c[0].Text(string(v.Kind))
	c[1].Int64(v.Epoch)
	c[2].Int64(v.Value)
	c[3].Text(v.Text)
	c[4].Int32(v.Sub)
	c[5].Text(v.Clock)
	c[6].Text(entity)
	c[7].Text(source)
	c[8].Text(id)
	c[9].Text(eventType)
}

// addLeft adds the outcome of an event that waited before the batch, for the window that has its row.
func (w *writer) addLeft(k *partitionBatch, f *leftBuffer) {
	if f.waited.Filtered {
		return // it has a rejected record that says filtered
	}
	h := k.bufferedRows[f.waited.Offset]
	d := w.decided[h.window]
	if d == nil {
		d = &rows{pg.UUIDColumn(8), pg.TextColumn(8), pg.TextColumn(8), pg.Int64Column(8), pg.Int64Column(8), pg.Int64Column(8), pg.Int32Column(8)}
		w.decided[h.window] = d
	}
	c := *d
	c[0].UUID(f.waited.Key)
	c[1].Text(string(f.outcome.Decision))
	c[2].Text(string(f.outcome.Reason))
	c[3].Int64(f.outcome.Version.Epoch)
	c[4].Int64(f.outcome.Version.Value)
	laneSeqOrNull(c[5], f.laneSeq)
	c[6].Int32(f.actions)
	for i := range f.actions {
		l := w.bufferedActions
		l[0].Int32(k.Claim.ID)
		l[1].Int64(f.laneSeq + int64(i))
		l[2].UUID(f.waited.Key)
		l[3].Int32(h.window)
		l[4].Int32(w.n.effects[i])
		l[5].Int64(f.waited.Offset)
		l[6].Bool(f.outcome.Dead)
	}
}

// addDead adds the rows of an event's actions that are dead letters at once.
func (w *writer) addDead(k *partitionBatch, r *Record, v *verdict) {
	for i := range v.actions {
		c := w.deadActions
		c[0].Int32(k.Claim.ID)
		c[1].Int64(v.laneSeq + int64(i))
		c[2].UUID(r.Key)
		c[3].Int32(w.n.effects[i])
		c[4].Bytes(packedOf(r))
	}
}

// step is one statement: its parameters are lead, and the columns of rows.
type step struct {
	rows rows
	s    pg.Statement
	lead [][]byte
}

// checkWindows refuses rows for a window that has been dropped.
func (w *writer) checkWindows() error {
	for _, of := range []map[int32]*rows{w.duplicates, w.decided} {
		for window := range of {
			if !slices.Contains(w.win.live, window) {
				return pg.Missed(fmt.Sprintf("a write to window %d, which is gone,", window))
			}
		}
	}
	return nil
}

// queue adds the statements in lock order.
func (w *writer) queue(ctx context.Context, p *pg.Pipeline) error {
	if err := w.checkWindows(); err != nil {
		return err
	}
	waits, window := w.n.waits(), [][]byte{pg.Int32Param(w.win.current)}
	var steps []step
	for _, win := range w.win.live {
		if w.rejectedGone.n() > 0 {
			steps = append(steps, step{w.rejectedGone, w.win.q.forget[win], nil})
		}
		if d := w.duplicates[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.duplicates[win], nil})
		}
		if d := w.decided[win]; d != nil {
			steps = append(steps, step{*d, w.win.q.decided[win], [][]byte{pg.Int32Param(w.win.current), pg.Int32Param(w.n.plan)}})
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
		step{w.buffer, bufferInsert, append(waits, pg.Int32Param(w.win.current))},
		step{w.backfillRequests[:3], backfillsReplace, nil}, step{w.backfillRequests, backfillsInsert, nil},
		// Last: results recorded meanwhile move lane_low in the same row.
		step{w.progress, progressWrite, nil})
	for _, s := range steps {
		if s.rows.n() == 0 {
			continue
		}
		if err := p.Add(ctx, s.s, nil, s.rows.params(s.lead...)...); err != nil {
			return err
		}
	}
	return p.Add(ctx, pg.Commit, nil)
}
