package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// resultWrite is what one Record writes. It is decided once, so that every attempt writes the same.
type resultWrite struct {
	decided  time.Time
	claims   []*Claim // sorted
	windows  map[int32]*windowResults
	ended    []laneRef // marked as ended by this write; taken back if it fails
	recorded []laneRef // marked as recorded once it is committed
	newLows  []laneRef // the new lane_low of claims
	reported []Result  // results that destinations reported later
}

type laneRef struct {
	claim   *Claim
	laneSeq int64
}

// windowResults are the rows for one window.
type windowResults struct {
	completions              []*completions
	open                     map[completionKey]*completions
	updates, inserts, failed rows // rows that are there, that are not, attempts
	made                     rows // actions that must have a row then
	known                    rows // actions that must have a row, or be done
}

// completions is one row of the table.
type completions struct {
	key       completionKey
	lanes     *pg.Column
	latencies *pg.Column
	responses *pg.Column
	answered  bool
	size      int
}

type completionKey struct {
	claim  *Claim
	bucket int64
	code   int32
	// superseded: the actions were not tried, and have ended all the same.
	superseded bool
}

// maxResponses bounds the answers that one row of completions holds.
const maxResponses = 256 << 10

// writeOf decides where each result is written, and sets the claims' marks. Of several results of one action the last one
// is the action's status; each of them was an attempt.
func writeOf(results []Result) (*resultWrite, error) {
	sorted := make([]*Result, len(results))
	for i := range results {
		sorted[i] = &results[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Result) int {
		if a.Claim.ID != b.Claim.ID {
			return int(a.Claim.ID) - int(b.Claim.ID)
		}
		return int(a.LaneSeq - b.LaneSeq)
	})
	w := &resultWrite{decided: time.Now(), claims: claimsOf(results), windows: map[int32]*windowResults{}}
	for len(sorted) > 0 {
		c := sorted[0].Claim
		n := 1
		for n < len(sorted) && sorted[n].Claim == c {
			n++
		}
		if err := w.claim(c, sorted[:n]); err != nil {
			w.markUnknown()
			return nil, err
		}
		sorted = sorted[n:]
	}
	return w, nil
}

// claim takes the results of one claim, ascending by lane_seq.
func (w *resultWrite) claim(c *Claim, results []*Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0 // of the same action
	for i, r := range results {
		if r.LaneSeq != results[first].LaneSeq {
			first = i
		}
		window := c.windowOf(r.LaneSeq)
		if window == 0 {
			return errors.New("a result of an action that the claim never had")
		}
		wr := w.window(window)
		if i+1 == len(results) || results[i+1].LaneSeq != r.LaneSeq {
			w.action(wr, r)
		}
		if r.kept() && !slices.ContainsFunc(results[first:i], func(o *Result) bool { return o.Attempt == r.Attempt && o.kept() }) {
			wr.attempt(r)
		}
		if r.Reported {
			w.reported = append(w.reported, *r)
		}
	}
	w.giveRows(c)
	if c.marks.lowDue(c.spans) {
		w.newLows = append(w.newLows, laneRef{c, c.marks.low})
	}
	return nil
}

func (w *resultWrite) window(id int32) *windowResults {
	wr := w.windows[id]
	if wr == nil {
		wr = &windowResults{open: map[completionKey]*completions{}, updates: resultRows(0), inserts: resultRows(0), failed: rows{pg.Int32Column(0), pg.Int64Column(0), pg.TextColumn(0), pg.Int32Column(0),
			pg.TextColumn(0), pg.Int32Column(0), pg.Int32Column(0), pg.TextColumn(0), pg.BytesColumn(0), pg.UUIDColumn(0)}, made: rows{pg.Int32Column(0), pg.Int64Column(0)}, known: rows{pg.Int32Column(0), pg.Int64Column(0)}}
		w.windows[id] = wr
	}
	return wr
}

func resultRows(n int) rows {
	return rows{pg.Int32Column(n), pg.Int64Column(n), pg.TextColumn(n), pg.Int32Column(n), pg.Int64Column(n), pg.TextColumn(n), pg.Int32Column(n), pg.Int32Column(n),
		pg.TextColumn(n), pg.BytesColumn(n), pg.BytesColumn(n), pg.Int64Column(n), pg.Int64Column(n), pg.UUIDColumn(n), pg.Int64Column(n), pg.Int64Column(n)}
}

