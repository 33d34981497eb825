package gate

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// decideByVersion decides an event that was not seen before: by its version line or, if its version orders nothing, at once.
func (d *decider) decideByVersion(s subject) {
	v := s.Version
	if d.policy.Order == OrderArrival { // what waits from when it was by version has come before s
		d.unbounded(func() { d.letGo(VersionLineKey{s.Entity, v.Clock}) })
	}
	versioned := d.policy.Order != OrderArrival && v.Kind != schemas.None && v.Kind.Valid()
	leavesLineAlone := s.idle() && v.Kind != schemas.Sequence
	if !versioned || leavesLineAlone {
		d.conclude(s, v, Applied, ReasonArrival)
		return
	}
	k := VersionLineKey{s.Entity, v.Clock}
	line := d.state.Lines[k]
	known := d.knownVersion(k, line)
	if known != nil && v.Epoch == 0 {
		v.Epoch = max(known.Epoch, d.state.highestEpoch(k))
	}
	if v.Kind == schemas.Timestamp {
		v.Value = clamp(v.Value, s.AppendTime, d.policy.FutureSkew)
	}
	switch {
	case known == nil:
		d.start(k, s, v)
	case v.Epoch < known.Epoch:
		d.behind(line, s, v)
	case v.Epoch > known.Epoch:
		d.restart(k, s, v, ReasonNewEpoch)
	case !known.Comparable(v):
		d.restart(k, s, v, ReasonFirst)
	case line == nil:
		d.start(k, s, v)
	default:
		d.compare(k, line, s, v)
	}
}

// knownVersion returns the version that says which epoch and kind a version line has: its own or, if it has not begun, the lowest that
// waits for it to begin; nil if there is neither. All events that wait for that have one epoch and kind.
func (d *decider) knownVersion(k VersionLineKey, line *VersionLine) *schemas.Version {
	if line != nil {
		return &line.At
	}
	if len(d.state.Waiting) == 0 {
		return nil
	}
	if w := d.state.Waiting[k]; len(w) > 0 {
		return &w[0].Version
	}
	return nil
}

// compare decides an event of a version line that has begun.
func (d *decider) compare(k VersionLineKey, line *VersionLine, s subject, v schemas.Version) {
	switch order := v.Compare(line.At); {
	case order < 0:
		d.behind(line, s, v)
	case order == 0:
		d.equal(line, s, v, ReasonEqual)
	case s.coversGap():
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonBackfilled)
		d.releaseReached(k, line)
	case d.state.Releasing(k):
		d.behindStep(k, s, v)
	case ahead(v, line.At):
		d.gap(k, s, v, ReasonGap)
	default:
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonNext)
		d.releaseReached(k, line)
	}
}

// start decides an event of a version line that has not begun. Any event begins it, with three exceptions: the subscription
// wants the first value (start: first) and the provider promises which that is; the subscription wants the entity's state from a
// backfill (start: backfill); or others wait for the beginning already.
func (d *decider) start(k VersionLineKey, s subject, v schemas.Version) {
	othersWait := len(d.state.Waiting) > 0 && len(d.state.Waiting[k]) > 0
	promised := v.Kind == schemas.Sequence && s.First != nil
	backfill := d.policy.Start == StartBackfill
	anyBegins := !othersWait && !backfill && (d.policy.Start != StartFirst || !promised)
	fetched := backfill && s.Backfill && !s.idle()
	switch {
	case s.coversGap():
		d.begin(k, s, v, ReasonBackfilled)
	case anyBegins, fetched, promised && v.Value == *s.First:
		d.begin(k, s, v, ReasonFirst)
	case promised && v.Value < *s.First:
		d.behind(nil, s, v)
	case backfill && s.idle() && !othersWait: // an event that is not wanted asks for no backfill
		d.conclude(s, v, Applied, ReasonFirst)
	case backfill:
		d.gap(k, s, v, ReasonStartBackfill)
	default:
		d.gap(k, s, v, ReasonStartGap)
	}
}

// begin applies s as the first event of its version line, new or begun again, and releases what the version line has reached.
func (d *decider) begin(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	line := d.state.Lines[k]
	if line == nil {
		line = &VersionLine{}
		d.state.Lines[k] = line
	}
	*line = VersionLine{}
	line.advance(s, v)
	d.conclude(s, v, Applied, why)
	d.releaseReached(k, line)
}

// restart begins a version line again with s, because its values are of another kind or epoch from now on. The events that wait there,
// parked or not, will get no filler. They go first, in their order: they run or, if the policy says so, become dead letters. Where these are
// more than a step may release, s waits behind them.
func (d *decider) restart(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	if d.state.thirdKind(k, v) {
		d.unbounded(func() { d.beginAgain(k) })
		d.decideByVersion(s)
		return
	}
	if d.state.Lines[k] == nil { // the lowest of them begins it
		d.released++
		d.skip(k, d.afterWait(k))
	}
	if d.state.beginsAgain(k) || !d.giveUp(k, d.state.Lines[k]) {
		d.restartWait(k)
		d.behindStep(k, s, v)
		return
	}
	d.begin(k, s, v, why)
}

// advance moves the version line to v.
func (l *VersionLine) advance(s subject, v schemas.Version) {
	l.At, l.Key, l.Filtered = v, s.Key, s.idle()
}

// replaceFiltered makes s, an event of the version line's own version, the one that brought the line there, if s is wanted and the event
// before was filtered.
func (l *VersionLine) replaceFiltered(s subject) {
	if l.Filtered && !s.idle() {
		l.Key, l.Filtered = s.Key, false
	}
}

// ahead reports whether places are missing between at and v. Only values of kind sequence are dense.
func ahead(v, at schemas.Version) bool {
	return v.Kind == schemas.Sequence && v.Value > at.Value && v.Value-1 != at.Value
}

// clamp returns the timestamp, or the record's append time plus the allowed skew if that is earlier: the same on every replay. Events
// that come in the order of their timestamps keep that order, as append times do not go back. Where they do, at a leader whose clock is behind
// the one before, two events of an entity that are both beyond their limits, minutes ahead, may be taken in the wrong order for as long as the
// clocks differ: nothing that a record says would tell, and the limit is part of the contract (stream/subscriber). Without an append time nothing is clamped.
func clamp(timestamp int64, appended time.Time, skew time.Duration) int64 {
	if appended.IsZero() {
		return timestamp
	}
	limit := appended.Add(skew)
	if !time.Unix(0, timestamp).After(limit) {
		return timestamp
	}
	if limit.Before(schemas.MinTimestamp) {
		return schemas.MinTimestamp.UnixNano()
	}
	return limit.UnixNano()
}
