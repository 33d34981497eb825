package gate

import "github.com/forebay-io/forebay/schemas"

// Reprocess decides records that have run before and are to run again, as a generation of their own: their keys are those of the generation, so
// that of each event one record runs. It never moves a version line, and nothing waits: a line says only what is older by now. An older
// snapshot is stale, or with evenStale late; whatever else is older is late. Records are decided one after the other, as in [Decide].
// ofGeneration makes the key of an event in the generation of the key that it had when it came: version lines know the latter.
func Reprocess(st *State, records []Record, p Policy, evenStale bool, ofGeneration func(schemas.EventKey) schemas.EventKey) []Outcome {
	d := decider{state: st, policy: p, out: make([]Outcome, 0, len(records))}
	for i := range records {
		d.reprocess(subject{index: i, Record: &records[i]}, evenStale, ofGeneration)
	}
	return d.out
}

func (d *decider) reprocess(s subject, evenStale bool, ofGeneration func(schemas.EventKey) schemas.EventKey) {
	if s.Broken != "" {
		d.add(s, s.Version, Quarantined, s.Broken)
		return
	}
	if s.Filtered {
		d.add(s, s.Version, Filtered, s.FilteredBy())
		return
	}
	if d.decideSeen(s) {
		return
	}
	v, older := d.olderThanLine(s, ofGeneration)
	switch {
	case older == "":
		d.conclude(s, v, Applied, ReasonReprocess)
	case s.Payload == schemas.Snapshot && !evenStale:
		d.conclude(s, v, Stale, older)
	default:
		d.conclude(s, v, Late, ReasonReprocess)
	}
}

// olderThanLine returns the version of an event that was decided before as its version line took it, and why the line is past it; empty: it is
// not. On a line that goes by values of another kind since, every event of before is older. Without a line nothing newer is known.
func (d *decider) olderThanLine(s subject, ofGeneration func(schemas.EventKey) schemas.EventKey) (v schemas.Version, why Reason) {
	v = s.Version
	if d.policy.Order == OrderArrival || v.Kind == schemas.None || !v.Kind.Valid() {
		return v, ""
	}
	if v.Kind == schemas.Timestamp {
		v.Value = clamp(v.Value, s.AppendTime, d.policy.FutureSkew)
	}
	line := d.state.Lines[VersionLineKey{s.Entity, v.Clock}]
	if line == nil {
		return v, ""
	}
	if v.Epoch == 0 {
		v.Epoch = line.At.Epoch
	}
	if v.Epoch == line.At.Epoch && !v.Comparable(line.At) {
		return v, ReasonOlder
	}
	switch order := v.Compare(line.At); {
	case order < 0:
		return v, ReasonOlder
	case order == 0 && (d.policy.Equal == EqualFirst || s.Backfill) && !line.Filtered && ofGeneration(line.Key) != s.Key:
		return v, ReasonEqualFirst // as in equal: another of this version came first
	}
	return v, ""
}
