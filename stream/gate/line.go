package gate

import (
	"math"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// place puts an event that was not seen before on its version line.
func (d *decider) place(s subject) {
	v := s.Version
	versioned := d.p.Order != OrderArrival && v.Kind != schemas.None && v.Kind.Valid()
	if !versioned || s.Filtered && v.Kind != schemas.Sequence {
		d.conclude(s, v, Applied, ReasonArrival)
		return
	}
	k := VersionLineKey{s.Entity, v.Clock}
	line := d.st.Lines[k]
	at := d.newest(k, line)
	if at != nil && v.Epoch == 0 {
		v.Epoch = at.Epoch
	}
	if v.Kind == schemas.Timestamp {
		v.Value = clamp(v.Value, s.AppendTime, d.p.FutureSkew)
	}
	switch {
	case at == nil:
		d.start(k, s, v)
	case v.Epoch < at.Epoch:
		d.behind(line, s, v)
	case v.Epoch > at.Epoch:
		d.restart(k, s, v, ReasonNewEpoch)
	case !at.Comparable(v):
		d.restart(k, s, v, ReasonFirst)
	case line == nil:
		d.start(k, s, v)
	default:
		d.compare(k, line, s, v)
	}
}

// newest returns the version that an event is compared with: the version line's own or, where the line has not begun, the
// lowest that waits for it to begin. It is nil if there is neither. What waits on a line has its epoch and kind.
func (d *decider) newest(k VersionLineKey, line *VersionLine) *schemas.Version {
	if line != nil {
		return &line.At
	}
	if len(d.st.Waiting) == 0 {
		return nil
	}
	if w := d.st.Waiting[k]; len(w) > 0 {
		return &w[0].Version
	}
	return nil
}

// compare decides an event of a version line that has begun.
func (d *decider) compare(k VersionLineKey, line *VersionLine, s subject, v schemas.Version) {
	switch c := v.Compare(line.At); {
	case c < 0:
		d.behind(line, s, v)
	case c == 0:
		d.equal(line, s, v, ReasonEqual)
	case s.coversGap():
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonBackfilled)
		d.releaseReached(k, line)
	case ahead(v, line.At):
		d.gap(k, s, v, ReasonGap)
	default:
		line.advance(s, v)
		d.conclude(s, v, Applied, ReasonNext)
		d.releaseReached(k, line)
	}
}

// start decides an event of a version line that has not begun. Any event begins it, with three exceptions: the subscription
// wants the first value (start: first) and the provider promises which that is; it wants the entity's state from a
// backfill (start: backfill); or others wait for the beginning already.
func (d *decider) start(k VersionLineKey, s subject, v schemas.Version) {
	waits := len(d.st.Waiting) > 0 && len(d.st.Waiting[k]) > 0
	promised := v.Kind == schemas.Sequence && s.First != nil
	backfill := d.p.Start == StartBackfill
	switch {
	case s.coversGap():
		d.begin(k, s, v, ReasonBackfilled)
	case backfill && s.Backfill && !s.Filtered,
		!waits && !backfill && !(promised && d.p.Start == StartFirst),
		promised && v.Value == *s.First:
		d.begin(k, s, v, ReasonFirst)
	case promised && v.Value < *s.First:
		d.behind(nil, s, v)
	case backfill && s.Filtered && !waits: // an event that is not wanted asks for no backfill
		d.conclude(s, v, Applied, ReasonFirst)
	case backfill:
		d.gap(k, s, v, ReasonStartBackfill)
	default:
		d.gap(k, s, v, ReasonStartGap)
	}
}

// begin makes s the version line's first event.
func (d *decider) begin(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	line := d.st.Lines[k]
	if line == nil {
		line = &VersionLine{}
		d.st.Lines[k] = line
	}
	*line = VersionLine{}
	line.advance(s, v)
	d.conclude(s, v, Applied, why)
	d.releaseReached(k, line)
}

// restart begins a version line again because its values are of another kind or epoch from now on. What waits on the old one,
// parked or not, will get no filler. It goes first, in its order, or becomes dead letters where the policy says so.
func (d *decider) restart(k VersionLineKey, s subject, v schemas.Version, why Reason) {
	for then := d.afterWait(k); len(d.st.Waiting[k]) > 0; {
		d.skip(k, then)
	}
	d.begin(k, s, v, why)
}

// advance moves the version line to v.
func (l *VersionLine) advance(s subject, v schemas.Version) {
	l.At, l.Key, l.Filtered = v, s.Key, s.Filtered
}

// replaceFiltered takes an event of the version line's own version: one that is wanted replaces one that was filtered.
func (l *VersionLine) replaceFiltered(s subject) {
	if l.Filtered && !s.Filtered {
		l.Key, l.Filtered = s.Key, false
	}
}

// ahead reports whether places are missing between at and v. Only values of kind sequence are dense.
func ahead(v, at schemas.Version) bool {
	return v.Kind == schemas.Sequence && v.Value > at.Value && v.Value-1 != at.Value
}

// clamp returns the timestamp, but at most the record's append time plus the allowed skew. It never reverses the order
// of two events and gives the same on every replay. Without an append time it changes nothing.
func clamp(value int64, appended time.Time, skew time.Duration) int64 {
	if appended.IsZero() {
		return value
	}
	limit := appended.Add(skew)
	if !time.Unix(0, value).After(limit) {
		return value
	}
	if limit.Before(schemas.MinTimestamp) {
		return math.MinInt64 + 1
	}
	return limit.UnixNano()
}
