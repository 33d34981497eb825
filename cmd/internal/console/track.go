package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// track is the drawing of one version line: time across, version up, a mark for each event, and a band for each version that is missing.
//
//	5 |              ●
//	4 |    ○           <- came early, and waited
//	3 | ////missing////
//	2 |       ●
//	1 | ●
//	  +---------------
type track struct {
	Clock         string
	Width, Height int
	Left          int // where the plot begins: left of it are the versions
	Bottom        int // of the plot
	Lanes         []lane
	Marks         []mark
	From, To      string // times at the ends
	Missing       int    // lanes of versions that did not come
	Summary       string // what the drawing shows, for who does not see it
}

// PlotWidth, LabelX and TimeY are where the drawing's parts are.
func (t track) PlotWidth() int { return t.Width - t.Left }
func (t track) LabelX() int    { return t.Left - 10 }
func (t track) TimeY() int     { return t.Bottom + 18 }

// lane is a version, or a range of versions that did not come.
type lane struct {
	sortable string
	Text     string
	Y        int    // its middle
	Hole     string // missing or skipped; empty: there are events
}

// Top is the upper edge of the lane's band.
func (l lane) Top() int { return l.Y - laneHeight/2 }

// TextY is the base line of the lane's text.
func (l lane) TextY() int { return l.Y + 4 }

// mark is an event in the drawing.
type mark struct {
	X, Y     int
	Decision string
	Text     string // beside it: what its decision does not tell; may be empty
	Title    string
}

// TextX and TextY are where its text begins.
func (m mark) TextX() int { return m.X + 10 }
func (m mark) TextY() int { return m.Y + 4 }

// Path is the mark's shape, which tells the decision without colour.
func (m mark) Path() string {
	at := func(format string) string { return fmt.Sprintf("M%d %d", m.X, m.Y) + format }
	switch m.Decision {
	case "applied", "late", "buffered":
		return at("m-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z") // a circle
	case "stale", "filtered":
		return at("m-6 -5l12 0l-6 11z") // a triangle that points down
	case "parked":
		return at("m-5 -5l10 0l0 10l-10 0z") // a square
	}
	return at("m-6 -6l12 12m0 -12l-12 12") // a cross: conflict, quarantined
}

const (
	laneHeight = 26
	plotWidth  = 500
	labelWidth = 8  // of a character of a version beside the drawing
	plotRight  = 90 // room for the text of the last mark
	maxLabel   = 24 // most of them
)

// tracks draws the version lines of an entity, each that has events or a hole.
func tracks(d *api.EntityDetail) (list []track) {
	items := map[string][]api.InboxItem{}
	lines := map[string]*api.VersionLineItem{}
	for i := range d.Lines {
		lines[d.Lines[i].Clock] = &d.Lines[i]
		items[d.Lines[i].Clock] = nil
	}
	for _, i := range d.Track {
		items[i.VersionClock] = append(items[i.VersionClock], i)
	}
	for clock, of := range items {
		missing := map[string]lane{}
		if line := lines[clock]; line != nil {
			holes(missing, line, "missing", line.Missing)
			holes(missing, line, "skipped", line.Skipped)
		} else if waitsForFirst(d.Waiting, clock) {
			missing[firstMissing] = lane{sortable: firstMissing, Text: "first missing", Hole: "missing"}
		}
		if t := newTrack(clock, of, missing); len(t.Lanes) > 0 {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b track) int { return cmp.Compare(a.Clock, b.Clock) })
	return list
}

// firstMissing sorts below all versions, and above an event without one.
const firstMissing = "\x00"

// waitsForFirst reports whether events of a clock that has no version yet wait for its first one.
func waitsForFirst(waiting []api.WaitItem, clock string) bool {
	return slices.ContainsFunc(waiting, func(w api.WaitItem) bool { return w.Clock == clock && w.Decision != "held" })
}

// newTrack draws events among the lanes of what is missing, to which it adds theirs.
func newTrack(clock string, items []api.InboxItem, byVersion map[string]lane) track {
	t := track{Clock: clock, Missing: len(byVersion)}
	for i := range items {
		byVersion[items[i].Version] = lane{sortable: items[i].Version, Text: clip(cmp.Or(versionText(items[i].VersionClock, items[i].VersionKind, items[i].Version), "no version"))}
	}
	for _, l := range byVersion {
		t.Lanes = append(t.Lanes, l)
		t.Left = max(t.Left, 20+labelWidth*utf8.RuneCountInString(l.Text))
	}
	t.Width = t.Left + plotWidth + plotRight
	slices.SortFunc(t.Lanes, func(a, b lane) int { return cmp.Compare(b.sortable, a.sortable) }) // the newest on top
	for n := range t.Lanes {
		t.Lanes[n].Y = laneHeight/2 + n*laneHeight
		byVersion[t.Lanes[n].sortable] = t.Lanes[n]
	}
	t.Bottom = len(t.Lanes) * laneHeight
	t.Height = t.Bottom + 24
	t.place(items, byVersion)
	t.Summary = fmt.Sprintf("%d events on %d versions, %d gaps; the table below shows the same", len(items), len(t.Lanes)-t.Missing, t.Missing)
	return t
}

// holes adds a lane for each range of versions that did not come.
func holes(lanes map[string]lane, line *api.VersionLineItem, why string, ranges [][2]int64) {
	at, err := schemas.ParseVersion(line.Clock, schemas.VersionKind(line.Kind), line.Version)
	if err != nil {
		return
	}
	for _, r := range ranges {
		sortable := schemas.Version{Clock: line.Clock, Kind: schemas.Sequence, Epoch: at.Epoch, Value: r[0]}.Sortable()
		lanes[sortable] = lane{sortable: sortable, Text: api.RangesText([][2]int64{r}) + " " + why, Hole: why}
	}
}

// place puts a mark for each event into its lane, at the time at which it was received.
func (t *track) place(items []api.InboxItem, lanes map[string]lane) {
	var from, to time.Time
	for i := range items {
		at := receivedAt(&items[i])
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	if len(items) == 0 {
		return
	}
	t.From, t.To = clockText(from), clockText(to)
	span := max(to.Sub(from), time.Millisecond)
	for i := range items {
		e := &items[i]
		m := mark{X: t.Left + 12 + int(float64(plotWidth-24)*float64(receivedAt(e).Sub(from))/float64(span)), Y: lanes[e.Version].Y, Decision: string(e.Decision)}
		switch e.Reason {
		case "first", "next", "arrival", "new_epoch":
		default:
			m.Text = string(e.Reason)
		}
		if e.Duplicates > 0 {
			m.Text = fmt.Sprintf("%s +%d", m.Text, e.Duplicates)
		}
		m.Title = fmt.Sprintf("%s: %s (%s), %s, received %s", lanes[e.Version].Text, e.Decision, e.Reason, e.Status, clockText(receivedAt(e)))
		t.Marks = append(t.Marks, m)
	}
}

func receivedAt(i *api.InboxItem) time.Time {
	if i.ReceivedAt != nil {
		return *i.ReceivedAt
	}
	return i.DecidedAt
}

func clockText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// clip returns the end of a long text, which tells versions apart better than the beginning.
func clip(s string) string {
	if all := []rune(s); len(all) > maxLabel {
		return "…" + string(all[len(all)-maxLabel+1:])
	}
	return s
}
