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
	completions      []*completions
	open             map[completionKey]*completions
	updates, inserts *resultRows // of actions whose rows are there, that have none
	attempts         *attemptRows
	made             *actionRows // actions that must have a row then
	known            *actionRows // actions that must have a row, or be done
}

// completions is one row of the table.
type completions struct {
	key       completionKey
	lanes     pg.Int16s
	latencies pg.Int32s
	responses pg.Blobs
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
			wr.attempts.add(r)
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
		wr = &windowResults{open: map[completionKey]*completions{}, updates: newResultRows(), inserts: newResultRows(), attempts: newAttemptRows(),
			made: newActionRows(), known: newActionRows()}
		w.windows[id] = wr
	}
	return wr
}

// action decides where a result is written. An action that has ended does not change.
func (w *resultWrite) action(wr *windowResults, r *Result) {
	m := &r.Claim.marks
	if r.LaneSeq < m.low { // it is done, or it has a row
		wr.updates.add(r)
		wr.known.add(r.Claim.ID, r.LaneSeq)
		return
	}
	b, i := m.at(r.LaneSeq)
	ref := laneRef{r.Claim, r.LaneSeq}
	switch {
	case b.ended.has(i):
		return
	case b.withRow.has(i) && b.recorded.has(i):
		wr.updates.add(r)
		wr.made.add(r.Claim.ID, r.LaneSeq)
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
		c = &completions{key: key}
		wr.open[key] = c
		wr.completions = append(wr.completions, c)
	}
	c.lanes.Add(int16(r.LaneSeq & (bucketSize - 1)))
	c.latencies.Add(microseconds(r.Latency))
	answer := response(r)
	c.responses.Add(answer)
	c.answered = c.answered || answer != nil
	c.size += len(answer)
}

// insert gives an action a row, which must be there then.
func (wr *windowResults) insert(r *Result) {
	wr.inserts.add(r)
	wr.made.add(r.Claim.ID, r.LaneSeq)
}

// resultRows are what results make of actions' rows: actionsUpdate and actionsInsert, behind the fences.
type resultRows struct {
	columns
	fence, attempt, code, latency         pg.Int32s
	laneSeq, nextIn, left, silence, doubt pg.Int64s
	since                                 pg.Int64s
	status, class, errors                 pg.Texts
	response, packed                      pg.Blobs
	id                                    pg.UUIDs
}

func newResultRows() *resultRows {
	r := &resultRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"status", &r.status}, {"attempt", &r.attempt}, {"next_in", &r.nextIn},
		{"class", &r.class}, {"code", &r.code}, {"latency_us", &r.latency}, {"error", &r.errors}, {"response", &r.response}, {"packed", &r.packed},
		{"left_us", &r.left}, {"silence_us", &r.silence}, {"action_id", &r.id}, {"doubt_us", &r.doubt}, {"since_us", &r.since}}
	return r
}

func (c *resultRows) add(r *Result) {
	c.fence.Add(r.Claim.ID)
	c.laneSeq.Add(r.LaneSeq)
	c.status.Add(string(r.Status))
	c.attempt.Add(int32(r.Attempt))
	c.nextIn.Add(r.NextIn.Microseconds())
	c.class.Add(pg.Clean(r.Class, 40))
	c.code.Add(int32(r.Code))
	c.latency.Add(microseconds(r.Latency))
	c.errors.Add(pg.Clean(r.Error, MaxErrorText))
	c.response.Add(response(r))
	if r.Status == Done || r.Status == Superseded {
		c.packed.Null()
	} else {
		c.packed.Add(r.Packed)
	}
	c.left.Add(r.Left.Microseconds())
	c.silence.Add(r.Silence.Microseconds())
	if id, ok := r.ID.Hash(); ok {
		c.id.Add(id)
	} else {
		c.id.Null()
	}
	if r.DoubtEnd.IsZero() {
		c.doubt.Null()
	} else {
		c.doubt.Add(time.Since(r.DoubtEnd).Microseconds())
	}
	since := r.Latency
	if !r.Began.IsZero() {
		since = max(since, time.Since(r.Began))
	}
	c.since.Add(since.Microseconds())
}

// kept reports whether an attempt gets a row: it has ended or is marked, and is not a first one that simply succeeded.
func (r *Result) kept() bool {
	return r.Attempt > 0 && r.Status != Processing && (r.Attempt > 1 || r.Status != Done || r.Marked)
}

// attemptRows are attempts that get a row: attemptsInsert, behind the fences. Of an attempt a write has one row at most.
type attemptRows struct {
	columns
	fence, attempt, code, latency pg.Int32s
	laneSeq                       pg.Int64s
	status, class, errors         pg.Texts
	response                      pg.Blobs
	trace                         pg.UUIDs
}

func newAttemptRows() *attemptRows {
	r := &attemptRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"status", &r.status}, {"attempt", &r.attempt}, {"class", &r.class},
		{"code", &r.code}, {"latency_us", &r.latency}, {"error", &r.errors}, {"response", &r.response}, {"trace", &r.trace}}
	return r
}

func (c *attemptRows) add(r *Result) {
	c.fence.Add(r.Claim.ID)
	c.laneSeq.Add(r.LaneSeq)
	c.status.Add(string(r.Status))
	c.attempt.Add(int32(r.Attempt))
	c.class.Add(pg.Clean(r.Class, 40))
	c.code.Add(int32(r.Code))
	c.latency.Add(microseconds(r.Latency))
	c.errors.Add(pg.Clean(r.Error, MaxErrorText))
	c.response.Add(response(r))
	c.trace.AddOrNull(r.Trace)
}

// steps are the statements; windows, and in them lanes, ascend.
func (w *resultWrite) steps(win *windowSet, held [][]byte) (l steps, err error) {
	age := pg.Int64Param(time.Since(w.decided).Microseconds())
	for _, id := range slices.Sorted(maps.Keys(w.windows)) {
		wr := w.windows[id]
		complete, ok := win.q.complete[id]
		if !ok {
			return nil, errRotated
		}
		for _, c := range wr.completions {
			l = append(l, step{complete, c.params()})
		}
		l.add(win.q.update[id], held, wr.updates.columns, age)
		l.add(win.q.insert[id], held, wr.inserts.columns, age)
		l.add(win.q.attempt[id], held, wr.attempts.columns)
		l.add(win.q.standing[id], nil, wr.made.columns, held...)
		l.add(win.q.known[id], nil, wr.known.columns, held...)
	}
	for i := range w.reported {
		l = append(l, step{resultEnd, w.reported[i].resultParams()})
	}
	for _, low := range w.newLows {
		l = append(l, step{laneLowWrite, append(low.claim.fenceParams(), pg.Int64Param(low.laneSeq))})
	}
	return l, nil
}

func (w *resultWrite) queue(ctx context.Context, p *pg.Pipeline, win *windowSet, held [][]byte) error {
	l, err := w.steps(win, held)
	if err != nil {
		return err
	}
	return l.queue(ctx, p)
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
