package gate

import "github.com/forebay-io/forebay/schemas"

// gap decides an event before which places are missing, or the truth. why is gap, start_gap or start_backfill.
func (d *decider) gap(k LineKey, s subject, v schemas.Version, why Reason) {
	atOnce := d.p.GapWait <= 0 && v.Kind == schemas.Sequence && !d.asks(k)
	switch {
	case d.parked(k):
		d.hold(k, s, v, Parked, ReasonBehindPark)
	case atOnce && d.p.Then == ThenPark:
		d.park(k, ReasonGapExpired)
		d.hold(k, s, v, Parked, ReasonGapExpired)
	case atOnce:
		d.jump(k, s, v)
	case d.full(k, s):
		d.park(k, ReasonOverflow)
		d.hold(k, s, v, Parked, ReasonOverflow)
	default:
		d.hold(k, s, v, Buffered, why)
		if d.asks(k) && (why == ReasonStartBackfill || d.p.GapWait <= 0) && d.st.Waiting[k][0].Stage != Backfilling {
			d.ask(k)
		}
	}
}

// jump is a wait of no length at all, Then skip or dead_letter: the line goes to v at once. Whatever waits below (from a
// policy that did wait) goes first.
func (d *decider) jump(k LineKey, s subject, v schemas.Version) {
	for w := d.st.Waiting[k]; len(w) > 0 && w[0].against(v, s.Offset) < 0; w = d.st.Waiting[k] {
		d.skip(k, d.p.Then)
	}
	if line := d.st.Lines[k]; line != nil && !ahead(v, line.At) {
		d.compare(k, line, s, v)
		return
	}
	d.leap(k, s, v, d.p.Then)
}

// skip ends the gap before the lowest waiting event of a line, which is given up where then is dead_letter.
func (d *decider) skip(k LineKey, then Then) {
	s := d.take(k, 0)
	for ; d.overtaken(k, s); s = d.take(k, 0) {
		d.conclude(s, s.Version, Stale, ReasonEqualLast)
	}
	d.leap(k, s, s.Version, then)
	d.anew(k)
}

// leap brings the line to v across places that are missing, and remembers them. With dead_letter, s is given up and so
// is what follows it densely.
func (d *decider) leap(k LineKey, s subject, v schemas.Version, then Then) {
	line, why := d.st.Lines[k], ReasonGapSkipped
	switch {
	case line != nil:
		line.skip(line.At.Value+1, v.Value-1) // v is ahead: neither can overflow
	default:
		line = &Line{}
		d.st.Lines[k] = line
		if d.p.Start == StartBackfill {
			why = ReasonFirst // as with start: any
		} else if v.Kind == schemas.Sequence && s.First != nil && *s.First < v.Value {
			line.skip(*s.First, v.Value-1)
		}
	}
	from := len(d.out)
	line.advance(s, v)
	d.conclude(s, v, Applied, why)
	d.settle(k, line)
	if then == ThenDeadLetter {
		deadLetters(d.out[from:])
	}
}

// deadLetters turns what would run into dead letters.
func deadLetters(out []Outcome) {
	for i := range out {
		if out[i].Decision.Runs() {
			out[i].Reason, out[i].Dead = ReasonGapDead, true
		}
	}
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
	were := len(w)
	for ; len(w) > 0 && !ahead(w[0].Version, line.At); w = d.st.Waiting[k] {
		s := d.take(k, 0)
		d.release(k, line, s, s.Version)
	}
	if len(w) < were {
		d.anew(k)
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
