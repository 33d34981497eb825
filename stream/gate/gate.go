package gate

import (
	"github.com/forebay-io/forebay/schemas"
)

// Decide decides records, which are one partition's in offset order, and advances st. It never fails.
//
// Every record gets exactly one outcome with its index, and requests for backfills are appended to State.Requests. Records are
// decided one after the other, so that the same records in other batches get the same outcomes. Decide keeps no reference to records
// or st after it returns, but Outcome.Released points into memory of st; both belong to the caller.
func Decide(st *State, records []Record, p Policy) []Outcome {
	d := decider{st: st, p: p, out: make([]Outcome, 0, len(records))}
	for i := range records {
		d.decide(subject{index: i, Record: &records[i]})
	}
	return d.out
}

// Expire ends the wait of the given version lines. What follows is Policy.Then. With skip, the lowest waiting event runs, and those
// that follow it without a gap. With dead_letter, these become dead letters. With park, the line is parked. With backfill, the missing
// places are asked for (State.Requests), and if the wait for the answer ends too, Policy.Otherwise follows. The caller names only
// lines whose deadline and read position it has checked. Expire advances st.
//
// One call ends one wait per line, however often the line is named: what waits behind another gap goes on waiting (see
// State.Waits) and gets its own deadline. Lines on which nothing waits, or which are parked already, are left alone.
func Expire(st *State, lines []VersionLineKey, p Policy) []Outcome {
	d := decider{st: st, p: p}
	ended := make(map[VersionLineKey]bool, len(lines))
	for _, k := range lines {
		if _, waits := st.Waits(k); waits && !ended[k] {
			ended[k] = true
			d.expire(k)
		}
	}
	return d.out
}

// decider is one call: the state that it advances and the outcomes so far.
type decider struct {
	st  *State
	p   Policy
	out []Outcome
}

// subject is the event being decided: a record of the call, or one out of the gap buffer.
type subject struct {
	index int // into the call's records, or -1
	*Record
	waited *Waiting // set when index is -1
}

// decide asks the questions in their order: decodable? seen? filtered? version? gap? The filter's answer is asked for
// inside place, because a filtered event of kind sequence moves its version line like any other.
func (d *decider) decide(s subject) {
	switch {
	case s.Broken != "":
		d.add(s, s.Version, Quarantined, s.Broken)
	case !d.answerSeen(s):
		d.place(s)
	}
}

// answerSeen reports whether the event was decided before. If so it adds the outcome, duplicate or conflict.
func (d *decider) answerSeen(s subject) bool {
	seen, ok := d.st.Seen[s.Key]
	ok = ok && seen.Decision != Filtered // a filtered event is decided again, even if it is remembered
	if !ok || seen.Decision == Buffered || seen.Decision == Parked {
		// Ask the buffer too: it outlives the dedupe window, and it alone has filtered events that wait.
		k := VersionLineKey{s.Entity, s.Version.Clock}
		if i := d.indexInBuffer(k, s.Key); i >= 0 {
			w := &d.st.Waiting[k][i]
			switch {
			case ok && seen.Hash != w.Hash: // another event of that id, on another line: it came first
			case w.Filtered && !sameEvent(&w.Record, s.Record):
				d.withdraw(k, i)
				return false
			default:
				seen, ok = Seen{w.Hash, w.Decision}, true
			}
		}
	}
	switch {
	case !ok:
		return false
	case seen.Hash == s.Hash:
		d.add(s, s.Version, Duplicate, ReasonSeen)
	default:
		d.add(s, s.Version, Conflict, ReasonBodyDiffers)
	}
	return true
}

// sameEvent reports whether a filtered event that waits would be decided in the same way if it were decided again.
func sameEvent(w, r *Record) bool {
	v := r.Version
	if v.Epoch == 0 {
		v.Epoch = w.Version.Epoch // both are of their line's
	}
	return r.Filtered && w.Hash == r.Hash && w.Version.Comparable(v) && w.Version.Compare(v) == 0
}

// conclude adds an event's outcome and remembers the event as seen, unless it is filtered. A filtered event that would
// be applied, late or stale is `filtered`. One that has to wait for the events before it waits like any other.
func (d *decider) conclude(s subject, v schemas.Version, dec Decision, why Reason) {
	switch {
	case !s.Filtered:
		d.st.Seen[s.Key] = Seen{s.Hash, dec}
	case dec != Buffered && dec != Parked:
		dec, why = Filtered, ReasonType
	}
	d.add(s, v, dec, why)
}

// add appends an outcome.
func (d *decider) add(s subject, v schemas.Version, dec Decision, why Reason) {
	d.out = append(d.out, Outcome{Record: s.index, Released: s.waited, Decision: dec, Reason: why, Version: v})
}
