package gate

import "github.com/forebay-io/forebay/schemas"

// equal decides an event of its line's own version; why is the reason where it applies.
//
// With first, the one before is kept, and this one dealt with as if it were older; with hold, a person decides. A
// filtered event has run nothing, so that one of its version which is wanted is the first. A synthetic event is never a
// second one of its version: what it was fetched for has come by itself.
func (d *decider) equal(line *Line, s subject, v schemas.Version, why Reason) {
	ran := !line.Filtered
	line.twin(s)
	switch {
	case ran && (d.p.Equal == EqualFirst || s.Backfill):
		d.past(s, v, ReasonEqualFirst, ReasonEqualHeld)
	case ran && d.p.Equal == EqualHold:
		d.setAside(s, v, ReasonEqualHeld)
	default:
		d.conclude(s, v, Applied, why)
	}
}

// overtaken reports whether a snapshot that leaves the buffer is replaced, with last, by a later one of its version that
// waits on the line too. One that the subscription does not want replaces nothing, and neither does a delta.
func (d *decider) overtaken(k LineKey, s subject) bool {
	if d.p.Equal != EqualLast || s.Payload != schemas.Snapshot {
		return false
	}
	w := d.st.Waiting[k]
	for i := range w {
		switch {
		case w[i].Version.Compare(s.Version) != 0:
			return false // the buffer is sorted
		case w[i].Payload == schemas.Snapshot && !w[i].Filtered:
			return true
		}
	}
	return false
}
