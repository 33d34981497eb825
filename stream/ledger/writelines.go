package ledger

import (
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// lineRows are whole version lines: the parameters of linesInsert and linesUpdate.
type lineRows struct {
	columns
	fence, sub                                        pg.Int32s
	entity, clock, kind, parked, skipped, versionText pg.Texts
	epoch, value, asOf                                pg.Int64s
	key                                               pg.UUIDs
	filtered                                          pg.Bools
}

func newLineRows() *lineRows {
	r := &lineRows{}
	r.columns = columns{{"fence", &r.fence}, {"entity", &r.entity}, {"clock", &r.clock}, {"kind", &r.kind}, {"epoch", &r.epoch}, {"value", &r.value},
		{"sub", &r.sub}, {"event_key", &r.key}, {"filtered", &r.filtered}, {"parked", &r.parked}, {"skipped", &r.skipped},
		{"version_text", &r.versionText}, {"as_of", &r.asOf}}
	return r
}

// add adds a row for a version line, with all that the gate knows of it.
func (r *lineRows) add(k *partitionBatch, key gate.VersionLineKey, l *gate.VersionLine) {
	r.fence.Add(k.Claim.ID)
	r.entity.Add(string(key.Entity))
	r.clock.Add(key.Clock)
	r.kind.Add(string(l.At.Kind))
	r.epoch.Add(l.At.Epoch)
	r.value.Add(l.At.Value)
	r.sub.Add(l.At.Sub)
	r.key.Add(l.Key)
	r.filtered.Add(l.Filtered)
	r.parked.AddOrNull(string(l.Parked))
	r.skipped.AddOrNull(spansText(l.Skipped))
	r.versionText.Add(l.At.Text)
	r.asOf.Add(k.laneEnd)
}

// movedLineRows are version lines that only moved on, as nearly every event moves them: the parameters of linesAdvance.
type movedLineRows struct {
	columns
	fence, sub         pg.Int32s
	entity, clock      pg.Texts
	epoch, value, asOf pg.Int64s
	key                pg.UUIDs
}

func newMovedLineRows() *movedLineRows {
	r := &movedLineRows{}
	r.columns = columns{{"fence", &r.fence}, {"entity", &r.entity}, {"clock", &r.clock}, {"epoch", &r.epoch}, {"value", &r.value}, {"sub", &r.sub},
		{"event_key", &r.key}, {"as_of", &r.asOf}}
	return r
}

// add adds a row for a version line that has only moved on: its newest version and event.
func (r *movedLineRows) add(k *partitionBatch, key gate.VersionLineKey, l *gate.VersionLine) {
	r.fence.Add(k.Claim.ID)
	r.entity.Add(string(key.Entity))
	r.clock.Add(key.Clock)
	r.epoch.Add(l.At.Epoch)
	r.value.Add(l.At.Value)
	r.sub.Add(l.At.Sub)
	r.key.Add(l.Key)
	r.asOf.Add(k.laneEnd)
}

// addLines adds the version lines that the gate has changed, unless they can be written later, and the dirty lines that are due.
func (w *writer) addLines(k *partitionBatch) {
	k.findMovers()
	k.pickDirtyLines(w.n.maxLag)
	k.deferred, k.after = zeroed(k.deferred, len(k.keys)), sized(k.after, len(k.keys))
	for i, key := range k.keys {
		if l := k.cached[i]; l != nil && l.line != nil {
			k.after[i] = l.line
		} else {
			k.after[i] = k.state.Lines[key]
		}
		w.addLine(k, i)
	}
	w.addDirtyLines(k)
}

// addLine adds version line i if the gate has changed it, unless it is left for later.
func (w *writer) addLine(k *partitionBatch, i int) {
	key, was, l := k.keys[i], &k.before[i], k.after[i]
	if l == nil {
		return
	}
	moved := was.exists && l.At.Text == "" && onlyMoved(l, &was.line) // its statement writes the value alone
	if k.leaveLine(i, l, moved, w.n.maxLag) {
		return
	}
	switch {
	case moved:
		w.movedLines.add(k, key, l)
	case was.exists:
		w.changedLines.add(k, key, l)
	default:
		w.newLines.add(k, key, l)
	}
}

// onlyMoved reports whether a and b differ in nothing but version and event.
func onlyMoved(a, b *gate.VersionLine) bool {
	return a.At.Kind == b.At.Kind && a.At.Clock == b.At.Clock && a.Filtered == b.Filtered && a.Parked == b.Parked &&
		slices.Equal(a.Skipped, b.Skipped)
}

// sameLine reports whether a and b are equal.
func sameLine(a, b *gate.VersionLine) bool {
	return a.At == b.At && a.Key == b.Key && a.Filtered == b.Filtered && a.Parked == b.Parked && slices.Equal(a.Skipped, b.Skipped)
}

// spansText returns spans as the text of a bigint[]: from, to, from, to. Without spans it is empty.
func spansText(spans []gate.Span) string {
	if len(spans) == 0 {
		return ""
	}
	b := []byte{'{'}
	for i, s := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.From, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, s.To, 10)
	}
	return string(append(b, '}'))
}
