package gate

// Release lets all events on the given version lines run that wait with a deadline or are parked, because an operator says so and whatever
// the policy is. They leave the buffer in their order, and the values that are missing before them count as skipped. Release advances st.
// Where Policy.MaxReleases leaves some, call it again.
// Version lines on which nothing waits are left alone. For held events see Redrive and Discard.
func Release(st *State, lines []VersionLineKey, p Policy) []Outcome {
	d := decider{state: st, policy: p}
	for _, k := range lines {
		d.letGo(k)
	}
	return d.out
}

// letGo lets what waits on a version line run in its order, gap after gap, as far as the step has room.
func (d *decider) letGo(k VersionLineKey) {
	for p := d.policy; len(d.state.Waiting[k]) > 0 && (p.MaxReleases == 0 || d.released < p.MaxReleases); {
		if d.state.beginsAgain(k) {
			d.beginAgain(k)
			continue
		}
		if d.state.Releasing(k) {
			d.releaseReached(k, d.state.Lines[k])
			continue
		}
		d.released++
		d.skip(k, ThenSkip)
	}
}

// Reached reports whether the lowest event that waits on a version line with a deadline is not ahead of the line. Decide and Expire leave such
// an event only where they were given the first of the events that wait there and no more, or under Policy.MaxReleases.
func (st *State) Reached(k VersionLineKey) bool {
	line, w := st.Lines[k], st.Waiting[k]
	return line != nil && len(w) > 0 && w[0].Decision == Buffered && !ahead(w[0].Version, line.At)
}

// Reach releases the events of a version line that are not ahead of it, as Decide and Expire would have done, had they been given them: for a
// caller that gives them only the first of many, so that no call releases too much. It has to be called, with the first of the rest, until
// State.Reached says no, before the line is given to another call. Reach advances st.
func Reach(st *State, k VersionLineKey, p Policy) []Outcome {
	d := decider{state: st, policy: p}
	if line := st.Lines[k]; line != nil {
		d.releaseReached(k, line)
	}
	return d.out
}

// Redrive lets a held event run, as an operator asked. It is late if its version line has newer versions by now. The line does not
// change.
func Redrive(st *State, held *Waiting) Outcome {
	o := Outcome{Record: -1, Released: held, Decision: Applied, Reason: ReasonRedriven, Version: held.Version}
	line := st.Lines[VersionLineKey{held.Entity, held.Version.Clock}]
	if line != nil {
		olderEpoch := held.Version.Epoch < line.At.Epoch
		older := held.Version.Comparable(line.At) && held.Version.Compare(line.At) < 0
		if olderEpoch || older {
			o.Decision = Late
		}
	}
	return o
}

// Discard returns the outcome of a held event that an operator gives up.
func Discard(held *Waiting) Outcome {
	return Outcome{Record: -1, Released: held, Decision: Stale, Reason: ReasonDiscarded, Version: held.Version}
}
