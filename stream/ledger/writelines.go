package ledger

import (
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

func lineRows() rows {
	return rows{pg.Int32Column(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.Int64Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.UUIDColumn(0),
		pg.BoolColumn(), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.Int64Column(0)}
}

// addLines adds the lines that the gate has changed, unless they can be written later, and the dirty lines that are due.
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
	for _, l := range k.writtenLines {
		if l.writeState == toWrite {
			l.writeState = inWrite
			w.moveLine(k, l.key, l.line)
		}
	}
}

// addLine adds a line that the gate has changed, or defers it. A line on which events wait is never deferred.
func (w *writer) addLine(k *partitionBatch, i int) {
	key, was, h := k.keys[i], &k.before[i], k.cached[i]
	l := k.after[i]
	if l == nil {
		return
	}
	dirty := h != nil && h.dirtySince != 0
	now := dirty && (h.writeState == toWrite || len(k.waiting(key)) > 0)
	if !now && was.exists && sameLine(l, &was.line) {
		return
	}
	moved := was.exists && l.At.Text == "" && onlyMoved(l, &was.line)
	if moved && !now && w.n.maxLag > 0 && len(k.waiting(key)) == 0 && k.rowTells(i, l) {
		k.deferred[i] = true
		return
	}
	if dirty {
		k.writeLine(h, inWrite)
	}
	c := w.newLines
	switch {
	case moved:
		w.moveLine(k, key, l)
		return
	case was.exists:
		c = w.changedLines
	}
	c[0].Int32(k.Claim.ID)
	c[1].Text(string(key.Entity))
	c[2].Text(key.Clock)
	c[3].Text(string(l.At.Kind))
	c[4].Int64(l.At.Epoch)
	c[5].Int64(l.At.Value)
	c[6].Int32(l.At.Sub)
	c[7].UUID(l.Key)
	c[8].Bool(l.Filtered)
	if l.Parked == "" {
		c[9].Null()
	} else {
		c[9].Text(string(l.Parked))
	}
	if len(l.Skipped) == 0 {
		c[10].Null()
	} else {
		c[10].Text(spansText(l.Skipped))
	}
	c[11].Text(l.At.Text)
	c[12].Int64(k.laneEnd)
}

// moveLine adds a line that only moved on, as nearly every event does.
func (w *writer) moveLine(k *partitionBatch, key gate.VersionLineKey, l *gate.VersionLine) {
	c := w.movedLines
	c[0].Int32(k.Claim.ID)
	c[1].Text(string(key.Entity))
	c[2].Text(key.Clock)
	c[3].Int64(l.At.Epoch)
	c[4].Int64(l.At.Value)
	c[5].Int32(l.At.Sub)
	c[6].UUID(l.Key)
	c[7].Int64(k.laneEnd)
}

func onlyMoved(a, b *gate.VersionLine) bool {
	return a.At.Kind == b.At.Kind && a.At.Clock == b.At.Clock && a.Filtered == b.Filtered && a.Parked == b.Parked &&
		slices.Equal(a.Skipped, b.Skipped)
}

func sameLine(a, b *gate.VersionLine) bool {
	return a.At == b.At && a.Key == b.Key && a.Filtered == b.Filtered && a.Parked == b.Parked && slices.Equal(a.Skipped, b.Skipped)
}

// spansText is a bigint[] as text: from, to, from, to.
func spansText(spans []gate.Span) string {
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
