package ledger

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// writer gathers the rows of a batch, column by column, and queues the second round trip.
type writer struct {
	n   *Namespace
	win *windowSet

	events, textEvents     eventSets // events whose version is a number; a text
	rejected               *rejectedRows
	rejectedBefore         bool // some of rejected may replace an earlier rejected record
	deadActions            *deadActionRows
	newLines, changedLines *lineRows
	movedLines             *movedLineRows
	buffer                 *bufferRows
	bufferChanges          *bufferChangeRows
	bufferLeft             *placeRows
	bufferedActions        *bufferedActionRows
	progress               *progressRows
	duplicates             map[int32]*duplicateRows // by window
	decided                map[int32]*decidedRows   // by window
	backfillRequests       *backfillRows
	rejectedGone           *placeRows
	also                   *alsoRows
	alsoGone               *alsoGoneRows
	replay                 []byte // the replay that runs the events again; nil: none does
}

// writers are used again: a batch's columns take half a MiB.
var writers = sync.Pool{New: func() any { return makeWriter() }}

// newWriter returns an empty writer; free gives it back.
func newWriter(n *Namespace, win *windowSet) *writer {
	w := writers.Get().(*writer)
	w.n, w.win, w.duplicates, w.decided = n, win, map[int32]*duplicateRows{}, map[int32]*decidedRows{}
	return w
}

// free returns the writer to the pool, once what it queued has been sent.
func (w *writer) free() {
	w.n, w.win, w.duplicates, w.decided, w.rejectedBefore, w.replay = nil, nil, nil, nil, false, nil
	w.events.reset()
	w.textEvents.reset()
	for _, c := range []columns{w.rejected.columns, w.deadActions.columns, w.newLines.columns, w.movedLines.columns, w.changedLines.columns, w.buffer.columns,
		w.bufferChanges.columns, w.bufferLeft.columns, w.bufferedActions.columns, w.progress.columns, w.backfillRequests.columns, w.rejectedGone.columns,
		w.also.columns, w.alsoGone.columns} {
		c.reset()
	}
	writers.Put(w)
}

func makeWriter() *writer {
	return &writer{
		textEvents: eventSets{text: true}, rejected: newRejectedRows(), rejectedGone: newPlaceRows(),
		newLines: newLineRows(), changedLines: newLineRows(), movedLines: newMovedLineRows(),
		deadActions: newDeadActionRows(), bufferedActions: newBufferedActionRows(),
		buffer: newBufferRows(), bufferChanges: newBufferChangeRows(), bufferLeft: newPlaceRows(),
		also: newAlsoRows(), alsoGone: newAlsoGoneRows(), backfillRequests: newBackfillRows(), progress: newProgressRows(),
	}
}

// add adds one partition's rows. seenAt says in which window an event is that was known before the batch. duplicates has how many
// duplicates of each event the batch has; an event is taken out of it when they are written, because an UPDATE takes one row per event.
func (w *writer) add(k *partitionBatch, seenAt map[schemas.EventKey]int32, duplicates map[schemas.EventKey]int32) {
	if k.replay.reprocesses() {
		w.addReprocessed(k)
		return
	}
	// Below this offset a record may be decided again (after a rewind, in a replay, or in a topic that was created again): it replaces the
	// rejected record of the earlier reading.
	below := k.Claim.rejectedBelow
	if k.stored.high > k.stored.next {
		below = max(below, k.stored.high)
	}
	if k.replay != nil {
		below = math.MaxInt64
	}
	for i := range k.verdicts {
		v, r := &k.verdicts[i], &k.Records[i]
		switch {
		case v.Reason == gate.ReasonSeen:
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
			w.rejectedGone.add(k.Claim.ID, r.Offset)
		}
	}
	for i := range k.left {
		w.addLeft(k, &k.left[i])
	}
	w.addLines(k)
	wanted := k.state.Wanted()
	w.syncBuffer(k, wanted)
	if k.isAboutHeld() && len(k.left) > 0 { // an operator has released or discarded it
		w.bufferLeft.add(k.Claim.ID, k.commandEvent.Offset)
	}
	for _, q := range wanted {
		w.addBackfill(k, q)
	}
	w.addProgress(k)
}

// addReprocessed adds the rows of what a replay runs again. Of what it leaves out, the rows of before say all.
func (w *writer) addReprocessed(k *partitionBatch) {
	w.replay = pg.Int32Param(int32(k.replay.id))
	for i := range k.verdicts {
		if v := &k.verdicts[i]; v.Decision.Runs() && !k.replay.isShadow() {
			w.addEvent(k, &k.Records[i], v)
		}
	}
	w.addLines(k)
	w.addProgress(k)
}

