package gate

import "github.com/forebay-io/forebay/schemas"

// A line on which 100,000 events wait for one filler releases them in steps, so that no call decides, and no transaction writes, more than
// Policy.MaxReleases of them at once. Between two steps the line's lowest waiting event has the stage Releasing; what comes for the line
// meanwhile goes into the buffer behind it. The next step is a call of Expire or of Release.

// Releasing reports whether events wait on a version line that it has reached, for the next step.
func (st *State) Releasing(k VersionLineKey) bool {
	if len(st.Waiting) == 0 {
		return false
	}
	w := st.Waiting[k]
	return len(w) > 0 && w[0].Stage == Releasing
}

// behindStep puts an event into the buffer behind those that are being released.
func (d *decider) behindStep(k VersionLineKey, s subject, v schemas.Version) {
	why := ReasonGap
	if d.parked(k) {
		why = ReasonBehindPark
	}
	d.enterBuffer(k, s, v, d.state.Waiting[k][0].Decision, why)
}

// mayRelease counts one event that leaves the buffer, if the step has room for it.
func (d *decider) mayRelease() bool {
	if d.policy.MaxReleases > 0 && d.released >= d.policy.MaxReleases {
		return false
	}
	d.released++
	return true
}

// unbounded runs f as one step, however much that releases.
func (d *decider) unbounded(f func()) {
	bound := d.policy.MaxReleases
	d.policy.MaxReleases = 0
	f()
	d.policy.MaxReleases = bound
}

// markStep gives the lowest event that waits on a version line the stage Releasing if the line has reached it, and no other event.
func (d *decider) markStep(k VersionLineKey) {
	line, w := d.state.Lines[k], d.state.Waiting[k]
	if len(w) == 0 {
		return
	}
	if line != nil && !ahead(w[0].Version, line.At) {
		w[0].Stage = Releasing
	}
	if len(w) > 1 && w[1].Stage == Releasing { // an event has come before it
		w[1].Stage = Filling
	}
}
