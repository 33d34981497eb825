package gate

import "slices"

// skip remembers the values from..to as skipped; they are above all that were skipped before.
func (l *VersionLine) skip(from, to int64) {
	l.Skipped = append(l.Skipped, Span{from, to})
	l.trim()
}

// fill reports whether value was skipped: then an event of this value is a filler. It removes the value from the skipped ones unless keep
// is set, for filtered events: once the filter is corrected, the event is still a filler.
func (l *VersionLine) fill(value int64, keep bool) bool {
	i := slices.IndexFunc(l.Skipped, func(s Span) bool { return s.From <= value && value <= s.To })
	if i < 0 {
		return false
	}
	if keep {
		return true
	}
	s := l.Skipped[i]
	var rest []Span
	if s.From < value {
		rest = append(rest, Span{s.From, value - 1})
	}
	if value < s.To {
		rest = append(rest, Span{value + 1, s.To})
	}
	l.Skipped = slices.Replace(l.Skipped, i, i+1, rest...)
	l.trim()
	return true
}

// trim keeps the newest MaxSpans.
func (l *VersionLine) trim() {
	if over := len(l.Skipped) - MaxSpans; over > 0 {
		l.Skipped = slices.Delete(l.Skipped, 0, over)
	}
	if len(l.Skipped) == 0 {
		l.Skipped = nil
	}
}
