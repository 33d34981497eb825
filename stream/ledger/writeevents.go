package ledger

import (
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// eventClass are columns that many events of a batch have in common. They are sent once; each event has the number of its class.
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

// maxClasses bounds the classes of one statement: to find an element of a text array, Postgres walks through those before it.
const maxClasses = 32

// eventSets gathers the rows of events for as many statements as their classes need, nearly always one.
type eventSets struct {
	text bool // the versions are texts
	sets []*eventSet
	n    int // in use; the others are kept for a later batch
}

// eventSet has the parameters of one statement, eventsInsert or eventsText.
type eventSet struct {
	numbers map[eventClass]int32 // from 1
	last    eventClass           // the class that was found last: most events have that of the one before
	number  int32                // of last; 0: none yet
	classes *classRows
	rows    *eventRows
}

// classRows are the columns of event classes: the parameters $3 and on.
type classRows struct {
	columns
	fence, leaderEpoch, sub, duplicates, actions     pg.Int32s
	epoch                                            pg.Int64s
	decision, reason, kind, clock, source, eventType pg.Texts
	delta                                            pg.Bools
}

func newClassRows() *classRows {
	c := &classRows{}
	c.columns = columns{{"fence", &c.fence}, {"leader_epoch", &c.leaderEpoch}, {"epoch", &c.epoch}, {"sub", &c.sub}, {"duplicates", &c.duplicates},
		{"actions", &c.actions}, {"decision", &c.decision}, {"reason", &c.reason}, {"kind", &c.kind}, {"clock", &c.clock}, {"source", &c.source},
		{"type", &c.eventType}, {"delta", &c.delta}}
	return c
}

// eventRows are the columns that each event has of its own: the parameters behind those of classRows.
type eventRows struct {
	columns
	class                  pg.Int32s
	offset, laneSeq, value pg.Int64s
	key, hash              pg.UUIDs
	received               pg.Times
	entity, id, text       pg.Texts
}

// newEventRows makes rows with a column for versions that are texts, if text is set; nearly no event needs it.
func newEventRows(text bool) *eventRows {
	c := &eventRows{}
	c.columns = columns{{"class", &c.class}, {"log_offset", &c.offset}, {"event_key", &c.key}, {"hash", &c.hash}, {"received_at", &c.received},
		{"lane_seq", &c.laneSeq}, {"value", &c.value}, {"entity", &c.entity}, {"event_id", &c.id}}
	if text {
		c.columns = append(c.columns, column{"version_text", &c.text})
	}
	return c
}

// add adds a row for an event to a set that has its class, or has room for it.
func (e *eventSets) add(class eventClass, r *Record, v *verdict) {
	set := e.setFor(class)
	c := set.rows
	c.class.Add(set.number)
	c.offset.Add(r.Offset)
	c.key.Add(r.Key)
	c.hash.Add(r.Hash)
	c.received.Add(r.ReceivedAt)
	c.laneSeq.AddOrNull(v.laneSeq)
	c.value.Add(v.Version.Value)
	c.entity.Add(string(r.Entity))
	c.id.Add(r.ID)
	if e.text {
		c.text.Add(v.Version.Text)
	}
}

// setFor returns the set that takes an event of a class, whose number is set.number.
func (e *eventSets) setFor(class eventClass) *eventSet {
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

func newEventSet(text bool) *eventSet {
	return &eventSet{numbers: map[eventClass]int32{}, classes: newClassRows(), rows: newEventRows(text)}
}

// find sets last and number to a class, which it adds if it is new. It returns false if there is no room for one more.
func (s *eventSet) find(class eventClass) bool {
	if s.number > 0 && class == s.last {
		return true
	}
	n := s.numbers[class]
	if n == 0 {
		if len(s.numbers) == maxClasses {
			return false
		}
		n = int32(len(s.numbers) + 1)
		s.numbers[class] = n
		s.classes.add(class)
	}
	s.last, s.number = class, n
	return true
}

// add adds a class.
func (c *classRows) add(class eventClass) {
	c.fence.Add(class.fence)
	c.leaderEpoch.Add(class.leaderEpoch)
	c.epoch.Add(class.epoch)
	c.sub.Add(class.sub)
	c.duplicates.Add(class.duplicates)
	c.actions.Add(class.actions)
	c.decision.Add(string(class.decision))
	c.reason.Add(string(class.reason))
	c.kind.Add(string(class.kind))
	c.clock.Add(class.clock)
	c.source.Add(class.source)
	c.eventType.Add(class.eventType)
	if class.payload == "" {
		c.delta.Null()
	} else {
		c.delta.Add(isDelta(class.payload))
	}
}

// steps adds the statements for the sets in use, each with s. replay is the one that runs the events again; nil: none does.
func (e *eventSets) steps(l *steps, s pg.Statement, plan int32, replay []byte) {
	for _, set := range e.sets[:e.n] {
		l.add(s, set.classes.params(pg.Int32Param(plan), replay), set.rows.columns)
	}
}

func (e *eventSets) reset() {
	for _, set := range e.sets[:e.n] {
		set.number = 0
		clear(set.numbers)
		set.classes.reset()
		set.rows.reset()
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
