package gate

import (
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// Request asks for a backfill of what is missing on a version line. The answer comes as records of the same partition with
// Record.Backfill set.
type Request struct {
	Line VersionLineKey
	// From and To are the places that are missing, both included, of kind sequence; for the other kinds they are 0. On a
	// version line that has not begun From is its first value, or 1 where the provider promises none.
	From, To int64
	// Before is the version of the lowest event that waits.
	Before schemas.Version
	Reason Reason // gap, start_gap or start_backfill
}

// Wanted returns the Requests that are still needed: the last one of each version line that is Backfilling. A later record of the
// same call may have filled the gap of another.
func (st *State) Wanted() (wanted []Request) {
	taken := make(map[VersionLineKey]bool, len(st.Requests))
	for _, r := range slices.Backward(st.Requests) {
		if w, waits := st.Waits(r.Line); waits && w.Stage == Backfilling && !taken[r.Line] {
			taken[r.Line] = true
			wanted = append(wanted, r)
		}
	}
	slices.Reverse(wanted)
	return wanted
}

// backfillsFirst reports whether a backfill is asked for before the wait on the version line ends.
func (d *decider) backfillsFirst(k VersionLineKey) bool {
	return d.p.Then == ThenBackfill || d.p.Start == StartBackfill && d.st.Lines[k] == nil
}

// afterWait returns what follows when neither a filler nor a backfill has ended the wait on the version line.
func (d *decider) afterWait(k VersionLineKey) Then {
	if d.backfillsFirst(k) {
		return d.p.otherwise()
	}
	return d.p.Then
}

// expire ends the wait of a version line on which events wait with a deadline.
func (d *decider) expire(k VersionLineKey) {
	switch then := d.afterWait(k); {
	case d.backfillsFirst(k) && d.st.Waiting[k][0].Stage != Backfilling:
		d.requestBackfill(k)
	case then == ThenPark:
		d.park(k, ReasonGapExpired)
	default:
		d.skip(k, then)
	}
}

// requestBackfill asks for what is missing on a version line. What waits on the line now waits for the answer.
func (d *decider) requestBackfill(k VersionLineKey) {
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

// missing returns the closed range of places between a version line, which may not have begun, and an event ahead of it. It is never
// empty: below a line's first event there is at least the place before it.
func missing(line *VersionLine, r *Record) (from, to int64) {
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

// restartWait lets what still waits on a version line wait for a filler again. A backfill was asked for another gap, which has
// ended.
func (d *decider) restartWait(k VersionLineKey) {
	w := d.st.Waiting[k]
	if len(w) == 0 || w[0].Stage == Filling {
		return
	}
	for i := range w {
		w[i].Stage = Filling
	}
}

// coversGap reports whether s is a synthetic snapshot that the subscription wants: it contains what is missing below it.
// A filtered one does not count, because nothing runs for it.
func (s subject) coversGap() bool {
	return s.Backfill && s.Payload == schemas.Snapshot && !s.Filtered
}
