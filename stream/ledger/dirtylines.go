package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Lines that are written later. A version line that only moves on (the event is the next one, and changes nothing but version
// and key) is not written by the batch that moves it: the event's row has the same version. The line is dirty until it is written, at most MaxLag
// lane_seqs later, with the version it has by then. This saves most writes of lines that move often. A claim begins by
// folding the events that the last owner left into the lines: a line's as_of says up to which lane_seq it knows them.
//
//	                    Postgres CPU    WAL         of an action (forebay-bench lanes, one run each, 22 Nov 2026)
//	with                8.3 µs          488 B
//	without             13.4 µs         609 B
//
// The door:
//
//	findMovers, pickDirtyLines, leaveLine, addDirtyLines   which lines a batch writes               writer.addLines
//	firstUnwritten                                         from where on lines are behind           writer.addProgress
//	lineCommitted, written; linesDiscarded                 the end of an attempt                    partitionBatch
//	dirtyLine (of a cachedLine)                            it is not evicted                        lineCache
//	foldLines, restoreLines                                before others read the lines; a lost one Claim, Leave, rekey
//	foldOld                                                before a window is dropped               Tidy
//
// To take it out, leaveLine says only whether a line is the same as before, and the rest goes, with dirty_lines_from and as_of.

// MaxLag is how many lane_seqs a line's row may be behind. A claim reads that many events at most, in a quarter of a second.
const MaxLag = 1 << 17

// dirtyLines are the cached version lines whose rows are behind, the one that is longest behind first.
type dirtyLines struct {
	queue []queuedLine
	n     int // how many lines are dirty; the queue also has lines that were written since
}

// queuedLine is a line whose row lacks the events from lane_seq since on.
type queuedLine struct {
	line  *cachedLine
	since int64
}

// dirtyLine is the dirty state of a cached line.
type dirtyLine struct {
	dirtySince int64 // see queuedLine; 0: the row is up to date
	writeState writeState
}

func (l *dirtyLine) dirty() bool { return l.dirtySince != 0 }

// stillDirty reports whether the line was not written, nor dropped from the cache, since it was queued.
func (g queuedLine) stillDirty() bool { return !g.line.gone && g.line.dirtySince == g.since }

// add makes a line dirty, unless it is already.
func (g *dirtyLines) add(l *cachedLine, since int64) {
	if l.dirty() {
		return
	}
	l.dirtySince = since
	g.n++
	g.queue = append(g.queue, queuedLine{l, since})
}

// written takes out lines whose rows were written.
func (g *dirtyLines) written(lines []*cachedLine) {
	for _, l := range lines {
		l.dirtySince, l.writeState = 0, notWriting
		g.n--
	}
	i := 0
	for i < len(g.queue) && !g.queue[i].stillDirty() {
		i++
	}
	g.queue = g.queue[i:]
	if len(g.queue) > 4*g.n+1024 { // mostly lines that were written for another reason
		g.queue = slices.DeleteFunc(g.queue, func(e queuedLine) bool { return !e.stillDirty() })
	}
}

// clear takes all lines out.
func (g *dirtyLines) clear() {
	for _, e := range g.queue {
		if e.stillDirty() {
			e.line.dirtySince = 0
		}
	}
	*g = dirtyLines{}
}

// writeState is what a try of a batch does with a dirty line.
type writeState uint8

const (
	notWriting writeState = iota
	toWrite               // must be written by this try
	inWrite               // is among the rows of this try
)

// pickDirtyLines picks the dirty lines to write: those that are lag lane_seqs behind and, if more than three quarters of the cache are dirty,
// the ones that are longest behind.
func (w *partitionBatch) pickDirtyLines(lag int64) {
	c := w.Claim
	maxDirty, dirty := c.cache.max/4*3, c.dirty.n
	for _, e := range c.dirty.queue {
		if e.since > w.laneEnd-lag && dirty <= maxDirty {
			return
		}
		if e.stillDirty() && e.line.writeState == notWriting {
			w.writeLine(e.line, toWrite)
			dirty--
		}
	}
}

// writeLine has this try write a dirty line, as how says.
func (w *partitionBatch) writeLine(l *cachedLine, how writeState) {
	if l.writeState == notWriting {
		w.writtenLines = append(w.writtenLines, l)
	}
	l.writeState = how
}

// leaveLine reports whether this try does not write line i, whose new state is l: the line has not changed, or it only moved on and is
// written later (then w.deferred is set). A line on which events wait is never left for later. moved says that the line has only moved to
// a newer version. Otherwise the caller must add the line to the rows.
func (w *partitionBatch) leaveLine(i int, l *gate.VersionLine, moved bool, lag int64) bool {
	was, cached, waits := &w.before[i], w.cached[i], len(w.waiting(w.keys[i])) > 0
	dirty := cached != nil && cached.dirty()
	now := dirty && (cached.writeState == toWrite || waits)
	if !now && was.exists && sameLine(l, &was.line) {
		return true
	}
	if moved && !now && lag > 0 && !waits && w.rowTells(i, l) {
		w.deferred[i] = true
		return true
	}
	if dirty {
		w.writeLine(cached, inWrite)
	}
	return false
}

// addDirtyLines adds the lines that were picked and that no event of this batch has changed.
func (w *writer) addDirtyLines(k *partitionBatch) {
	for _, l := range k.writtenLines {
		if l.writeState == toWrite {
			l.writeState = inWrite
			w.movedLines.add(k, l.key, l.line)
		}
	}
}

// lineCommitted makes line i dirty if it was left for later. It is called before the next line is cached, which could evict this one.
func (w *partitionBatch) lineCommitted(i int, l *cachedLine) {
	if w.deferred[i] {
		w.Claim.dirty.add(l, w.laneAt)
	}
}

// linesDiscarded sets dirty lines back to what they were before the gate changed them: it cannot be read from their rows.
func (w *partitionBatch) linesDiscarded() {
	for _, l := range w.writtenLines {
		l.writeState = notWriting
	}
	for i := range min(len(w.before), len(w.cached)) {
		if l := w.cached[i]; l != nil && l.dirty() {
			was := w.before[i].line
			was.Skipped = slices.Clone(was.Skipped)
			w.Claim.cache.update(l, &was, nil)
		}
	}
}

// findMovers finds, for each version line, the last event of the batch that only moved it on and has actions; -1 for none.
func (w *partitionBatch) findMovers() {
	w.mover = sized(w.mover, len(w.keys))
	for i := range w.mover {
		w.mover[i] = -1
	}
	for i := range w.keyOf {
		v, k := &w.verdicts[i], w.keyOf[i]
		if k >= 0 && v.Decision == gate.Applied && v.Reason == gate.ReasonNext && v.actions > 0 {
			w.mover[k] = int32(i)
		}
	}
}

// rowTells reports whether the row of an event of the batch has the version of line i.
func (w *partitionBatch) rowTells(i int, l *gate.VersionLine) bool {
	m := w.mover[i]
	if m < 0 || w.Records[m].Key != l.Key || len(w.before[i].waiting) > 0 {
		return false
	}
	v := w.verdicts[m].Version
	return v.Epoch == l.At.Epoch && v.Value == l.At.Value && v.Sub == l.At.Sub
}

// firstUnwritten returns the first lane_seq whose event the rows of version lines may lack, once this try is committed.
func (w *partitionBatch) firstUnwritten() int64 {
	for _, e := range w.Claim.dirty.queue {
		if e.stillDirty() && e.line.writeState == notWriting {
			return e.since
		}
	}
	if slices.Contains(w.deferred, true) {
		return w.laneAt
	}
	return w.laneEnd
}

// linesFold updates version lines from the events that their rows lack. It divides by zero, which pg.OrMissed makes an error of, if the line
// of an event is missing, or is older than it and was not updated. Events that left the gap buffer (lane_window) are not among
// them. Plan: events by (fence, lane_seq), window by window; two probes of version_lines_pkey per line.
const linesFold = `-- linesFold
WITH e AS MATERIALIZED (SELECT DISTINCT ON (e.entity, e.clock) e.* FROM (
          SELECT fence, entity, clock, epoch, value, sub, event_key, window_id, lane_seq FROM {events} v
          WHERE fence = $1 AND lane_seq >= $2 AND lane_seq IS NOT NULL AND lane_window IS NULL
            AND decision = 'applied' AND reason = 'next' AND version_text = '' OFFSET 0) e
      ORDER BY e.entity, e.clock, e.lane_seq DESC),
hit AS (UPDATE version_lines l SET epoch = e.epoch, value = e.value, sub = e.sub, event_key = e.event_key, seen_in = e.window_id, as_of = $3
        FROM e WHERE l.fence = e.fence AND l.entity = e.entity AND l.clock = e.clock AND l.as_of <= e.lane_seq RETURNING 1)
SELECT 1 / (count(*) = (SELECT count(*) FROM e WHERE NOT EXISTS (SELECT FROM version_lines l
    WHERE l.fence = e.fence AND l.entity = e.entity AND l.clock = e.clock AND l.as_of > e.lane_seq)))::int FROM hit`

// foldLines writes the version lines of a fence whose rows are behind, from its events. The caller has locked the fence.
func foldLines(ctx context.Context, tx pgx.Tx, fence int32) error {
	var from, next int64
	err := tx.QueryRow(ctx, `SELECT dirty_lines_from, next_lane_seq FROM progress WHERE fence = $1`, fence).Scan(&from, &next)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && from >= next) {
		return nil
	}
	var windows []int32
	if err == nil {
		windows, err = windowsOf(ctx, tx, fence)
	}
	if err == nil {
		_, err = tx.Exec(ctx, OfWindows(windows, linesFold), fence, from, next)
		err = pg.OrMissed("linesFold", err)
	}
	if err == nil {
		err = exactly(tx.Exec(ctx, `UPDATE progress SET dirty_lines_from = $2 WHERE fence = $1`, fence, next))
	}
	return err
}

