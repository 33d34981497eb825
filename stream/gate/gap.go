package gate

import "github.com/forebay-io/forebay/schemas"

// gap decides an event that cannot run yet: values before it are missing, or the entity's state is to be fetched first.
// why is gap, start_gap or start_backfill.
func (d *decider) gap(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	atOnce := d.p.GapWait <= 0 && v.Kind == schemas.Sequence && !d.backfillsFirst(k)
	switch {
	case d.parked(k):
		d.enterBuffer(k, s, v, Parked, ReasonBehindPark)
	case atOnce && d.p.Then == ThenPark:
		d.park(k, ReasonGapExpired)
		d.enterBuffer(k, s, v, Parked, ReasonGapExpired)
	case atOnce:
		d.skipAtOnce(k, s, v)
	case d.full(k, s):
		d.park(k, ReasonOverflow)
		d.enterBuffer(k, s, v, Parked, ReasonOverflow)
	default:
		d.enterBuffer(k, s, v, Buffered, why)
		if d.backfillsFirst(k) && (why == ReasonStartBackfill || d.p.GapWait <= 0) && d.st.Waiting[k][0].Stage != Backfilling {
			d.requestBackfill(k)
		}
	}
}

// skipAtOnce skips a gap without waiting: GapWait is 0 and Then is skip or dead_letter. Events that wait below v, from
// before GapWait was changed to 0, go first.
func (d *decider) skipAtOnce(k VersionLineKey, s subject, v schemas.Version) {
	for w := d.st.Waiting[k]; len(w) > 0 && w[0].compareTo(v, s.Offset) < 0; w = d.st.Waiting[k] {
		d.skip(k, d.p.Then)
	}
	if line := d.st.Lines[k]; line != nil && !ahead(v, line.At) {
		d.compare(k, line, s, v)
		return
	}
	d.skipTo(k, s, v, d.p.Then)
}

// skip gives up the wait for the missing places before the lowest waiting event. That event runs or, if then is dead_letter, becomes
// a dead letter.
func (d *decider) skip(k VersionLineKey, then Then) {
	s := d.removeWaiting(k, 0)
	for ; d.replacedByLater(k, s); s = d.removeWaiting(k, 0) {
		d.conclude(s, s.Version, Stale, ReasonEqualLast)
	}
	d.skipTo(k, s, s.Version, then)
	d.restartWait(k)
}

// skipTo moves the version line to v and remembers the values between as skipped. With dead_letter, s becomes a dead letter, and
// so does what follows it without a further gap.
func (d *decider) skipTo(k VersionLineKey, s subject, v schemas.Version, then Then) {
	line, why := d.st.Lines[k], ReasonGapSkipped
	switch {
	case line != nil:
		line.skip(line.At.Value+1, v.Value-1) // v is ahead: neither can overflow
	default:
		line = &VersionLine{}
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
	d.releaseReached(k, line)
	if then == ThenDeadLetter {
		deadLetters(d.out[from:])
	}
}

// deadLetters turns outcomes that would run into dead letters.
func deadLetters(out []Outcome) {
	for i := range out {
		if out[i].Decision.Runs() {
			out[i].Reason, out[i].Dead = ReasonGapDead, true
		}
	}
}

// releaseReached releases the waiting events that the version line has reached: the next values without a gap and, where the
// line has moved past waiting events, those. When nothing waits any more the line is no longer parked. A line whose
// events were parked before it began gets its Parked reason here.
func (d *decider) releaseReached(k VersionLineKey, line *VersionLine) {
	if len(d.st.Waiting) == 0 {
		line.Parked = ""
		return
	}
	w := d.st.Waiting[k]
	were := len(w)
	for ; len(w) > 0 && !ahead(w[0].Version, line.At); w = d.st.Waiting[k] {
		s := d.removeWaiting(k, 0)
		d.release(k, line, s, s.Version)
	}
	if len(w) < were {
		d.restartWait(k)
	}
	switch {
	case len(w) == 0:
		line.Parked = ""
	case w[0].Decision == Parked && line.Parked == "":
		line.Parked = ReasonGapExpired
	}
}

// release decides a waiting event that its version line has reached.
func (d *decider) release(k VersionLineKey, line *VersionLine, s subject, v schemas.Version) {
	switch c := v.Compare(line.At); {
	case c < 0:
		d.behind(line, s, v)
	case d.replacedByLater(k, s):
		d.conclude(s, v, Stale, ReasonEqualLast)
	case c == 0:
		d.equal(line, s, v, ReasonReleased)
	default:
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonReleased)
	}
}
