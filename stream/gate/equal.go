package gate

import "github.com/forebay-io/forebay/schemas"

// equal decides an event of its version line's own version; why is the reason if it applies.
//
// With equal: first, it is treated as if it were older; with hold, an operator decides. But if the event before was filtered, nothing of
// this version has run, and this one counts as the first. A synthetic event is treated as with first: what it was fetched for has come
// from the provider.
func (d *decider) equal(line *VersionLine, s subject, v schemas.Version, why Reason) {
	ran := !line.Filtered
	line.replaceFiltered(s)
	switch {
	case ran && (d.policy.Equal == EqualFirst || s.Backfill):
		d.applyStalePolicy(s, v, ReasonEqualFirst, ReasonEqualHeld)
	case ran && d.policy.Equal == EqualHold:
		d.hold(s, v, ReasonEqualHeld)
	default:
		d.conclude(s, v, Applied, why)
	}
}

// replacedByLater reports whether, with equal: last, a later snapshot of the same version waits on the version line. Then s does
// not run. Filtered events and deltas replace nothing.
func (d *decider) replacedByLater(k VersionLineKey, s subject) bool {
	if d.policy.Equal != EqualLast || s.Payload != schemas.Snapshot {
		return false
	}
	w := d.state.Waiting[k]
	for i := range w {
		if i == d.state.First[k] {
			d.state.short(k)
		}
		switch {
		case w[i].Version.Compare(s.Version) != 0 || !w[i].Version.Comparable(s.Version):
			return false // what waits is sorted by version, and nothing older than s waits any more
		case w[i].Payload == schemas.Snapshot && !w[i].idle():
			return true
		}
	}
	return false
}
