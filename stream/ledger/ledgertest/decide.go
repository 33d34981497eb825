package ledgertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// partitionBatch is one partition's part of a transaction: a slice, the ended waits of a claim, or a command. Each attempt
// fills it again; only refusedData is kept between attempts.
type partitionBatch struct {
	ledger.Slice
	expire      bool            // no records: the overdue lines are decided,
	command     *ledger.Command // or what it says; nil: none
	refusedData bool            // the one record's data was refused

	fenced   bool
	f        *fence
	c        *claim
	state    *gate.State
	keys     []gate.VersionLineKey
	before   map[gate.VersionLineKey][]gate.Waiting // as it waited before the gate was asked
	verdicts []verdict                              // the last word on each record
	entered  map[int64]int                          // offset to index, of records that entered the buffer
	left     []leftBuffer                           // the last word on what waited before
	parked   map[int64]int                          // offset to index, of those that are parked
	about    *wait                                  // the event that the command is about
	laneEnd  int64
	withRow  []int64 // lane_seqs of actions that have a row from the start

	applied ledger.Applied
}

type verdict struct {
	gate.Outcome
	laneSeq int64
}

type leftBuffer struct {
	waited  *gate.Waiting
	outcome gate.Outcome
	laneSeq int64
}

// positionStays reports whether the position does not move.
func (w *partitionBatch) positionStays() bool { return w.expire || w.command != nil }

// attempt decides and writes a batch. The caller holds mu, and the fences' locks.
func (p *Process) attempt(parts []*partitionBatch) error {
	m := p.m
	for _, w := range parts {
		*w = partitionBatch{Slice: w.Slice, expire: w.expire, command: w.command, refusedData: w.refusedData, applied: ledger.Applied{Claim: w.Claim}}
		w.c = m.claims[w.Claim]
		if w.f = m.fenceOf(w.Claim); w.f == nil {
			w.fenced, w.applied.Fenced = true, true
		}
	}
	for _, w := range parts {
		if err := w.check(); err != nil {
			return err
		}
	}
	seen, also := map[schemas.EventKey]gate.Seen{}, map[gate.Also]gate.Said{}
	for _, w := range parts {
		if w.fenced {
			continue
		}
		if err := p.decide(w, seen, also); err != nil {
			return err
		}
	}
	p.commit(parts)
	for key, first := range also {
		if m.also[key].Key != first.Key {
			m.also[key] = said{first, m.now()}
		}
	}
	return nil
}

// check compares the claim with the ledger.
func (w *partitionBatch) check() error {
	if w.fenced {
		return nil
	}
	e := &ledger.ContinuityError{Partition: w.Claim.Partition, Stored: w.f.next.Offset, From: w.From}
	switch {
	case w.f.revision != w.c.revision:
		e.Detail = fmt.Sprintf("the ledger is at revision %d, the claim at %d", w.f.revision, w.c.revision)
		return refusal{e}
	case !w.positionStays() && w.f.next.Offset != w.From:
		return refusal{e}
	}
	return nil
}

// broken reports whether record i is to be quarantined. Nothing else of it is read.
func (w *partitionBatch) broken(i int) bool { return w.refusedData || w.Records[i].NoEvent() }

// decide decides a partition's part of a transaction: a command, waits that have ended, or records. The outcome is in w, and seen has the
// events that it looked up, also the second keys; m does not change.
func (p *Process) decide(w *partitionBatch, seen map[schemas.EventKey]gate.Seen, also map[gate.Also]gate.Said) error {
	m := p.m
	w.collectLines(m)
	for i := range w.Records {
		if r := &w.Records[i]; !w.broken(i) {
			if !isText(string(r.Entity)) || !isText(r.Version.Clock) {
				return badData{fmt.Errorf("entity or clock of the record at offset %d is no text", r.Offset)}
			}
			if _, known := seen[r.Key]; !known && m.events[r.Key] != nil {
				e := m.events[r.Key]
				seen[r.Key] = gate.Seen{Hash: e.Hash, Decision: e.decision}
			}
			if _, known := also[r.Also]; !known && !r.Filtered {
				if first, stored := m.also[r.Also]; stored {
					first.Recent = m.now().Sub(first.decided) < w.c.policy.Also
					also[r.Also] = first.Said
				}
			}
		}
	}
	w.copyLines()
	w.state.Seen, w.state.Also = seen, also
	switch {
	case w.command != nil:
		w.decideCommand()
	case w.expire:
		w.applied.Outcomes = gate.Expire(w.state, w.keys, w.c.policy)
	default:
		gated := make([]gate.Record, len(w.Records))
		for i := range w.Records {
			gated[i] = w.Records[i].Record
			if w.refusedData {
				gated[i] = gate.Record{Offset: gated[i].Offset, Broken: gate.ReasonDataRejected}
				w.applied.Quarantined = append(w.applied.Quarantined, i)
			}
		}
		w.applied.Outcomes = gate.Decide(w.state, gated, w.c.policy)
	}
	w.gatherVerdicts(int64(len(p.spec.Actions)))
	return w.checkData()
}

