package gate

// Release ends every wait on the given version lines because an operator says so, with a deadline or parked, whatever the policy
// is. All that waits there leaves the buffer in its order, and the values missing before it count as skipped. It advances
// st. Lines on which nothing waits are left alone. For held events see Redrive and Discard.
func Release(st *State, lines []VersionLineKey, p Policy) []Outcome {
	d := decider{st: st, p: p}
	for _, k := range lines {
		for len(st.Waiting[k]) > 0 {
			d.skip(k, ThenSkip)
		}
	}
	return d.out
}

// Redrive lets a held event run, as an operator asked. It is late if its version line has newer versions by now. The line does not
// change.
func Redrive(st *State, held *Waiting) Outcome {
	o := Outcome{Record: -1, Released: held, Decision: Applied, Reason: ReasonRedriven, Version: held.Version}
	line := st.Lines[VersionLineKey{held.Entity, held.Version.Clock}]
	if line != nil && (held.Version.Epoch < line.At.Epoch || held.Version.Comparable(line.At) && held.Version.Compare(line.At) < 0) {
		o.Decision = Late
	}
	return o
}

// Discard returns the outcome of a held event that an operator gives up.
func Discard(held *Waiting) Outcome {
	return Outcome{Record: -1, Released: held, Decision: Stale, Reason: ReasonDiscarded, Version: held.Version}
}
