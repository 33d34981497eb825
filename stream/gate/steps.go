package gate

import (
	"sort"

	"github.com/forebay-io/forebay/schemas"
)

// A line on which 100,000 events wait for one filler releases them in steps, so that no call decides, and no transaction writes, more than
// Policy.MaxReleases of them at once. Between two steps the line's lowest waiting event has the stage Releasing; what comes for the line
// meanwhile goes into the buffer behind it. The next step is a call of Expire or of Release. A line that begins again, in a higher epoch or with
// values of another kind, does so too: the events of those wait behind the ones of before, and the lowest of them begins the line.

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

// highestEpoch returns the epoch of the highest event that waits on a version line; 0 if none waits.
func (st *State) highestEpoch(k VersionLineKey) int64 {
	w := st.Waiting[k]
	if len(w) == 0 {
		return 0
	}
	return w[len(w)-1].Version.Epoch
}

// continues reports whether a version is of the line's epoch and kind.
func (l *VersionLine) continues(v schemas.Version) bool {
	return v.Epoch == l.At.Epoch && v.Comparable(l.At)
}

// beginsAgain reports whether events of a higher epoch than a version line's, or of another kind, wait there, behind more of the line's own than
// one step has released.
func (st *State) beginsAgain(k VersionLineKey) bool {
	line, w := st.Lines[k], st.Waiting[k]
	return line != nil && len(w) > 0 && !(line.continues(w[0].Version) && line.continues(w[len(w)-1].Version))
}

// thirdKind reports whether a version does not compare with those of its epoch that wait to begin the line again either.
func (st *State) thirdKind(k VersionLineKey, v schemas.Version) bool {
	w := st.Waiting[k]
	n := sort.Search(len(w), func(i int) bool { return w[i].Version.Epoch > v.Epoch })
	if !st.beginsAgain(k) || n == 0 {
		return false
	}
	if n < len(w) && n >= st.First[k] {
		st.short(k)
	}
	last := w[n-1].Version
	return last.Epoch == v.Epoch && !last.Comparable(v) && !st.Lines[k].continues(last)
}

// beginAgain takes a step of a version line whose epoch or kind ends: the events of that go, and then the lowest of the next one begins the line.
func (d *decider) beginAgain(k VersionLineKey) {
	for d.state.beginsAgain(k) && d.giveUp(k, d.state.Lines[k]) && d.mayRelease() {
		s, why := d.removeWaiting(k, 0), ReasonNewEpoch
		if s.Version.Epoch == d.state.Lines[k].At.Epoch {
			why = ReasonFirst
		}
		d.begin(k, s, s.Version, why)
	}
	d.markStep(k)
}

// giveUp lets the events go that wait on a version line and continue it, as restart does, and reports whether the step had room for all.
func (d *decider) giveUp(k VersionLineKey, line *VersionLine) (all bool) {
	for w := d.state.Waiting[k]; len(w) > 0 && line.continues(w[0].Version); w = d.state.Waiting[k] {
		if !d.mayRelease() {
			return false
		}
		if ahead(w[0].Version, line.At) {
			d.skip(k, d.afterWait(k))
			continue
		}
		s := d.removeWaiting(k, 0)
		d.release(k, line, s, s.Version)
	}
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
	switch {
	case line != nil && (!ahead(w[0].Version, line.At) || d.state.beginsAgain(k)):
		w[0].Stage = Releasing
	case w[0].Stage == Releasing: // the event that was to begin the line again has left
		w[0].Stage = Filling
	}
	if len(w) > 1 && w[1].Stage == Releasing { // an event has come before it
		w[1].Stage = Filling
	}
}
