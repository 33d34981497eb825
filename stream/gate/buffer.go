package gate

import (
	"cmp"
	"slices"
	"sort"

	"github.com/forebay-io/forebay/schemas"
)

// parked reports whether what waits on the line is parked, for a filler or an operator. It asks the waiting events,
// because a line that has not begun has no row; Line.Parked says why.
func (d *decider) parked(k VersionLineKey) bool {
	w := d.st.Waiting[k]
	return len(w) > 0 && w[0].Decision == Parked
}

// full reports whether s, if it waited too, would be over a cap.
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

// enterBuffer puts s into the gap buffer. It gets the stage of what waits on its line already.
func (d *decider) enterBuffer(k VersionLineKey, s subject, v schemas.Version, dec Decision, why Reason) {
	in := Waiting{Record: *s.Record, Decision: dec}
	in.Version = v // epoch given, future clamped
	w := d.st.Waiting[k]
	if len(w) > 0 {
		in.Stage = w[0].Stage
	}
	at := sort.Search(len(w), func(i int) bool { return order(&w[i].Record, &in.Record) >= 0 })
	d.st.Waiting[k] = slices.Insert(w, at, in)
	if dec == Buffered {
		d.count(s.Record, 1)
	}
	d.conclude(s, v, dec, why)
}

// order is the order of the buffer: by version as the line takes it, then by offset.
func order(a, b *Record) int { return a.compareTo(b.Version, b.Offset) }

// compareTo compares r with a version and an offset.
func (r *Record) compareTo(v schemas.Version, offset int64) int {
	return cmp.Or(r.Version.Compare(v), cmp.Compare(r.Offset, offset))
}

// park turns everything that waits on a line into parked. What comes to the line afterwards is parked behind it.
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
// else waited, the line is no longer parked.
func (d *decider) withdraw(k VersionLineKey, i int) {
	s := d.take(k, i)
	if i == 0 {
		d.restartWait(k)
	}
	line := d.st.Lines[k]
	if line != nil && len(d.st.Waiting[k]) == 0 {
		line.Parked = ""
	}
	d.conclude(s, s.Version, Filtered, ReasonType)
}

// take removes a waiting event from the buffer. The first is not copied: its memory is never used again. Any other one
// is copied, because the buffer moves over it.
func (d *decider) take(k VersionLineKey, i int) subject {
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

// find is the place of an event in a line's buffer, or -1.
func (d *decider) find(k VersionLineKey, key schemas.EventKey) int {
	if len(d.st.Waiting) == 0 {
		return -1
	}
	return slices.IndexFunc(d.st.Waiting[k], func(w Waiting) bool { return w.Key == key })
}
