package gate

import (
	"github.com/forebay-io/forebay/schemas"
)

// Decide decides records, which are one partition's in offset order, and advances st. It never fails.
//
// Every record gets exactly one outcome with its index. Events that leave the gap buffer or are parked there have outcomes too, and
// requests for backfills are appended to State.Requests. Records are decided one after the other: cut into other batches, the same
// records get the same outcomes. Decide keeps no reference to records or st after it returns, but Outcome.Released points into memory of
// st; both belong to the caller.
func Decide(st *State, records []Record, p Policy) []Outcome {
	d := decider{state: st, policy: p, out: make([]Outcome, 0, len(records))}
	for i := range records {
		d.decide(subject{index: i, Record: &records[i]})
	}
	return d.out
}

// Fill is Decide for records that come behind what was decided since, as a replay of the log reads them: a snapshot that is older than its
// version line never runs, whatever the policy says of those that come late, and also where its value was skipped. A policy of hold still
// keeps it for an operator.
func Fill(st *State, records []Record, p Policy) []Outcome {
	d := decider{state: st, policy: p, fills: true, out: make([]Outcome, 0, len(records))}
	for i := range records {
		d.decide(subject{index: i, Record: &records[i]})
	}
	return d.out
}

// Expire ends the wait of the given version lines. What follows is Policy.Then. With skip, the lowest waiting event runs, and those
// that follow it without a gap. With dead_letter, the actions of these become dead letters. With park, the version line is parked. With
// backfill, the missing values are asked for (State.Requests), and if the wait for the answer ends too, Policy.Otherwise follows. The
// caller names only version lines whose deadline and read position it has checked. Expire advances st.
//
// Where Policy.MaxReleases has left events that their version line has reached, the next of them are released.
//
// One call ends one wait per version line, however often that is named: what waits behind another gap goes on waiting (see State.Waits)
// and gets its own deadline. Version lines on which nothing waits, or which are parked already and not being released, are left alone.
func Expire(st *State, lines []VersionLineKey, p Policy) []Outcome {
	d := decider{state: st, policy: p}
	ended := make(map[VersionLineKey]bool, len(lines))
	for _, k := range lines {
		if _, waits := st.Waits(k); waits && !ended[k] {
			ended[k] = true
			d.expire(k)
		}
	}
	return d.out
}

// decider is one call of the gate: the state that it advances, and the outcomes so far.
type decider struct {
	state  *State
	policy Policy
	fills  bool // the records are those of a replay: see Fill

	released int                                              // from gap buffers; see Policy.MaxReleases
	keys     map[VersionLineKey]map[schemas.EventKey]struct{} // of the events that wait on long lines; see indexInBuffer
	out      []Outcome
}

// subject is the event being decided: a record of the call, or one out of the gap buffer.
type subject struct {
	index int // into the call's records, or -1
	*Record
	waited *Waiting // the event as it waited, if it is one out of the gap buffer; otherwise nil
}

// decide asks the questions in their order: decodable? seen? filtered? version? gap? Whether the event is filtered is asked by
// decideByVersion, because a filtered event of kind sequence moves its version line like any other.
func (d *decider) decide(s subject) {
	switch {
	case s.NoEvent():
		d.add(s, s.Version, Quarantined, s.Broken)
	case d.decideSeen(s):
	case s.Broken != "":
		d.add(s, s.Version, Quarantined, s.Broken)
	default:
		d.decideByVersion(d.claimAlso(s))
	}
}

// claimAlso makes s the event that its second key is of, or notes in it that another one is. A filtered event claims nothing: nothing is done
// for it.
func (d *decider) claimAlso(s subject) subject {
	if s.Also == (Also{}) || s.Filtered || d.policy.Also == 0 {
		return s
	}
	first, known := d.state.Also[s.Also]
	if known && first.Key != s.Key && (first.Recent || s.AppendTime.Sub(first.At).Abs() < d.policy.Also) {
		r := *s.Record
		r.Repeats = true
		s.Record = &r
		return s
	}
	if !known || first.Key != s.Key {
		first.At = s.AppendTime
	}
	d.state.Also[s.Also] = Said{Key: s.Key, At: first.At, Recent: true}
	return s
}

// idle reports whether nothing is to be done for r, whatever its version is: it only fills its place.
func (r *Record) idle() bool { return r.Filtered || r.Repeats }

// decideSeen returns true if the event was decided before, and adds its outcome, duplicate or conflict. A filtered event that waits is
// taken out of the buffer if its redelivery would be decided otherwise: then that is to be decided, and decideSeen returns false.
func (d *decider) decideSeen(s subject) bool {
	seen, ok := d.state.Seen[s.Key]
	ok = ok && seen.Decision != Filtered // a filtered event is decided again, even if it is remembered
	if !ok || seen.Decision == Buffered || seen.Decision == Parked {
		// Ask the buffer too: it outlives the dedupe window, and it alone has filtered events that wait.
		k := VersionLineKey{s.Entity, s.Version.Clock}
		if i := d.indexInBuffer(k, s.Key); i >= 0 {
			w := &d.state.Waiting[k][i]
			// Another event of that id came first, on another version line or in another partition: a filtered one is not remembered.
			otherCameFirst := ok && (seen.Hash != w.Hash || w.Filtered)
			if !otherCameFirst {
				if w.Filtered && s.Broken != "" {
					return false // nobody knows whether it is wanted by now: it is quarantined, and what waits keeps its place
				}
				if w.Filtered && !sameDecision(&w.Record, s.Record) {
					d.withdraw(k, i)
					return false
				}
				seen, ok = Seen{w.Hash, w.Decision}, true
			}
		}
	}
	if !ok {
		return false
	}
	if seen.Hash == s.Hash {
		d.add(s, s.Version, Duplicate, ReasonSeen)
	} else {
		d.add(s, s.Version, Conflict, ReasonBodyDiffers)
	}
	return true
}

// sameDecision reports whether the redelivery r of a filtered event w that waits would only wait like w: it is filtered too, and has the
// same body and version.
func sameDecision(w, r *Record) bool {
	v := r.Version
	if v.Epoch == 0 {
		v.Epoch = w.Version.Epoch // without an epoch it is of its version line's, like w
	}
	return r.Filtered && w.Hash == r.Hash && w.Version.Comparable(v) && w.Version.Compare(v) == 0
}

// conclude adds an event's outcome and remembers the event as seen, unless it is filtered. A filtered event that would
// be applied, late or stale is `filtered`. One that has to wait for the events before it waits like any other.
func (d *decider) conclude(s subject, v schemas.Version, dec Decision, why Reason) {
	switch {
	case !s.Filtered:
		if s.Repeats && dec != Buffered && dec != Parked {
			dec, why = Duplicate, ReasonKey
		}
		d.state.Seen[s.Key] = Seen{s.Hash, dec}
	case dec != Buffered && dec != Parked:
		dec, why = Filtered, s.FilteredBy()
	}
	d.add(s, v, dec, why)
}

// add appends an event's outcome; v is its version as the version line took it.
func (d *decider) add(s subject, v schemas.Version, dec Decision, why Reason) {
	d.out = append(d.out, Outcome{Record: s.index, Released: s.waited, Decision: dec, Reason: why, Version: v})
}