// action decides where a result is written. An action that has ended does not change.
func (w *resultWrite) action(wr *windowResults, r *Result) {
	m := &r.Claim.marks
	if r.LaneSeq < m.low { // it is done, or it has a row
		wr.row(wr.updates, r)
		wr.known.action(r)
		return
	}
	b, i := m.at(r.LaneSeq)
	ref := laneRef{r.Claim, r.LaneSeq}
	switch {
	case b.ended.has(i):
		return
	case b.withRow.has(i) && b.recorded.has(i):
		wr.row(wr.updates, r)
		wr.made.action(r)
		return
	case !b.withRow.has(i) && r.plain():
		b.ended.set(i)
		w.ended = append(w.ended, ref)
		wr.complete(r)
	default:
		b.withRow.set(i)
		wr.insert(r)
	}
	w.recorded = append(w.recorded, ref)
}

// plain reports a first attempt that succeeded, or an action that is superseded without one: a completion says all of it.
func (r *Result) plain() bool {
	return r.Status == Superseded || r.Status == Done && r.Attempt == 1 && r.Class == "" && r.Error == "" && !r.Reported
}

func (wr *windowResults) complete(r *Result) {
	key := completionKey{r.Claim, r.LaneSeq >> bucketBits, int32(r.Code), r.Status == Superseded}
	c := wr.open[key]
	if c == nil || c.size > maxResponses {
		c = &completions{key: key, lanes: pg.Int16Column(64), latencies: pg.Int32Column(64), responses: pg.BytesColumn(0)}
		wr.open[key] = c
		wr.completions = append(wr.completions, c)
	}
	c.lanes.Int16(int16(r.LaneSeq & (bucketSize - 1)))
	c.latencies.Int32(microseconds(r.Latency))
	answer := response(r)
	c.responses.Bytes(answer)
	c.answered = c.answered || answer != nil
	c.size += len(answer)
}

// insert gives an action a row, which must be there then.
func (wr *windowResults) insert(r *Result) {
	wr.row(wr.inserts, r)
	wr.made.action(r)
}

// action names the action of a result.
func (r rows) action(of *Result) {
	r[0].Int32(of.Claim.ID)
	r[1].Int64(of.LaneSeq)
}

func (wr *windowResults) row(c rows, r *Result) {
	c[0].Int32(r.Claim.ID)
	c[1].Int64(r.LaneSeq)
	c[2].Text(string(r.Status))
	c[3].Int32(int32(r.Attempt))
	c[4].Int64(r.NextIn.Microseconds())
	c[5].Text(pg.Clean(r.Class, 40))
	c[6].Int32(int32(r.Code))
	c[7].Int32(microseconds(r.Latency))
	c[8].Text(pg.Clean(r.Error, MaxErrorText))
	c[9].Bytes(response(r))
	if r.Status == Done || r.Status == Superseded {
		c[10].Null()
	} else {
		c[10].Bytes(r.Packed)
	}
	c[11].Int64(r.Left.Microseconds())
	c[12].Int64(r.Silence.Microseconds())
	if id, ok := r.ID.Hash(); ok {
		c[13].UUID(id)
	} else {
		c[13].Null()
	}
	if r.DoubtEnd.IsZero() {
		c[14].Null()
	} else {
		c[14].Int64(time.Since(r.DoubtEnd).Microseconds())
	}
	since := r.Latency
	if !r.Began.IsZero() {
		since = max(since, time.Since(r.Began))
	}
	c[15].Int64(since.Microseconds())
}

// kept reports whether an attempt gets a row: it has ended or is marked, and is not a first one that simply succeeded.
func (r *Result) kept() bool {
	return r.Attempt > 0 && r.Status != Processing && (r.Attempt > 1 || r.Status != Done || r.Marked)
}

