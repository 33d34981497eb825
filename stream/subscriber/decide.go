package subscriber

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// decide asks the gate what becomes of a unit. What waits on a version line may be more than one transaction can run, so only the first of it
// was read, and a release is cut where that ends:
//
//	the line has reached what waits: a release was cut    it goes on, and the unit comes again after it
//	a unit of several touches a line that waits long      it is divided, until
//	one event, or one end of a wait, releases all         it is committed, and comes again: what it released goes on
//	one event begins the line again                       what waits runs first, some at a time
//	the order is by arrival now                           the same: all that waits came before the unit
//
// Each of these transactions is whole, and leaves it to the tables to tell where to go on: an event that waits though its line has reached it.
func (w *worker) decide(ctx context.Context, tx pgx.Tx, d *decided) error {
	for at := range d.known.state.Waiting {
		if d.known.state.Reached(at) {
			d.onlyRelease(w.next, gate.Reach(d.known.state, at, w.Policy))
			return nil
		}
	}
	if d.unit.records != nil && w.Policy.Order == gate.OrderArrival && len(d.known.long) > 0 {
		d.onlyRelease(w.next, gate.Release(d.known.state, slices.Collect(maps.Keys(d.known.long)), w.Policy))
		return nil
	}
	if d.unit.records != nil {
		d.out = gate.Decide(d.known.state, d.records, w.Policy)
	} else {
		d.out = gate.Expire(d.known.state, d.ended, w.Policy)
	}
	runs, cut := 0, []gate.VersionLineKey(nil)
	for _, o := range d.out {
		if o.Decision.Runs() {
			runs++
		}
		if o.Released != nil {
			at := gate.VersionLineKey{Entity: o.Released.Entity, Clock: o.Released.Version.Clock}
			if _, ok := d.known.long[at]; ok {
				cut = append(cut, at)
			}
		}
	}
	switch {
	case d.size() > 1 && (len(cut) > 0 || runs > w.Batch):
		d.divide = true
	case len(cut) > 0:
		d.unfinished = true
		return w.runFirst(ctx, tx, d, cut[0])
	}
	return nil
}

// runFirst has the first of what waits on a version line run, where the unit's one event begins the line again: it is to run after them.
func (w *worker) runFirst(ctx context.Context, tx pgx.Tx, d *decided, at gate.VersionLineKey) (err error) {
	waited, now := d.known.long[at], d.known.state.Lines[at].At
	if now.Comparable(waited) && now.Epoch == waited.Epoch {
		return nil
	}
	if d.known, err = w.read(ctx, tx, d); err == nil { // the gate has changed it
		d.onlyRelease(w.next, gate.Release(d.known.state, []gate.VersionLineKey{at}, w.Policy))
	}
	return err
}

// onlyRelease leaves the unit's own events to a later transaction.
func (d *decided) onlyRelease(position int64, out []gate.Outcome) {
	d.next, d.out, d.unfinished = position, out, true
	d.events, d.records, d.decoded, d.errors = nil, nil, nil, nil
}

// endReleases ends the releases that were cut when this partition's worker before was ended. It tries until it is done.
func (w *worker) endReleases() error {
	for wait := firstPause; !w.quits(); wait = longer(wait) {
		lines, err := w.cutReleases()
		if err == nil {
			for _, at := range lines {
				if err := w.untilDone(unit{ended: []gate.VersionLineKey{at}}); err != nil { // nothing is overdue as of no time
					return err
				}
			}
			return nil
		}
		if hopeless(err) {
			return withAdvice(err)
		}
		w.Logger.Warn("what waits not read; trying again", "topic", w.topic, "partition", w.partition, "error", err)
		pause(w.quit, wait)
	}
	return nil
}

// cutReleases are the version lines that have reached what waits on them.
func (w *worker) cutReleases() (cut []gate.VersionLineKey, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
	defer cancel()
	rows, err := w.Pool.Query(ctx, `SELECT DISTINCT ON (e.entity, e.clock) e.entity, e.clock, l.kind, l.version, e.version
		FROM forebay_events e JOIN forebay_lines l USING (consumer_group, topic, entity, clock)
		WHERE consumer_group = $1 AND topic = $2 AND e.partition = $3 AND e.record IS NOT NULL ORDER BY e.entity, e.clock, e.version COLLATE "C"`,
		w.Group, w.topic, w.partition)
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", w.place, err)
	}
	var at gate.VersionLineKey
	var kind schemas.VersionKind
	var version, waits string
	_, err = pgx.ForEachRow(rows, []any{&at.Entity, &at.Clock, &kind, &version, &waits}, func() error {
		line, err1 := schemas.ParseVersion(at.Clock, kind, version)
		first, err2 := schemas.ParseVersion(at.Clock, kind, waits)
		st := gate.NewState()
		st.Lines[at] = &gate.VersionLine{At: line}
		st.Waiting[at] = []gate.Waiting{{Record: gate.Record{Version: first}, Decision: gate.Buffered}}
		if st.Reached(at) {
			cut = append(cut, at)
		}
		return errors.Join(err1, err2)
	})
	if err != nil {
		return nil, fmt.Errorf("read what waits in %s: %w", w.place, err)
	}
	return cut, nil
}
