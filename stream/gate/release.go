package gate

// Release ends every wait on the given lines at a person's word, be it with a deadline or parked, as skip does and
// whatever the policy says: all that waits there leaves the buffer in its order, and the places before it are skipped.
// Events that are set aside (Outcome.Held) are not the gate's any more: see Redrive and Discard. It advances st. Lines on
// which nothing waits are left alone.
func Release(st *State, lines []LineKey, p Policy) []Outcome {
	d := decider{st: st, p: p}
	for _, k := range lines {
		for len(st.Waiting[k]) > 0 {
			d.skip(k, ThenSkip)
		}
	}
	return d.out
}

// Redrive lets an event run that was set aside, at a person's word: marked late where its line has gone on. The line is
// left as it is.
func Redrive(st *State, held *Waiting) Outcome {
	o := Outcome{Record: -1, Released: held, Decision: Applied, Reason: ReasonRedriven, Version: held.Version}
	line := st.Lines[LineKey{held.Entity, held.Version.Clock}]
	if line != nil && (held.Version.Epoch < line.At.Epoch || held.Version.Comparable(line.At) && held.Version.Compare(line.At) < 0) {
		o.Decision = Late
	}
	return o
}

// Discard gives an event up that was set aside, at a person's word.
func Discard(held *Waiting) Outcome {
	return Outcome{Record: -1, Released: held, Decision: Stale, Reason: ReasonDiscarded, Version: held.Version}
}
