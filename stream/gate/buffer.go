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
	w := d.st.Waiting[k]
	return len(w) > 0 && w[0].Decision == Parked
}

// full reports whether a cap would be exceeded if s waited, too.
func (d *decider) full(k VersionLineKey, s subject) bool {
	w := d.st.Waiting[k]
	return d.p.MaxPerEntity > 0 && len(w) >= d.p.MaxPerEntity ||
		d.p.MaxBuffered > 0 && d.st.Buffered >= d.p.MaxBuffered ||
		d.p.MaxBytes > 0 && s.Size > d.p.MaxBytes-d.st.BufferedBytes ||
		d.p.MaxBytesPerEntity > 0 && s.Size > d.p.MaxBytesPerEntity-size(w)
}

func size(w []Waiting) (bytes int64) {
	for i := range w {
		bytes += w[i].Size
	}
	return bytes
}

// count adds an event that waits with a deadline (by is 1), or takes off one that leaves or is parked (by is -1).
func (d *decider) count(r *Record, by int) {
	d.st.Buffered += by
	d.st.BufferedBytes += int64(by) * r.Size
}

// enterBuffer puts s into the gap buffer. It gets the stage of the events that already wait on its version line.
func (d *decider) enterBuffer(k VersionLineKey, s subject, v schemas.Version, dec Decision, why Reason) {
	in := Waiting{Record: *s.Record, Decision: dec}
	in.Version = v // epoch given, future clamped
	w := d.st.Waiting[k]
	if len(w) > 0 {
		in.Stage = w[0].Stage
	}
	at := sort.Search(len(w), func(i int) bool { return compareWaiting(&w[i].Record, &in.Record) >= 0 })
	d.st.Waiting[k] = slices.Insert(w, at, in)
	if dec == Buffered {
		d.count(s.Record, 1)
	}
	d.conclude(s, v, dec, why)
}

// compareWaiting orders the buffer by version, then by offset. The versions have the version line's epoch.
func compareWaiting(a, b *Record) int { return a.compareTo(b.Version, b.Offset) }

// compareTo compares r with a version and an offset.
func (r *Record) compareTo(v schemas.Version, offset int64) int {
	return cmp.Or(r.Version.Compare(v), cmp.Compare(r.Offset, offset))
}

// park parks all events that wait on a version line. Events that come to the line afterwards are parked behind them.
func (d *decider) park(k VersionLineKey, why Reason) {
	line, w := d.st.Lines[k], d.st.Waiting[k]
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

// withdraw takes a filtered event out of the buffer, because its redelivery is about to be decided again. If nothing
// else waited, the version line is no longer parked.
func (d *decider) withdraw(k VersionLineKey, i int) {
	s := d.removeWaiting(k, i)
	if i == 0 {
		d.restartWait(k)
	}
	line := d.st.Lines[k]
	if line != nil && len(d.st.Waiting[k]) == 0 {
		line.Parked = ""
	}
	d.conclude(s, s.Version, Filtered, ReasonType)
}

// removeWaiting removes the i-th waiting event from a version line's buffer. The first is not copied, since its memory is not used
// again. Any other one is copied, because the rest of the buffer moves over it.
func (d *decider) removeWaiting(k VersionLineKey, i int) subject {
	w := d.st.Waiting[k]
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
		delete(d.st.Waiting, k)
	} else {
		d.st.Waiting[k] = w
	}
	return subject{-1, &out.Record, out}
}

// indexInBuffer returns the index of an event in a version line's buffer, or -1.
func (d *decider) indexInBuffer(k VersionLineKey, key schemas.EventKey) int {
	if len(d.st.Waiting) == 0 {
		return -1
	}
	return slices.IndexFunc(d.st.Waiting[k], func(w Waiting) bool { return w.Key == key })
}
