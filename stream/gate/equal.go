package gate

import "github.com/forebay-io/forebay/schemas"

// equal decides an event of its line's own version; why is the reason where it applies.
//
// With first, the one before is kept: only one that is known to be a snapshot is dropped, anything else is news and
// runs marked. A filtered event has run nothing, so that one of its version which is wanted is the first.
func (d *decider) equal(line *Line, s subject, v schemas.Version, why Reason) {
	kept := d.p.Equal == EqualFirst && !line.Filtered
	line.twin(s)
	switch {
	case !kept:
		d.conclude(s, v, Applied, why)
	case s.Payload == schemas.Snapshot:
		d.conclude(s, v, Stale, ReasonEqualFirst)
	default:
		d.conclude(s, v, Late, ReasonEqualFirst)
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
		switch v := &w[i].Version; {
		case v.Value != s.Version.Value || v.Sub != s.Version.Sub:
			return false // the buffer is sorted
		case w[i].Payload == schemas.Snapshot && !w[i].Filtered:
			return true
		}
	}
	return false
}
