package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// A line that simply moves on (the event is the next one, and changes nothing but version and key) is not written by the
// batch that moves it: the row of the event, which is, tells where to. It is written when the events since are more than a
// lag, with whatever it has come to by then, which saves most of the writes of lines that move often. A claim begins by
// folding into the rows what the owner before had left: as_of tells of each row which events it knows.

// MaxLag is how many lane_seqs a row may be behind: what a claim reads at most to make up for it, in a quarter of a second.
const MaxLag = 1 << 17

// laggards are the cached lines whose rows are behind, longest first.
type laggards struct {
	queue []laggard
	n     int // lines; the queue also has what was written since
}

// laggard is a line whose row does not know the events from since on.
type laggard struct {
	line  *cachedLine
	since int64
}

func (g laggard) behind() bool { return !g.line.gone && g.line.since == g.since }

func (g *laggards) add(l *cachedLine, since int64) {
	if l.since != 0 {
		return
	}
	l.since = since
	g.n++
	g.queue = append(g.queue, laggard{l, since})
}

// written takes lines out.
func (g *laggards) written(lines []*cachedLine) {
	for _, l := range lines {
		l.since, l.writing = 0, notWriting
		g.n--
	}
	i := 0
	for i < len(g.queue) && !g.queue[i].behind() {
		i++
	}
	g.queue = g.queue[i:]
	if len(g.queue) > 4*g.n+1024 { // mostly lines that were written for another reason
		g.queue = slices.DeleteFunc(g.queue, func(e laggard) bool { return !e.behind() })
	}
}

// clear takes all lines out.
func (g *laggards) clear() {
	for _, e := range g.queue {
		if e.behind() {
			e.line.since = 0
		}
	}
	*g = laggards{}
}

// writing is what a try does with a line whose row is behind.
type writing uint8

const (
	notWriting writing = iota
	due                // is to be written
	queued             // is among the rows of the try
)

// lags picks the lines that are written because their rows are a lag behind, or because too many are.
func (w *work) lags(lag int64) {
	c := w.Claim
	most, n := c.cache.max/4*3, c.behind.n
	for _, e := range c.behind.queue {
		if e.since > w.laneEnd-lag && n <= most {
			return
		}
		if e.behind() && e.line.writing == notWriting {
			w.catchUp(e.line, due)
			n--
		}
	}
}

func (w *work) catchUp(l *cachedLine, how writing) {
	if l.writing == notWriting {
		w.writing = append(w.writing, l)
	}
	l.writing = how
}

// movers finds, of each line, the last event of the batch that simply moved it.
func (w *work) movers() {
	w.mover = sized(w.mover, len(w.keys))
	for i := range w.mover {
		w.mover[i] = -1
	}
	for i := range w.keyOf {
		v, k := &w.final[i], w.keyOf[i]
		if k >= 0 && v.Decision == gate.Applied && v.Reason == gate.ReasonNext && v.actions > 0 {
			w.mover[k] = int32(i)
		}
	}
}

// told reports whether the row of an event of the batch tells where line i is.
func (w *work) told(i int, l *gate.Line) bool {
	m := w.mover[i]
	if m < 0 || w.Records[m].Key != l.Key || len(w.lines[i].waiting) > 0 {
		return false
	}
	v := w.final[m].Version
	return v.Epoch == l.At.Epoch && v.Value == l.At.Value && v.Sub == l.At.Sub
}

// linesLow is the lane_seq from which on events are not in the rows of lines, once the try is committed.
func (w *work) linesLow() int64 {
	for _, e := range w.Claim.behind.queue {
		if e.behind() && e.line.writing == notWriting {
			return e.since
		}
	}
	for _, l := range w.later {
		if l {
			return w.laneAt
		}
	}
	return w.laneEnd
}

// linesFold brings rows of lines up to events, and fails like a counted statement where it has not brought up every line that is
// not newer. Plan: events by (fence, lane_seq), window by window; two probes of lines_pkey per line.
const linesFold = `-- linesFold
WITH e AS MATERIALIZED (SELECT DISTINCT ON (e.entity, e.clock) e.* FROM (
          SELECT fence, entity, clock, epoch, value, sub, event_key, window_id, lane_seq FROM {events} v
          WHERE fence = $1 AND lane_seq >= $2 AND lane_seq IS NOT NULL AND lane_window IS NULL
            AND decision = 'applied' AND reason = 'next' AND word = '' OFFSET 0) e
      ORDER BY e.entity, e.clock, e.lane_seq DESC),
hit AS (UPDATE lines l SET epoch = e.epoch, value = e.value, sub = e.sub, event_key = e.event_key, seen_in = e.window_id, as_of = $3
        FROM e WHERE l.fence = e.fence AND l.entity = e.entity AND l.clock = e.clock AND l.as_of <= e.lane_seq RETURNING 1)
SELECT 1 / (count(*) = (SELECT count(*) FROM e WHERE NOT EXISTS (SELECT FROM lines l
    WHERE l.fence = e.fence AND l.entity = e.entity AND l.clock = e.clock AND l.as_of > e.lane_seq)))::int FROM hit`

// fold brings the rows of a fence's lines up to its events. The caller has locked the fence.
func fold(ctx context.Context, tx pgx.Tx, fence int32) error {
	var low, next int64
	err := tx.QueryRow(ctx, `SELECT lines_low, next_lane_seq FROM progress WHERE fence = $1`, fence).Scan(&low, &next)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && low >= next {
		return nil
	}
	var windows []int32
	if err == nil {
		windows, err = windowsOf(ctx, tx, fence)
	}
	if err == nil {
		_, err = tx.Exec(ctx, OfWindows(windows, linesFold), fence, low, next)
		err = orMissed("linesFold", err)
	}
	if err == nil {
		err = exactly(tx.Exec(ctx, `UPDATE progress SET lines_low = $2 WHERE fence = $1`, fence, next))
	}
	return err
}

// catchUp folds what a claim has left in events of windows before the current one, which will be dropped, or all.
func (n *Namespace) catchUp(ctx context.Context, c *Claim, all bool) error {
	if c.behind.n == 0 {
		return nil
	}
	op := "write the lines of " + n.spec.Name
	if err := n.loadWindows(ctx); err != nil { // no batch of an idle partition has learnt of a turn
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	current, held := n.windows.Load().current, false
	if c.foldedIn == current && !all {
		return nil
	}
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR KEY SHARE`, c.ID, c.Epoch, c.Token).Scan(&held)
		if err != nil || !held {
			return err
		}
		return fold(ctx, tx, c.ID)
	})
	switch {
	case err != nil: // whether it was committed does not matter: what is written again is the same
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	case held:
		c.behind.clear()
		c.foldedIn = current
	}
	return nil
}