// collectLines collects the version lines that the batch is about, each once.
func (w *partitionBatch) collectLines(m *Memory) {
	known := map[gate.VersionLineKey]bool{}
	add := func(k gate.VersionLineKey) {
		if !known[k] {
			known[k] = true
			w.keys = append(w.keys, k)
		}
	}
	switch {
	case w.command != nil:
		add(w.command.VersionLine)
		if c := m.command(w.command.ID); c != nil && !c.ended && c.Detail.Of == w.command.Detail.Of {
			if held := w.f.waits[c.Offset]; held != nil && held.Key == c.key {
				w.about = held
			}
		}
	case w.expire:
		for _, k := range w.f.overdue(m.now(), w.c.overdueAt) {
			add(k)
		}
	default:
		for i := range w.Records {
			if r := &w.Records[i]; !w.broken(i) {
				add(gate.VersionLineKey{Entity: r.Entity, Clock: r.Version.Clock})
			}
		}
	}
}

// maxOverdue is how many lines one Expire ends the waits of.
const maxOverdue = 500

// overdue are the lines on which a wait had ended when NextDeadline last said so, or by now where it never did.
func (f *fence) overdue(now, observed time.Time) []gate.VersionLineKey {
	if observed.IsZero() || now.Before(observed) {
		observed = now
	}
	first := map[gate.VersionLineKey]time.Time{}
	for _, w := range f.waits {
		if w.deadline.IsZero() || w.deadline.After(observed) {
			continue
		}
		if at, ok := first[w.line()]; !ok || w.deadline.Before(at) {
			first[w.line()] = w.deadline
		}
	}
	var keys []gate.VersionLineKey
	for k := range first {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b gate.VersionLineKey) int { return cmp.Or(first[a].Compare(first[b]), compareKeys(a, b)) })
	keys = keys[:min(len(keys), maxOverdue)]
	slices.SortFunc(keys, compareKeys)
	return keys
}

func compareKeys(a, b gate.VersionLineKey) int {
	return cmp.Or(strings.Compare(string(a.Entity), string(b.Entity)), strings.Compare(a.Clock, b.Clock))
}

// copyLines gives the gate a copy of the lines, so that what is not committed changes nothing.
func (w *partitionBatch) copyLines() {
	st := &gate.State{Lines: map[gate.VersionLineKey]*gate.VersionLine{}, Waiting: map[gate.VersionLineKey][]gate.Waiting{}}
	w.state, w.before = st, map[gate.VersionLineKey][]gate.Waiting{}
	mine := map[gate.VersionLineKey]bool{}
	for _, k := range w.keys {
		mine[k] = true
		if l := w.f.lines[k]; l != nil {
			line := *l
			line.Skipped = slices.Clone(l.Skipped)
			st.Lines[k] = &line
		}
	}
	for _, v := range w.f.waits {
		if v.held {
			continue
		}
		if v.Decision == gate.Buffered {
			st.Buffered++
			st.BufferedBytes += v.Size
		}
		if k := v.line(); mine[k] {
			st.Waiting[k] = append(st.Waiting[k], v.Waiting)
		}
	}
	for k, waiting := range st.Waiting {
		st.Sort(k)
		w.before[k] = slices.Clone(waiting)
	}
}

