package gate

import "github.com/forebay-io/forebay/schemas"

// behind decides an event below its line, or below the first value of one that has not begun (line is nil). Places are
// skipped within the line's epoch only.
func (d *decider) behind(line *Line, s subject, v schemas.Version) {
	switch {
	case line != nil && v.Epoch == line.At.Epoch && line.fill(v.Value, s.Filtered):
		d.conclude(s, v, Late, ReasonFiller)
	case s.Payload == schemas.Snapshot:
		d.past(s, v, ReasonOlder, ReasonOlderHeld)
	default:
		d.past(s, v, ReasonOlderDelta, ReasonOlderHeld)
	}
}

// past does with an event that its line is past what the policy says of its kind of body; held is the reason where a
// person is asked.
func (d *decider) past(s subject, v schemas.Version, why, held Reason) {
	switch d.p.Stale.of(s.Payload) {
	case StaleDrop:
		d.conclude(s, v, Stale, why)
	case StaleHold:
		d.setAside(s, v, held)
	default:
		d.conclude(s, v, Late, why)
	}
}

// setAside parks one event alone, for a person: nothing waits behind it, and its line goes on as if it had not come.
// About an event that the subscription does not want nobody is asked.
func (d *decider) setAside(s subject, v schemas.Version, why Reason) {
	if s.Filtered {
		d.conclude(s, v, Stale, why)
		return
	}
	d.conclude(s, v, Parked, why)
	d.out[len(d.out)-1].Held = true
}
