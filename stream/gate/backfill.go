package gate

import (
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// Request asks for the truth about a line on which events wait. Its answer comes as records of the same partition, with
// Record.Backfill set.
type Request struct {
	Line LineKey
	// From and To are the places that are missing, both included, of kind sequence; for the other kinds they are 0. On a
	// line that has not begun From is its first value, or 1 where nobody promised one.
	From, To int64
	// Before is the version of the lowest event that waits.
	Before schemas.Version
	Reason Reason // gap, start_gap or start_backfill
}

// Wanted gives those of Requests that still wait for an answer: the last one of each line that is Backfilling. One
// whose gap a later record of the same call has filled is not worth a question any more.
func (st *State) Wanted() (wanted []Request) {
	asked := make(map[LineKey]bool, len(st.Requests))
	for _, r := range slices.Backward(st.Requests) {
		if w, waits := st.Waits(r.Line); waits && w.Stage == Backfilling && !asked[r.Line] {
			asked[r.Line] = true
			wanted = append(wanted, r)
		}
	}
	slices.Reverse(wanted)
	return wanted
}

// asks reports whether a wait on the line ends in a backfill first.
func (d *decider) asks(k LineKey) bool {
	return d.p.Then == ThenBackfill || d.p.Start == StartBackfill && d.st.Lines[k] == nil
}

// last is what a wait on the line comes to when nothing fills it, nor a backfill.
func (d *decider) last(k LineKey) Then {
	if d.asks(k) {
		return d.p.otherwise()
	}
	return d.p.Then
}

// expire ends the wait of a line on which events wait with a deadline.
func (d *decider) expire(k LineKey) {
	switch then := d.last(k); {
	case d.asks(k) && d.st.Waiting[k][0].Stage != Backfilling:
		d.ask(k)
	case then == ThenPark:
		d.park(k, ReasonGapExpired)
	default:
		d.skip(k, then)
	}
}

// ask requests what is missing at a line. What waits on it waits for the answer from now on.
func (d *decider) ask(k LineKey) {
	w := d.st.Waiting[k]
	for i := range w {
		w[i].Stage = Backfilling
	}
	r := Request{Line: k, Before: w[0].Version, Reason: ReasonGap}
	line := d.st.Lines[k]
	switch {
	case line != nil:
	case d.p.Start == StartBackfill:
		r.Reason = ReasonStartBackfill
	default:
		r.Reason = ReasonStartGap
	}
	if r.Before.Kind == schemas.Sequence {
		r.From, r.To = missing(line, &w[0].Record)
	}
	d.st.Requests = append(d.st.Requests, r)
}

// missing is the closed range of places between a line, which may not have begun, and an event ahead of it. It is never
// empty: below a line's first event there is at least the place before it.
func missing(line *Line, r *Record) (from, to int64) {
	switch {
	case line != nil:
		from = line.At.Value + 1 // the event is ahead: neither can overflow
	case r.First != nil:
		from = *r.First
	default:
		from = 1
	}
	if to = r.Version.Value; to > math.MinInt64 {
		to--
	}
	return min(from, to), to
}

// anew lets what still waits on a line wait for its own filler: the gap that was asked for is not the one before it.
func (d *decider) anew(k LineKey) {
	w := d.st.Waiting[k]
	if len(w) == 0 || w[0].Stage == Filling {
		return
	}
	for i := range w {
		w[i].Stage = Filling
	}
}

// covers reports whether s is a synthetic snapshot that the subscription wants: what is missing below it is in it. One
// that is filtered covers nothing, because nobody sees it.
func (s subject) covers() bool {
	return s.Backfill && s.Payload == schemas.Snapshot && !s.Filtered
}
