package gate

import (
	"cmp"
	"slices"
	"sort"

	"github.com/forebay-io/forebay/schemas"
)

// parked reports whether the events that wait on the version line are parked, for a filler or an operator. It looks at the events,
// because a line that has not begun does not exist yet.
func (d *decider) parked(k VersionLineKey) bool {
	w := d.state.Waiting[k]
	return len(w) > 0 && w[0].Decision == Parked
}

// full reports whether a cap would be exceeded if s waited, too.
func (d *decider) full(k VersionLineKey, s subject) bool {
	w := d.state.Waiting[k]
	return (d.policy.MaxPerEntity > 0 && len(w) >= d.policy.MaxPerEntity) ||
		(d.policy.MaxBuffered > 0 && d.state.Buffered >= d.policy.MaxBuffered) ||
		(d.policy.MaxBytes > 0 && s.Size > d.policy.MaxBytes-d.state.BufferedBytes) ||
		(d.policy.MaxBytesPerEntity > 0 && s.Size > d.policy.MaxBytesPerEntity-size(w))
}

// size returns the bytes of payload of waiting events.
func size(w []Waiting) (bytes int64) {
	for i := range w {
		bytes += w[i].Size
	}
	return bytes
}

// count adds to what Policy.MaxBuffered and MaxBytes bound an event that waits with a deadline (by is 1), or takes off one that leaves
// the buffer or is parked (by is -1).
func (d *decider) count(r *Record, by int) {
	d.state.Buffered += by
	d.state.BufferedBytes += int64(by) * r.Size
}

// enterBuffer puts s into the gap buffer with version v and decision dec, which is Buffered or Parked. s gets the stage of the events
// that already wait on its version line.
func (d *decider) enterBuffer(k VersionLineKey, s subject, v schemas.Version, dec Decision, why Reason) {
	entry := Waiting{Record: *s.Record, Decision: dec}
	entry.Version = v // epoch given, future clamped
	w := d.state.Waiting[k]
	if len(w) > 0 && w[0].Stage != Releasing {
		entry.Stage = w[0].Stage
	}
	line := d.state.Lines[k]
	i := sort.Search(len(w), func(i int) bool { return compareWaiting(line, &w[i].Record, &entry.Record) >= 0 })
	d.state.Waiting[k] = slices.Insert(w, i, entry)
	d.state.firstEntered(k, i)
	if keys := d.keys[k]; keys != nil {
		keys[entry.Key] = struct{}{}
	}
	d.markStep(k)
	if dec == Buffered {
		d.count(s.Record, 1)
	}
	d.conclude(s, v, dec, why)
}

// compareWaiting orders the buffer of a version line (nil: it has not begun) by version, then by offset. Of the line's epoch, those of its kind
// come before those that begin it again with values of another.
func compareWaiting(line *VersionLine, a, b *Record) int {
	if line != nil && a.Version.Epoch == b.Version.Epoch {
		if first := line.continues(a.Version); first != line.continues(b.Version) {
			if first {
				return -1
			}
			return 1
		}
	}
	return a.compareTo(b.Version, b.Offset)
}

// Sort brings what waits on a version line, as the caller read it, into the order of State.Waiting.
func (st *State) Sort(k VersionLineKey) {
	line := st.Lines[k]
	slices.SortFunc(st.Waiting[k], func(a, b Waiting) int { return compareWaiting(line, &a.Record, &b.Record) })
}

// compareTo compares r with a version and an offset.
func (r *Record) compareTo(v schemas.Version, offset int64) int {
	return cmp.Or(r.Version.Compare(v), cmp.Compare(r.Offset, offset))
}

// park parks all events that wait with a deadline on a version line, and the line. Events ahead of the line that come afterwards are
// parked behind them.
func (d *decider) park(k VersionLineKey, why Reason) {
	d.state.short(k)
	line, w := d.state.Lines[k], d.state.Waiting[k]
	if line != nil {
		line.Parked = why
	}
	before := slices.Clone(w) // outcomes point into it, and the buffer changes
	for i := range w {
		w[i].Decision, w[i].Stage = Parked, Filling
		d.count(&w[i].Record, -1)
		d.conclude(subject{-1, &before[i].Record, &before[i]}, before[i].Version, Parked, why)
	}
}

// withdraw takes the i-th event that waits on a version line out of the buffer, a filtered one, because its redelivery is about to be
// decided. If nothing else waited, the version line is no longer parked.
func (d *decider) withdraw(k VersionLineKey, i int) {
	s := d.removeWaiting(k, i)
	if i == 0 {
		d.restartWait(k)
	}
	d.markStep(k)
	line := d.state.Lines[k]
	if line != nil && len(d.state.Waiting[k]) == 0 {
		line.Parked = ""
	}
	d.conclude(s, s.Version, Filtered, s.FilteredBy())
}

// removeWaiting removes the i-th waiting event of a version line from the buffer and returns it. The first one stays where it is, since
// its memory is not used again; any other one is copied, because those behind it move over it.
func (d *decider) removeWaiting(k VersionLineKey, i int) subject {
	d.state.firstLeaves(k, i)
	w := d.state.Waiting[k]
	if w[i].Decision == Buffered {
		d.count(&w[i].Record, -1)
	}
	out := &w[i]
	if i == 0 {
		w = w[1:]
	} else {
		out = &Waiting{w[i].Record, w[i].Decision, w[i].Stage}
		w = slices.Delete(w, i, i+1)
	}
	if len(w) == 0 {
		delete(d.state.Waiting, k)
	} else {
		d.state.Waiting[k] = w
	}
	return subject{-1, &out.Record, out}
}

// manyWait is how many events may wait on a version line without an index of their keys.
const manyWait = 32

// indexInBuffer returns the index of an event in a version line's buffer, or -1. Where many wait, a set of the keys, made once a call, tells
// for nearly every event that it is not among them.
func (d *decider) indexInBuffer(k VersionLineKey, key schemas.EventKey) int {
	if len(d.state.Waiting) == 0 {
		return -1
	}
	w := d.state.Waiting[k]
	if len(w) > manyWait {
		if _, waits := d.keysOf(k, w)[key]; !waits {
			return -1
		}
	}
	return slices.IndexFunc(w, func(w Waiting) bool { return w.Key == key })
}

// keysOf returns the keys of the events that wait on a version line, and of some that have left it in this call.
func (d *decider) keysOf(k VersionLineKey, w []Waiting) map[schemas.EventKey]struct{} {
	keys := d.keys[k]
	if keys != nil {
		return keys
	}
	keys = make(map[schemas.EventKey]struct{}, len(w))
	for i := range w {
		keys[w[i].Key] = struct{}{}
	}
	if d.keys == nil {
		d.keys = map[VersionLineKey]map[schemas.EventKey]struct{}{}
	}
	d.keys[k] = keys
	return keys
}