// decideCommand asks the gate about a command.
func (w *partitionBatch) decideCommand() {
	switch release := w.command.Kind == ledger.Release; {
	case w.about == nil: // it has ended already, or the event is not there any more
	case !w.about.held && release:
		w.applied.Outcomes = gate.Release(w.state, w.keys, w.c.policy)
	case !w.about.held:
	case release:
		w.applied.Outcomes = []gate.Outcome{gate.Redrive(w.state, new(w.about.Waiting))}
	default:
		w.applied.Outcomes = []gate.Outcome{gate.Discard(new(w.about.Waiting))}
	}
}

// gatherVerdicts collects the final outcome of every record and of every event that waited, and gives lane_seqs in the order
// of the outcomes.
func (w *partitionBatch) gatherVerdicts(actions int64) {
	w.verdicts = make([]verdict, len(w.Records))
	w.entered, w.parked = map[int64]int{}, map[int64]int{}
	w.laneEnd = w.f.laneSeq
	for _, o := range w.applied.Outcomes {
		var first int64
		if o.Decision.Runs() && actions > 0 {
			first = w.laneEnd
			w.laneEnd += actions
		}
		if o.Record >= 0 {
			w.verdicts[o.Record] = verdict{o, first}
			if !o.Held && (o.Decision == gate.Buffered || o.Decision == gate.Parked) {
				w.entered[w.Records[o.Record].Offset] = o.Record
			}
			continue
		}
		if i, own := w.entered[o.Released.Offset]; own {
			w.verdicts[i].Outcome, w.verdicts[i].laneSeq = o, first
			continue
		}
		w.addLeft(leftBuffer{o.Released, o, first})
	}
}

// addLeft notes the outcome of an event that waited. If it is parked and released in the same call, one row is written.
func (w *partitionBatch) addLeft(r leftBuffer) {
	offset := r.waited.Offset
	if i, ok := w.parked[offset]; ok {
		w.left[i] = r
		return
	}
	if r.outcome.Decision == gate.Parked {
		w.parked[offset] = len(w.left)
	}
	w.left = append(w.left, r)
}

// maxKey is what an index takes of entity and clock together, when they do not compress.
const maxKey = 2600

// checkData refuses what the database would refuse of the rows that the batch would write.
func (w *partitionBatch) checkData() error {
	for i := range w.verdicts {
		v, r := &w.verdicts[i], &w.Records[i]
		var err error
		switch {
		case v.Reason == gate.ReasonSeen:
		case v.Decision == gate.Quarantined && v.Reason != gate.ReasonMisplaced && !v.Reason.KnowsEvent(): // what is not trusted is cleaned
		case !isText(string(r.Entity)), !isText(r.Version.Clock), !isText(r.Version.Text), !isText(r.Source), !isText(r.ID), !isText(r.Type), !isText(string(v.Version.Kind)):
			err = errors.New("a text is none")
		case v.Decision == gate.Conflict, v.Decision == gate.Quarantined, v.Decision == gate.Filtered, r.Filtered:
		case r.Source == "" || r.ID == "":
			err = errors.New("source or id is empty")
		}
		if err == nil && v.Decision != gate.Quarantined && len(r.Entity)+len(r.Version.Clock) > maxKey && w.indexed(i) {
			err = errors.New("the key of its line is too large")
		}
		if _, waits := w.entered[r.Offset]; err == nil && (waits || v.Held) && w.occupied(r.Offset) {
			err = errors.New("its place in the gap buffer is taken")
		}
		if err != nil {
			return badData{fmt.Errorf("the record at offset %d: %w", r.Offset, err)}
		}
	}
	return nil
}

// indexed says that a record's line, or the place where it waits, is written.
func (w *partitionBatch) indexed(i int) bool {
	k := gate.VersionLineKey{Entity: w.Records[i].Entity, Clock: w.Records[i].Version.Clock}
	_, waits := w.entered[w.Records[i].Offset]
	return w.state.Lines[k] != nil || waits || w.verdicts[i].Held
}

// occupied says that an event that waited before stays in a place of the buffer.
func (w *partitionBatch) occupied(offset int64) bool {
	v := w.f.waits[offset]
	if v == nil {
		return false
	}
	return v.held || !slices.ContainsFunc(w.left, func(r leftBuffer) bool {
		return r.waited.Offset == offset && r.waited.Key == v.Key && r.outcome.Decision != gate.Parked
	})
}

// isText reports whether a text column takes s.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
