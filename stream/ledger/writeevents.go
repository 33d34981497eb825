package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// eventClass is what many events of a batch have in common. It is sent once; each event has the number of its class.
type eventClass struct {
	fence, leaderEpoch       int32
	epoch                    int64
	sub, duplicates, actions int32

	decision                 gate.Decision
	reason                   gate.Reason
	kind                     schemas.VersionKind
	clock, source, eventType string
	payload                  schemas.PayloadKind // empty: not written
}

// maxClasses bounds the classes of one statement: Postgres finds a text of an array by walking through those before it.
const maxClasses = 32

// eventRows gathers the rows of events for as many statements as their classes need, nearly always one.
type eventRows struct {
	text bool // the versions are texts
	sets []*eventSet
	n    int // in use; the others are kept for a later batch
}

// eventSet is the parameters of one statement.
type eventSet struct {
	index map[eventClass]int32
	last  eventClass // which most events share with the one before
	at    int32
	// classes are its columns, rows those of the events.
	classes, rows rows
}

func (e *eventRows) add(class eventClass, r *Record, v *verdict) {
	set := e.setFor(class)
	c := set.rows
	c[0].Int32(set.at)
	c[1].Int64(r.Offset)
	c[2].UUID(r.Key)
	c[3].UUID(r.Hash)
	c[4].Time(r.ReceivedAt)
	laneSeqOrNull(c[5], v.laneSeq)
	c[6].Int64(v.Version.Value)
	c[7].Text(string(r.Entity))
	c[8].Text(r.ID)
	if e.text {
		c[9].Text(v.Version.Text)
	}
}

// setFor is the set that takes an event of a class; its at is the class.
func (e *eventRows) setFor(class eventClass) *eventSet {
	if e.n > 0 {
		if set := e.sets[e.n-1]; set.find(class) {
			return set
		}
	}
	if e.n == len(e.sets) {
		e.sets = append(e.sets, newEventSet(e.text))
	}
	e.n++
	set := e.sets[e.n-1]
	set.find(class)
	return set
}

// newEventSet makes the columns of eventsInsert: those of the classes, which are $2 to $14, and those of the events behind them.
func newEventSet(text bool) *eventSet {
	s := &eventSet{
		index: map[eventClass]int32{},
		classes: rows{pg.Int32Column(0), pg.Int32Column(0), pg.Int64Column(0), pg.Int32Column(0), pg.Int32Column(0), pg.Int32Column(0), pg.TextColumn(0), pg.TextColumn(0),
			pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.TextColumn(0), pg.BoolColumn()},
		rows: rows{pg.Int32Column(0), pg.Int64Column(0), pg.UUIDColumn(0), pg.UUIDColumn(0), pg.TimeColumn(), pg.Int64Column(0), pg.Int64Column(0), pg.TextColumn(0), pg.TextColumn(0)},
	}
	if text {
		s.rows = append(s.rows, pg.TextColumn(0))
	}
	return s
}

// find makes at the number of a class, from one, and reports whether there is room for it.
func (s *eventSet) find(class eventClass) bool {
	if s.at > 0 && class == s.last {
		return true
	}
	n := s.index[class]
	if n == 0 {
		if len(s.index) == maxClasses {
			return false
		}
		n = int32(len(s.index) + 1)
		s.index[class] = n
		s.class(class)
	}
	s.last, s.at = class, n
	return true
}

func (s *eventSet) class(class eventClass) {
	c := s.classes
	c[0].Int32(class.fence)
	c[1].Int32(class.leaderEpoch)
	c[2].Int64(class.epoch)
	c[3].Int32(class.sub)
	c[4].Int32(class.duplicates)
	c[5].Int32(class.actions)
	c[6].Text(string(class.decision))
	c[7].Text(string(class.reason))
	c[8].Text(string(class.kind))
	c[9].Text(class.clock)
	c[10].Text(class.source)
	c[11].Text(class.eventType)
	if class.payload == "" {
		c[12].Null()
	} else {
		c[12].Bool(isDelta(class.payload))
	}
}

func (e *eventRows) steps(s pg.Statement, plan int32) (out []step) {
	for _, set := range e.sets[:e.n] {
		out = append(out, step{set.rows, s, set.classes.params(pg.Int32Param(plan))})
	}
	return out
}

func (e *eventRows) reset() {
	for _, set := range e.sets[:e.n] {
		set.at = 0
		clear(set.index)
		for _, c := range slices.Concat(set.classes, set.rows) {
			c.Reset()
		}
	}
	e.n = 0
}

// addEvent adds the row of an event that is remembered as seen.
func (w *writer) addEvent(k *partitionBatch, r *Record, v *verdict) {
	e := &w.events
	if v.Version.Text != "" {
		e = &w.textEvents
	}
	e.add(eventClass{
		fence: k.Claim.ID, leaderEpoch: r.LeaderEpoch, epoch: v.Version.Epoch, sub: v.Version.Sub, duplicates: v.duplicates, actions: v.actions,
		decision: v.Decision, reason: v.Reason, kind: r.Version.Kind, clock: r.Version.Clock, source: r.Source, eventType: r.Type,
		payload: w.n.payload(r.Payload),
	}, r, v)
}
