package gate

import (
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// Request asks for a backfill of what is missing on a version line. The answer comes as records of the same partition with
// Record.Backfill set.
type Request struct {
	VersionLine VersionLineKey
	// From and To are the values that are missing, both included, of kind sequence; for the other kinds they are 0. On a
	// version line that has not begun, From is its first value, or 1 if the provider promises none.
	From, To int64
	// Before is the version of the lowest event that waits.
	Before schemas.Version
	Reason Reason // gap, start_gap or start_backfill
}

// Wanted returns those of State.Requests that are still needed: the last one of each version line on which events wait for a backfill.
// The gap of an earlier one may have been filled by a later record of the same call.
func (st *State) Wanted() (wanted []Request) {
	done := make(map[VersionLineKey]bool, len(st.Requests))
	for _, r := range slices.Backward(st.Requests) {
		lowest, waits := st.Waits(r.VersionLine)
		if waits && lowest.Stage == Backfilling && !done[r.VersionLine] {
			done[r.VersionLine] = true
			wanted = append(wanted, r)
		}
	}
	slices.Reverse(wanted)
	return wanted
}

// backfillsFirst reports whether a backfill is asked for before the wait on the version line ends.
func (d *decider) backfillsFirst(k VersionLineKey) bool {
	return d.policy.Then == ThenBackfill || (d.policy.Start == StartBackfill && d.state.Lines[k] == nil)
}

// afterWait returns what follows when neither a filler nor a backfill has ended the wait on the version line.
func (d *decider) afterWait(k VersionLineKey) Then {
	switch {
	case d.policy.Order == OrderArrival: // it is no gap any more
		return ThenSkip
	case d.backfillsFirst(k):
		return d.policy.otherwise()
	}
	return d.policy.Then
}

// expire ends the wait of a version line on which events wait with a deadline: the first wait in a request for a backfill where the
// policy has one, otherwise as afterWait says.
func (d *decider) expire(k VersionLineKey) {
	switch then := d.afterWait(k); {
	case d.policy.Order == OrderArrival: // nothing waits for anything any more
		d.unbounded(func() { d.letGo(k) })
	case d.state.beginsAgain(k):
		d.beginAgain(k)
	case d.state.Releasing(k):
		d.releaseReached(k, d.state.Lines[k])
	case d.backfillsFirst(k) && d.state.Waiting[k][0].Stage != Backfilling:
		d.requestBackfill(k)
	case then == ThenPark:
		d.park(k, ReasonGapExpired)
	default:
		d.skip(k, then)
	}
}

// requestBackfill asks for what is missing on a version line. The events that wait there now wait for the answer.
func (d *decider) requestBackfill(k VersionLineKey) {
	d.state.short(k)
	w := d.state.Waiting[k]
	for i := range w {
		w[i].Stage = Backfilling
	}
	r := Request{VersionLine: k, Before: w[0].Version, Reason: ReasonGap}
	line := d.state.Lines[k]
	if line == nil {
		r.Reason = ReasonStartGap
		if d.policy.Start == StartBackfill {
			r.Reason = ReasonStartBackfill
		}
	}
	if r.Before.Kind == schemas.Sequence {
		r.From, r.To = missing(line, &w[0].Record)
	}
	d.state.Requests = append(d.state.Requests, r)
}

// missing returns the values that are missing between a version line (nil: it has not begun) and an event ahead of it, both ends included.
// There is always one: below a version line's first event, at least the value before it.
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

// restartWait has the events that still wait on a version line wait for a filler. If a backfill was asked for, that was for the gap
// before theirs, which has ended.
func (d *decider) restartWait(k VersionLineKey) {
	w := d.state.Waiting[k]
	if len(w) == 0 || w[0].Stage != Backfilling {
		return
	}
	d.state.short(k)
	for i := range w {
		w[i].Stage = Filling
	}
}

// coversGap reports whether s is a synthetic snapshot that the subscription wants: it contains what is missing below it.
// A filtered one does not count, because nothing runs for it.
func (s subject) coversGap() bool {
	return s.Backfill && s.Payload == schemas.Snapshot && !s.idle()
}
