package ledger

import (
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/stream/gate"
)

func lineRows() rows {
	return rows{int32Column(0), textColumn(0), textColumn(0), textColumn(0), int64Column(0), int64Column(0), int32Column(0), uuidColumn(0),
		boolColumn(), textColumn(0), textColumn(0), textColumn(0), int64Column(0)}
}

// lines writes the lines that the gate has changed, now or later, and those whose time to be written has come.
func (w *writer) lines(k *work) {
	k.movers()
	k.lags(w.n.lag)
	k.later, k.now = zeroed(k.later, len(k.keys)), sized(k.now, len(k.keys))
	for i, key := range k.keys {
		if l := k.cached[i]; l != nil && l.line != nil {
			k.now[i] = l.line
		} else {
			k.now[i] = k.state.Lines[key]
		}
		w.line(k, i)
	}
	for _, l := range k.writing {
		if l.writing == due {
			l.writing = queued
			w.advance(k, l.key, l.line)
		}
	}
}

// line writes a line that the gate has changed. One that waits for fillers is never left behind.
func (w *writer) line(k *work, i int) {
	key, was, h := k.keys[i], &k.lines[i], k.cached[i]
	l := k.now[i]
	if l == nil {
		return
	}
	behind := h != nil && h.since != 0
	now := behind && (h.writing == due || len(k.waiting(key)) > 0)
	if !now && was.exists && sameLine(l, &was.line) {
		return
	}
	moved := was.exists && l.At.Word == "" && onlyMoved(l, &was.line)
	if moved && !now && w.n.lag > 0 && len(k.waiting(key)) == 0 && k.told(i, l) {
		k.later[i] = true
		return
	}
	if behind {
		k.catchUp(h, queued)
	}
	c := w.begun
	switch {
	case moved:
		w.advance(k, key, l)
		return
	case was.exists:
		c = w.turned
	}
	c[0].int32(k.Claim.ID)
	c[1].text(string(key.Entity))
	c[2].text(key.Clock)
	c[3].text(string(l.At.Kind))
	c[4].int64(l.At.Epoch)
	c[5].int64(l.At.Value)
	c[6].int32(l.At.Sub)
	c[7].uuid(l.Key)
	c[8].bool(l.Filtered)
	if l.Parked == "" {
		c[9].null()
	} else {
		c[9].text(string(l.Parked))
	}
	if len(l.Skipped) == 0 {
		c[10].null()
	} else {
		c[10].text(spansText(l.Skipped))
	}
	c[11].text(l.At.Word)
	c[12].int64(k.laneEnd)
}

// advance writes what nearly every event does to its line.
func (w *writer) advance(k *work, key gate.LineKey, l *gate.Line) {
	c := w.advanced
	c[0].int32(k.Claim.ID)
	c[1].text(string(key.Entity))
	c[2].text(key.Clock)
	c[3].int64(l.At.Epoch)
	c[4].int64(l.At.Value)
	c[5].int32(l.At.Sub)
	c[6].uuid(l.Key)
	c[7].int64(k.laneEnd)
}

func onlyMoved(a, b *gate.Line) bool {
	return a.At.Kind == b.At.Kind && a.At.Clock == b.At.Clock && a.Filtered == b.Filtered && a.Parked == b.Parked &&
		slices.Equal(a.Skipped, b.Skipped)
}

func sameLine(a, b *gate.Line) bool {
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
