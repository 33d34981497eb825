package gate

import "github.com/forebay-io/forebay/schemas"

// behind decides an event below its version line, or below the first value of one that has not begun (line is nil). Only an event of the
// line's epoch can be the filler of a skipped value. A snapshot that fills it is as stale as any other, unless the policy wants it.
func (d *decider) behind(line *VersionLine, s subject, v schemas.Version) {
	old := d.fills && s.waited == nil && line != nil && s.Payload == schemas.Snapshot // see Fill
	switch {
	case line != nil && v.Epoch == line.At.Epoch && line.fill(v.Value, s.idle()) && !old:
		if s.Payload == schemas.Snapshot && !d.policy.LateSnapshots {
			d.applyStalePolicy(s, v, ReasonFiller, ReasonOlderHeld)
			return
		}
		d.conclude(s, v, Late, ReasonFiller)
	case old && d.policy.Stale.of(s.Payload) != StaleHold:
		d.conclude(s, v, Stale, ReasonOlder)
	case s.Payload == schemas.Snapshot:
		d.applyStalePolicy(s, v, ReasonOlder, ReasonOlderHeld)
	default:
		d.applyStalePolicy(s, v, ReasonOlderDelta, ReasonOlderHeld)
	}
}

// applyStalePolicy decides an event that is older than its version line, or is treated as such, as the policy says for a snapshot or a
// delta. The reason is why or, if the policy is hold, held.
func (d *decider) applyStalePolicy(s subject, v schemas.Version, why, held Reason) {
	switch d.policy.Stale.of(s.Payload) {
	case StaleDrop:
		d.conclude(s, v, Stale, why)
	case StaleHold:
		d.hold(s, v, held)
	default:
		d.conclude(s, v, Late, why)
	}
}

// hold keeps one event until an operator decides about it. The decision is Parked, but unlike an event that waits for its filler, a held
// one blocks nothing and does not change its version line. An idle event is not kept: it would give no action.
func (d *decider) hold(s subject, v schemas.Version, why Reason) {
	if s.idle() {
		d.conclude(s, v, Stale, why)
		return
	}
	d.conclude(s, v, Parked, why)
	d.out[len(d.out)-1].Held = true // the outcome that conclude has appended
}