// attempt adds the row of an attempt. Of an attempt a write has one row at most; see attemptsInsert.
func (wr *windowResults) attempt(r *Result) {
	c := wr.failed
	c[0].Int32(r.Claim.ID)
	c[1].Int64(r.LaneSeq)
	c[2].Text(string(r.Status))
	c[3].Int32(int32(r.Attempt))
	c[4].Text(pg.Clean(r.Class, 40))
	c[5].Int32(int32(r.Code))
	c[6].Int32(microseconds(r.Latency))
	c[7].Text(pg.Clean(r.Error, MaxErrorText))
	c[8].Bytes(response(r))
	if r.Trace == ([16]byte{}) {
		c[9].Null()
	} else {
		c[9].UUID(r.Trace)
	}
}

// queue adds the statements; windows, and in them lanes, ascend.
func (w *resultWrite) queue(ctx context.Context, p *pg.Pipeline, win *windowSet, held [][]byte) error {
	age := [][]byte{pg.Int64Param(time.Since(w.decided).Microseconds())}
	for _, id := range slices.Sorted(maps.Keys(w.windows)) {
		wr := w.windows[id]
		complete, ok := win.q.complete[id]
		if !ok {
			return errRotated
		}
		for _, c := range wr.completions {
			if err := p.Add(ctx, complete, nil, c.params()...); err != nil {
				return err
			}
		}
		for _, step := range []struct {
			s    pg.Statement
			rows rows
			more [][]byte
		}{{win.q.update[id], wr.updates, age}, {win.q.insert[id], wr.inserts, age}, {win.q.attempt[id], wr.failed, nil}} {
			if step.rows.n() == 0 {
				continue
			}
			if err := p.Add(ctx, step.s, nil, append(step.rows.params(held...), step.more...)...); err != nil {
				return err
			}
		}
		for _, check := range []step{{wr.made, win.q.standing[id], nil}, {wr.known, win.q.known[id], nil}} {
			if check.rows.n() == 0 {
				continue
			}
			if err := p.Add(ctx, check.s, nil, append(check.rows.params(), held...)...); err != nil {
				return err
			}
		}
	}
	for i := range w.reported {
		if err := p.Add(ctx, resultEnd, nil, w.reported[i].resultParams()...); err != nil {
			return err
		}
	}
	for _, l := range w.newLows {
		if err := p.Add(ctx, laneLowWrite, nil, append(l.claim.fenceParams(), pg.Int64Param(l.laneSeq))...); err != nil {
			return err
		}
	}
	return nil
}

func (c *completions) params() [][]byte {
	var responses []byte
	if c.answered {
		responses = c.responses.Param()
	}
	return append(c.key.claim.fenceParams(), pg.Int64Param(c.key.bucket), pg.Int32Param(c.key.code), c.lanes.Param(), c.latencies.Param(), responses, pg.BoolParam(c.key.superseded))
}

// fenceParams name a claim's fence: id, epoch, token.
func (c *Claim) fenceParams() [][]byte {
	return [][]byte{pg.Int32Param(c.ID), pg.Int64Param(c.Epoch), c.Token[:]}
}

// markCommitted notes that the write is committed, and moves the claims' marks on.
func (w *resultWrite) markCommitted() {
	for _, l := range w.recorded {
		l.claim.mu.Lock()
		l.claim.marks.markRecorded(l.laneSeq)
		l.claim.mu.Unlock()
	}
	for _, c := range w.claims {
		c.mu.Lock()
		c.marks.advance()
		c.mu.Unlock()
	}
	for _, l := range w.newLows {
		l.claim.mu.Lock()
		l.claim.marks.lowSaved(l.laneSeq)
		l.claim.mu.Unlock()
	}
}

// markUnknown takes back the marks of a write that failed or whose COMMIT got no answer. Its results are recorded again: a
// completion that is there twice does no harm. Until then nothing else is written of these actions, because a row that
// says pending would hide the completion. Rows are written so that it does not matter whether they exist.
func (w *resultWrite) markUnknown() {
	for _, l := range w.ended {
		l.claim.mu.Lock()
		b, i := l.claim.marks.at(l.laneSeq)
		b.ended.unset(i)
		b.maybeEnded.set(i)
		l.claim.mu.Unlock()
	}
}