// duplicateRows are how many duplicates of events have come: the parameters of duplicatesUpdate.
type duplicateRows struct {
	columns
	key pg.UUIDs
	n   pg.Int32s
}

func newDuplicateRows() *duplicateRows {
	r := &duplicateRows{}
	r.columns = columns{{"event_key", &r.key}, {"n", &r.n}}
	return r
}

// addDuplicate adds how many times an event, which is in a window, has come again.
func (w *writer) addDuplicate(window int32, key schemas.EventKey, times int32) {
	d := w.duplicates[window]
	if d == nil {
		d = newDuplicateRows()
		w.duplicates[window] = d
	}
	d.key.Add(key)
	d.n.Add(times)
}

// decidedRows are the outcomes of events that waited: the parameters of decidedUpdate.
type decidedRows struct {
	columns
	key                   pg.UUIDs
	decision, reason      pg.Texts
	epoch, value, laneSeq pg.Int64s
	actions               pg.Int32s
}

func newDecidedRows() *decidedRows {
	r := &decidedRows{}
	r.columns = columns{{"event_key", &r.key}, {"decision", &r.decision}, {"reason", &r.reason}, {"epoch", &r.epoch}, {"value", &r.value},
		{"lane_seq", &r.laneSeq}, {"actions", &r.actions}}
	return r
}

// bufferedActionRows are the actions of events that left the gap buffer: the parameters of bufferedActionsInsert.
type bufferedActionRows struct {
	columns
	fence, window, effect pg.Int32s
	laneSeq, offset       pg.Int64s
	key                   pg.UUIDs
	dead                  pg.Bools
	id                    pg.UUIDs // of a dead one
}

func newBufferedActionRows() *bufferedActionRows {
	r := &bufferedActionRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"event_key", &r.key}, {"event_window", &r.window}, {"effect", &r.effect},
		{"log_offset", &r.offset}, {"dead", &r.dead}, {"action_id", &r.id}}
	return r
}

// addLeft adds the outcome of an event that waited before the batch, for the window that has the event's row, and rows for its actions.
func (w *writer) addLeft(k *partitionBatch, f *leftBuffer) {
	if f.waited.Filtered {
		return // it has no row as an event, but a rejected record that says filtered
	}
	h := k.bufferedRows[f.waited.Offset]
	d := w.decided[h.window]
	if d == nil {
		d = newDecidedRows()
		w.decided[h.window] = d
	}
	d.key.Add(f.waited.Key)
	d.decision.Add(string(f.outcome.Decision))
	d.reason.Add(string(f.outcome.Reason))
	d.epoch.Add(f.outcome.Version.Epoch)
	d.value.Add(f.outcome.Version.Value)
	d.laneSeq.AddOrNull(f.laneSeq)
	d.actions.Add(f.actions)
	for i := range f.actions {
		a := w.bufferedActions
		a.fence.Add(k.Claim.ID)
		a.laneSeq.Add(f.laneSeq + int64(i))
		a.key.Add(f.waited.Key)
		a.window.Add(h.window)
		a.effect.Add(w.n.effects[i])
		a.offset.Add(f.waited.Offset)
		a.dead.Add(f.outcome.Dead)
		if f.outcome.Dead {
			a.id.Add(w.n.actionID(i, w.n.spec.Generation, h.source, h.id))
		} else {
			a.id.Null()
		}
	}
}

// deadActionRows are actions that are dead letters at once: the parameters of actionsDead.
type deadActionRows struct {
	columns
	fence, effect pg.Int32s
	laneSeq       pg.Int64s
	key, id       pg.UUIDs
	packed        pg.Blobs
}

func newDeadActionRows() *deadActionRows {
	r := &deadActionRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"event_key", &r.key}, {"effect", &r.effect}, {"packed", &r.packed}, {"action_id", &r.id}}
	return r
}

// addDead adds a row for each action of an event whose actions are dead letters at once.
func (w *writer) addDead(k *partitionBatch, r *Record, v *verdict) {
	for i := range v.actions {
		d := w.deadActions
		d.fence.Add(k.Claim.ID)
		d.laneSeq.Add(v.laneSeq + int64(i))
		d.key.Add(r.Key)
		d.effect.Add(w.n.effects[i])
		d.packed.Add(packedOf(r))
		d.id.Add(w.n.actionID(i, k.replay.generation(w.n.spec.Generation), r.Source, r.ID))
	}
}