// linesRestore makes those version lines again whose rows are gone and which events after dirty_lines_from have moved, as linesFold would
// have left them. The events say all of a line but the versions that were skipped and that the line was parked.
const linesRestore = `-- linesRestore
INSERT INTO version_lines (fence, epoch, value, as_of, sub, seen_in, filtered, event_key, kind, entity, clock)
SELECT DISTINCT ON (e.entity, e.clock) e.fence, e.epoch, e.value, p.dirty_lines_from, e.sub, e.window_id, false, e.event_key, e.kind, e.entity, e.clock
FROM progress p JOIN {events} e ON e.fence = p.fence AND e.lane_seq >= p.dirty_lines_from
WHERE p.fence = $1 AND e.lane_seq IS NOT NULL AND e.lane_window IS NULL AND e.decision = 'applied' AND e.reason = 'next' AND e.version_text = ''
ORDER BY e.entity, e.clock, e.lane_seq DESC
ON CONFLICT DO NOTHING`

// restoreLines runs linesRestore for a fence, which the caller has locked, and returns how many lines it has made. Without its line, the
// next event would be taken for a first one.
func restoreLines(ctx context.Context, tx pgx.Tx, fence int32) (int64, error) {
	windows, err := windowsOf(ctx, tx, fence)
	if err != nil {
		return 0, err
	}
	made, err := tx.Exec(ctx, OfWindows(windows, linesRestore), fence)
	return made.RowsAffected(), err
}

// foldOld writes all of a claim's dirty lines, if the windows have rotated since it last did so, or all is set: events in windows before the
// current one will be dropped. It does nothing if the claim has lost its fence.
func foldOld(ctx context.Context, n *Namespace, c *Claim, all bool) error {
	if c.dirty.n == 0 {
		return nil
	}
	op := "write the version lines of " + n.spec.Name
	if err := n.loadWindows(ctx); err != nil { // no batch of an idle partition has noticed that the windows turned
		return pg.Unavailable(op, err)
	}
	current, held := n.windows.Load().current, false
	if c.foldedInWindow == current && !all {
		return nil
	}
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR KEY SHARE`, c.ID, c.Epoch, c.Token).Scan(&held)
		if err != nil || !held {
			return err
		}
		return foldLines(ctx, tx, c.ID)
	})
	switch {
	case err != nil: // whether it was committed does not matter: what is written again is the same
		return pg.Unavailable(op, err)
	case held:
		c.dirty.clear()
		c.foldedInWindow = current
	}
	return nil
}
