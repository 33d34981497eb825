package gate

import "github.com/forebay-io/forebay/schemas"

// gap decides an event that cannot run yet: values before it are missing, or the entity's state is to be fetched first.
// why is gap, start_gap or start_backfill, the reason if the event is buffered.
func (d *decider) gap(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	noWait := d.policy.GapWait <= 0 && v.Kind == schemas.Sequence && !d.backfillsFirst(k)
	switch {
	case d.parked(k):
		d.enterBuffer(k, s, v, Parked, ReasonBehindPark)
	case noWait && d.policy.Then == ThenPark:
		d.park(k, ReasonGapExpired)
		d.enterBuffer(k, s, v, Parked, ReasonGapExpired)
	case noWait:
		d.skipAtOnce(k, s, v)
	case d.full(k, s):
		d.park(k, ReasonOverflow)
		d.enterBuffer(k, s, v, Parked, ReasonOverflow)
	default:
		d.enterBuffer(k, s, v, Buffered, why)
		asksAtOnce := d.backfillsFirst(k) && (why == ReasonStartBackfill || d.policy.GapWait <= 0)
		if asksAtOnce && d.state.Waiting[k][0].Stage != Backfilling {
			d.requestBackfill(k)
		}
	}
}

// skipAtOnce skips a gap without waiting: GapWait is 0 and Then is skip or dead_letter. Events that wait below v go first; they have
// waited since before GapWait was changed to 0.
func (d *decider) skipAtOnce(k VersionLineKey, s subject, v schemas.Version) {
	for w := d.state.Waiting[k]; len(w) > 0 && w[0].compareTo(v, s.Offset) < 0; w = d.state.Waiting[k] {
		d.unbounded(func() { d.skip(k, d.policy.Then) })
	}
	if line := d.state.Lines[k]; line != nil && !ahead(v, line.At) {
		d.compare(k, line, s, v)
		return
	}
	d.skipTo(k, s, v, d.policy.Then)
}

// skip gives up the wait for the values that are missing before the lowest waiting event. The event leaves the buffer and runs, and so do
// those that follow it without a gap; if then is dead_letter, their actions become dead letters. With equal: last, the event that runs is
// the last snapshot of the lowest version.
func (d *decider) skip(k VersionLineKey, then Then) {
	s := d.removeWaiting(k, 0)
	for ; d.replacedByLater(k, s); s = d.removeWaiting(k, 0) {
		d.conclude(s, s.Version, Stale, ReasonEqualLast)
	}
	d.skipTo(k, s, s.Version, then)
	d.restartWait(k)
}

// skipTo applies s, moves the version line to its version v, and remembers the values between as skipped. It releases what follows s
// without a further gap. If then is dead_letter, the actions of all these become dead letters.
func (d *decider) skipTo(k VersionLineKey, s subject, v schemas.Version, then Then) {
	line, why := d.state.Lines[k], ReasonGapSkipped
	if line != nil {
		line.skip(line.At.Value+1, v.Value-1) // v is ahead: neither can overflow
	} else {
		line = &VersionLine{}
		d.state.Lines[k] = line
		if d.policy.Start == StartBackfill {
			why = ReasonFirst // as with start: any
		} else if v.Kind == schemas.Sequence && s.First != nil && *s.First < v.Value {
			line.skip(*s.First, v.Value-1)
		}
	}
	from := len(d.out)
	line.advance(s, v)
	d.conclude(s, v, Applied, why)
	if then != ThenDeadLetter {
		d.releaseReached(k, line)
		return
	}
	d.unbounded(func() { d.releaseReached(k, line) })
	deadLetters(d.out[from:])
}

// deadLetters marks those outcomes whose actions would run: they become dead letters at once.
func deadLetters(out []Outcome) {
	for i := range out {
		if out[i].Decision.Runs() {
			out[i].Reason, out[i].Dead = ReasonGapDead, true
		}
	}
}

// releaseReached releases the waiting events that the version line has reached: those that it has moved past, and those that follow it
// without a gap. When nothing waits any more, the version line is no longer parked. A version line whose events were parked before it
// began gets its Parked reason here.
func (d *decider) releaseReached(k VersionLineKey, line *VersionLine) {
	if len(d.state.Waiting) == 0 {
		line.Parked = ""
		return
	}
	w := d.state.Waiting[k]
	before := len(w)
	for ; len(w) > 0 && line.continues(w[0].Version) && !ahead(w[0].Version, line.At) && d.mayRelease(); w = d.state.Waiting[k] {
		s := d.removeWaiting(k, 0)
		d.release(k, line, s, s.Version)
	}
	if len(w) < before {
		d.restartWait(k)
	}
	d.markStep(k)
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
