package gate

import (
	"cmp"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// gap decides an event before which places are missing. why is gap or start_gap.
func (d *decider) gap(k LineKey, s subject, v schemas.Version, why Reason) {
	switch {
	case d.parked(k):
		d.hold(k, s, v, Parked, ReasonBehindPark)
	case d.p.GapWait <= 0 && d.p.Then == ThenPark:
		d.park(k, ReasonGapExpired)
		d.hold(k, s, v, Parked, ReasonGapExpired)
	case d.p.GapWait <= 0:
		d.jump(k, s, v)
	case d.full(k):
		d.park(k, ReasonOverflow)
		d.hold(k, s, v, Parked, ReasonOverflow)
	default:
		d.hold(k, s, v, Buffered, why)
	}
}

// parked reports whether the line is held for its filler or a person. The events that wait tell, because a line that
// has not begun cannot; Line.Parked says why.
func (d *decider) parked(k LineKey) bool {
	w := d.st.Waiting[k]
	return len(w) > 0 && w[0].Decision == Parked
}

// full reports whether one more waiting event would be over a cap.
func (d *decider) full(k LineKey) bool {
	return d.p.MaxPerEntity > 0 && len(d.st.Waiting[k]) >= d.p.MaxPerEntity ||
		d.p.MaxBuffered > 0 && d.st.Buffered >= d.p.MaxBuffered
}

// hold puts s into the buffer.
func (d *decider) hold(k LineKey, s subject, v schemas.Version, dec Decision, why Reason) {
	w := d.st.Waiting[k]
	at, _ := slices.BinarySearchFunc(w, s.Record, func(w Waiting, r *Record) int { return order(&w.Record, r) })
	d.st.Waiting[k] = slices.Insert(w, at, Waiting{Record: *s.Record, Decision: dec})
	if dec == Buffered {
		d.st.Buffered++
	}
	d.conclude(s, v, dec, why)
}

// order is the order of the buffer: by version, then by offset.
func order(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.Version.Value, b.Version.Value), cmp.Compare(a.Version.Sub, b.Version.Sub),
		cmp.Compare(a.Offset, b.Offset))
}

// park turns everything that waits on a line into parked. What comes to the line afterwards is parked behind it.
func (d *decider) park(k LineKey, why Reason) {
	line, w := d.st.Lines[k], d.st.Waiting[k]
	if line != nil {
		line.Parked = why
	}
	were := slices.Clone(w) // the outcomes must not see the buffer move under them
	for i := range w {
		w[i].Decision = Parked
		d.st.Buffered--
		d.conclude(subject{-1, &were[i].Record, &were[i]}, taken(&were[i], line), Parked, why)
	}
}

// taken is a waiting event's version as the line takes it.
func taken(w *Waiting, line *Line) schemas.Version {
	v := w.Version
	if line != nil {
		v.Epoch = line.At.Epoch
	}
	return v
}

// jump is a wait of no length at all, Then skip: the line goes to v at once. Whatever waits below (from a policy that
// did wait) goes first.
func (d *decider) jump(k LineKey, s subject, v schemas.Version) {
	for w := d.st.Waiting[k]; len(w) > 0 && order(&w[0].Record, s.Record) < 0; w = d.st.Waiting[k] {
		d.skip(k)
	}
	if line := d.st.Lines[k]; line != nil && !ahead(v, line.At) {
		d.compare(k, line, s, v)
		return
	}
	d.leap(k, s, v)
}

// skip ends the gap before the lowest waiting event of a line.
func (d *decider) skip(k LineKey) {
	s := d.take(k, 0)
	for ; d.overtaken(k, s); s = d.take(k, 0) {
		d.conclude(s, taken(s.waited, d.st.Lines[k]), Stale, ReasonEqualLast)
	}
	d.leap(k, s, taken(s.waited, d.st.Lines[k]))
}

// leap brings the line to v across places that are missing, and remembers them.
func (d *decider) leap(k LineKey, s subject, v schemas.Version) {
	line := d.st.Lines[k]
	switch {
	case line != nil:
		line.skip(line.At.Value+1, v.Value-1) // v is ahead: neither can overflow
	default:
		line = &Line{}
		d.st.Lines[k] = line
		if s.First != nil && *s.First < v.Value {
			line.skip(*s.First, v.Value-1)
		}
	}
	line.advance(s, v)
	d.conclude(s, v, Applied, ReasonGapSkipped)
	d.settle(k, line)
}

// settle releases what the line has reached: what follows it densely and, where it came to stand above waiting
// events, those. A line on which nothing waits any more is not parked any more; one that was parked before it began,
// and on which events still wait, says so from now on.
func (d *decider) settle(k LineKey, line *Line) {
	if len(d.st.Waiting) == 0 {
		line.Parked = ""
		return
	}
	w := d.st.Waiting[k]
	for ; len(w) > 0 && !ahead(w[0].Version, line.At); w = d.st.Waiting[k] {
		s := d.take(k, 0)
		d.release(k, line, s, taken(s.waited, line))
	}
	switch {
	case len(w) == 0:
		line.Parked = ""
	case w[0].Decision == Parked && line.Parked == "":
		line.Parked = ReasonGapExpired
	}
}

// release decides a waiting event that its line has reached.
func (d *decider) release(k LineKey, line *Line, s subject, v schemas.Version) {
	switch c := v.Compare(line.At); {
	case c < 0:
		d.behind(line, s, v)
	case d.overtaken(k, s):
		d.conclude(s, v, Stale, ReasonEqualLast)
	case c == 0:
		d.equal(line, s, v, ReasonReleased)
	default:
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonReleased)
	}
}

// withdraw takes a filtered event out of the buffer that is about to be decided anew. If nothing else waited, the line
// is not parked any more.
func (d *decider) withdraw(k LineKey, i int) {
	s := d.take(k, i)
	line := d.st.Lines[k]
	if line != nil && len(d.st.Waiting[k]) == 0 {
		line.Parked = ""
	}
	d.conclude(s, taken(s.waited, line), Filtered, ReasonType)
}

// take removes a waiting event from the buffer. The first one's memory stays as it is: the buffer only ever moves
// away from it. Any other one is copied out.
func (d *decider) take(k LineKey, i int) subject {
	w := d.st.Waiting[k]
	if w[i].Decision == Buffered {
		d.st.Buffered--
	}
	out := &w[i]
	if i == 0 {
		w = w[1:]
	} else {
		out = &Waiting{w[i].Record, w[i].Decision}
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
func (d *decider) find(k LineKey, key schemas.EventKey) int {
	if len(d.st.Waiting) == 0 {
		return -1
	}
	return slices.IndexFunc(d.st.Waiting[k], func(w Waiting) bool { return w.Key == key })
}