// actionID returns what the row of an event's i-th action has as its id. Others have it there with their first attempt; a dead letter that never had
// one is found by it alone.
func (n *Namespace) actionID(i int32, generation int32, source, id string) [16]byte {
	hash, _ := schemas.NewActionID(n.spec.Name, generation, source, id, n.spec.Actions[i].Name).Hash()
	return hash
}

// progressRows are the claims' positions: the parameters of progressWrite.
type progressRows struct {
	columns
	fence, leaderEpoch                pg.Int32s
	next, nextLaneSeq, dirtyLinesFrom pg.Int64s
	processed                         pg.Times
}

func newProgressRows() *progressRows {
	r := &progressRows{}
	r.columns = columns{{"fence", &r.fence}, {"next_offset", &r.next}, {"leader_epoch", &r.leaderEpoch}, {"next_lane_seq", &r.nextLaneSeq},
		{"processed_at", &r.processed}, {"dirty_lines_from", &r.dirtyLinesFrom}}
	return r
}

// addProgress adds a partition's row: its position, which the end of waits, a command or a replay leaves where it is, the next lane_seq, when
// the last record was appended (zero: the row keeps its own), and from where on version lines are not written yet. It is called after addLines,
// which decides these.
func (w *writer) addProgress(k *partitionBatch) {
	r, next := w.progress, k.Next
	if k.keepsPosition() {
		next = k.Claim.Next
	}
	var processed time.Time
	if len(k.Records) > 0 {
		processed = k.Records[len(k.Records)-1].AppendTime
	}
	r.fence.Add(k.Claim.ID)
	r.next.Add(next.Offset)
	r.leaderEpoch.Add(next.LeaderEpoch)
	r.nextLaneSeq.Add(k.laneEnd)
	r.processed.Add(processed)
	r.dirtyLinesFrom.Add(k.firstUnwritten())
}

// checkWindows returns an error if there are rows for a window that has been dropped.
func (w *writer) checkWindows() error {
	for _, window := range slices.Concat(slices.Collect(maps.Keys(w.duplicates)), slices.Collect(maps.Keys(w.decided))) {
		if !slices.Contains(w.win.live, window) {
			return pg.Missed(fmt.Sprintf("a write to window %d, which is gone,", window))
		}
	}
	return nil
}

// queue adds the statements that have rows to the pipeline. Their order is that in which all transactions lock these tables.
func (w *writer) queue(ctx context.Context, p *pg.Pipeline) error {
	if err := w.checkWindows(); err != nil {
		return err
	}
	var l steps
	q, waits, window := &w.win.q, w.n.waits(), pg.Int32Param(w.win.current)
	for _, live := range w.win.live {
		l.add(q.forget[live], nil, w.rejectedGone.columns)
		if d := w.duplicates[live]; d != nil {
			l.add(q.duplicates[live], nil, d.columns)
		}
		if d := w.decided[live]; d != nil {
			l.add(q.decided[live], [][]byte{window, pg.Int32Param(w.n.plan)}, d.columns)
		}
	}
	w.events.steps(&l, q.eventsInsert, w.n.plan, w.replay)
	w.textEvents.steps(&l, q.eventsText, w.n.plan, w.replay)
	of := pg.Int32Param(w.n.id)
	l.add(alsoDelete, [][]byte{of}, w.alsoGone.columns)
	l.add(alsoInsert, [][]byte{of, pg.Int64Param((w.n.spec.Policy.Also + alsoKept).Microseconds())}, w.also.columns)
	if w.rejectedBefore {
		l.add(q.rejectedReplace, nil, w.rejected.columns)
	} else {
		l.add(q.rejectedInsert, nil, w.rejected.columns)
	}
	l.add(linesAdvance, [][]byte{window}, w.movedLines.columns)
	l.add(linesUpdate, [][]byte{window}, w.changedLines.columns)
	l.add(linesInsert, [][]byte{window}, w.newLines.columns)
	l.add(q.bufferedActions, nil, w.bufferedActions.columns)
	l.add(q.actionsDead, nil, w.deadActions.columns)
	l.add(bufferDelete, nil, w.bufferLeft.columns)
	l.add(bufferUpdate, waits, w.bufferChanges.columns)
	l.add(bufferInsert, append(waits, window), w.buffer.columns)
	l.add(backfillsReplace, nil, w.backfillRequests.line())
	l.add(backfillsInsert, nil, w.backfillRequests.columns)
	l.add(progressWrite, nil, w.progress.columns) // last: results recorded meanwhile move lane_low in the same row
	return l.queue(ctx, p)
}
