package ledger

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// witness remembers what the ledger has told and shown, for what must hold whatever a model says.
type witness struct {
	read    map[place]Record   // by offset: their batch was told to be committed
	lane    map[effectOf]place // where the ledger has shown an action
	done    map[effectOf]bool
	dropped bool // a window was: what is not found may be forgotten
}

// place is an offset or a lane_seq of a partition.
type place struct {
	part int32
	at   int64
}

// effectOf is one effect of an event: what must happen once.
type effectOf struct{ event, effect string }

func newWitness() *witness {
	return &witness{read: map[place]Record{}, lane: map[effectOf]place{}, done: map[effectOf]bool{}}
}

// readOf notes what was told to be committed.
func (w *world) readOf(s *Slice) {
	for _, r := range s.Records {
		w.witness.read[place{s.Claim.Partition.Number, r.Offset}] = r
	}
}

// forget lets the witness forget what a window held.
func (w *world) forget(m *modelLedger, window int32) {
	w.witness.dropped = true
	for _, e := range m.events {
		if e.window != window {
			continue
		}
		for _, a := range m.parts[e.part].actions {
			if a.key == e.Key {
				id := effectOf{e.ID, a.effect.Name}
				delete(w.witness.lane, id)
				delete(w.witness.done, id)
				delete(w.given, schemas.NewActionID(w.name, 0, e.Source, e.ID, a.effect.Name))
			}
		}
	}
}

// shown is an action as the ledger shows it.
type shown struct {
	Part                 int32
	Lane                 int64
	Event, Effect, Done  string
	Entity, Clock, Kind  string
	Epoch, Value         int64
	Sub                  int32
	Late, Ordered, First bool
}

// promises looks at what must hold of any ledger: P1 to P4. (P5 is the machine's clock in expire, P6 the tables in zombie.)
func (w *world) promises(what string) {
	w.t.Helper()
	rows, err := w.eye.Query(w.t.Context(), `SELECT f.partition, e.lane_seq + n.i, e.event_id, w.name,
		coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' ELSE 'done' END), e.entity, e.clock, e.kind, e.epoch, e.value, e.sub, e.decision = 'late',
		e.kind <> 'none' AND e.reason <> 'arrival', n.i = 0
		FROM fences f JOIN events e ON e.fence = f.id LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL `+OfAll(ActionStates)+`
		LEFT JOIN effects w ON w.id = coalesce(x.effect, p.effects[n.i + 1])
		WHERE f.subscription = $1 AND e.lane_seq IS NOT NULL ORDER BY 1, 2`, w.subscription)
	if err != nil {
		w.fatalf("%v", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[shown])
	if err != nil {
		w.fatalf("%v", err)
	}
	w.once(what, all)
	w.inOrder(what, all)
	w.nothingLost(what)
}

// once (P2): an effect of an event is in one place, stays there, and what was done stays done.
func (w *world) once(what string, all []shown) {
	seen := map[effectOf]bool{}
	places := map[place]bool{}
	for _, a := range all {
		id, at := effectOf{a.Event, a.Effect}, place{a.Part, a.Lane}
		before, known := w.witness.lane[id]
		switch {
		case seen[id]:
			w.fatalf("P2 after %s: %v is there twice", what, id)
		case places[at]:
			w.fatalf("P3 after %s: two actions at %v", what, at)
		case known && before != at:
			w.fatalf("P2 after %s: %v was at %v and is at %v", what, id, before, at)
		case w.witness.done[id] && a.Done != string(Done):
			w.fatalf("P2 after %s: %v was done and is %s", what, id, a.Done)
		}
		seen[id], places[at], w.witness.lane[id] = true, true, at
		if a.Done == string(Done) {
			w.witness.done[id] = true
		}
	}
	for id := range w.witness.lane {
		if !seen[id] {
			w.fatalf("P2 after %s: the action %v is gone", what, id)
		}
	}
}

// inOrder (P3, P4): in a lane, versions of one line ascend, what is marked as late excepted. Only the entities a and b have
// lines that never begin again.
func (w *world) inOrder(what string, all []shown) {
	type line struct {
		part          int32
		entity, clock string
	}
	last := map[line]shown{}
	for _, a := range all {
		if a.Late || !a.Ordered || a.Kind != string(schemas.Sequence) || slices.Contains([]byte("cd"), a.Entity[len(a.Entity)-1]) {
			continue
		}
		k := line{a.Part, a.Entity, a.Clock}
		if b, ok := last[k]; ok && slices.Compare([]int64{a.Epoch, a.Value, int64(a.Sub)}, []int64{b.Epoch, b.Value, int64(b.Sub)}) < 0 {
			w.fatalf("P4 after %s: %+v runs behind %+v", what, a, b)
		}
		last[k] = a
	}
}

// nothingLost (P1): of every record whose batch was committed the ledger knows what became: its event has a row, or its place
// in the log, or it waits.
func (w *world) nothingLost(what string) {
	if w.witness.dropped {
		return
	}
	rows, err := w.eye.Query(w.t.Context(), `SELECT e.event_key, -1, 0 FROM fences f JOIN events e ON e.fence = f.id WHERE f.subscription = $1
		UNION ALL SELECT coalesce(d.event_key, '00000000-0000-0000-0000-000000000000'), f.partition, d.log_offset FROM fences f JOIN rejected_records d ON d.fence = f.id WHERE f.subscription = $1
		UNION ALL SELECT b.event_key, f.partition, b.log_offset FROM fences f JOIN buffer b ON b.fence = f.id WHERE f.subscription = $1`, w.subscription)
	if err != nil {
		w.fatalf("%v", err)
	}
	keys, places := map[schemas.EventKey]bool{}, map[place]bool{}
	var key [16]byte
	var at place
	if _, err := pgx.ForEachRow(rows, []any{&key, &at.part, &at.at}, func() error {
		keys[key], places[at] = true, true
		return nil
	}); err != nil {
		w.fatalf("%v", err)
	}
	for at, r := range w.witness.read {
		if broken := r.NoEvent() || r.Type == poison; !places[at] && (broken || !keys[r.Key]) {
			w.fatalf("P1 after %s: of the record at %v (%s) nothing is known", what, at, r.ID)
		}
	}
}
