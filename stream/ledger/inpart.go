package ledger

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Lines that are read in part. Nothing caps what is parked on a version line: a hot entity has a million events there after a weekend. So of a
// long parked line each batch reads the lowest events (see Claim.lowest), the highest, and those with the keys of its records
// (gate.State.First), and keeps none of them. Where the gate says that it needs the line whole, the batch is tried again with that. Lines that are
// not parked are read whole: the policy's caps bound them.
//
//	readLines       a glance at each line, in any order: nearly always that is all
//	readLong        what is wanted of those that have more; errTooLittle, too
//	decide          errTooLittle; partitionBatch.whole has the lines that the next try reads whole
//	markCommitted   lines of which a part is enough are not cached

// errTooLittle says that a version line was read in part, and that all that waits there is needed.
var errTooLittle = errors.New("a version line was read in part, and is needed whole")

// lowest is how many of the lowest events of a long parked line are read: as many as a step may release, as many again, since with equal: last it ends
// older ones of a version without releasing them, the next one, and one to spare.
func (c *Claim) lowest() int { return 2*c.policy.MaxReleases + 2 }

// glance is how many rows of a line are read at first, when nothing is known of it.
func (c *Claim) glance() int { return min(64, c.lowest()) }

// mayBeReadInPart reports whether a line on which these events are parked may be read in part: its order in the gate is that of buffer_parked. The
// texts and the counters of kind monotonic do not compare; no other kind has texts.
func mayBeReadInPart(waiting []gate.Waiting) bool {
	first := waiting[0].Version
	return first.Text == "" && first.Kind != schemas.Monotonic && !slices.ContainsFunc(waiting, func(w gate.Waiting) bool {
		return w.Decision != gate.Parked || !w.Version.Comparable(first)
	})
}

// isLong reports whether version line k is not cached, because the next batch reads a part of it.
func (w *partitionBatch) isLong(k gate.VersionLineKey) bool {
	waiting := w.waiting(k)
	return w.state.First[k] > 0 || len(waiting) > w.Claim.lowest() && mayBeReadInPart(waiting)
}

// readLong reads again the lines of which readLines has read as many rows as it may: there are more, or may be.
func (t *batchTx) readLong(ctx context.Context) error {
	whole, parked, keys := newLineKeyRows(), newLineKeyRows(), newEventKeyRows()
	for _, w := range t.parts {
		for i, k := range w.keys {
			waiting := w.state.Waiting[k]
			if w.fenced || w.cached[i] != nil || len(waiting) < w.Claim.glance() {
				continue
			}
			delete(w.state.Waiting, k)
			if w.whole[k] || !mayBeReadInPart(waiting) {
				whole.add(w.Claim.ID, k)
				continue
			}
			parked.add(w.Claim.ID, k)
			for r := range w.Records {
				if w.keyOf[r] == int32(i) {
					keys.add(w.Claim.ID, w.Records[r].Key)
				}
			}
		}
	}
	if whole.n()+parked.n() == 0 {
		return nil
	}
	waits := func(r *pg.Row) { t.byFence[r.Int32()].addWaiting(waitingOf(r)) }
	lowest := func(r *pg.Row) {
		w := t.byFence[r.Int32()]
		if w.state.First == nil {
			w.state.First = map[gate.VersionLineKey]int{}
		}
		w.state.First[w.addWaiting(waitingOf(r))]++
	}
	others := func(r *pg.Row) { // an event with a record's key may wait on another line, which has been read
		w, g := t.byFence[r.Int32()], waitingOf(r)
		if w.state.First[gate.VersionLineKey{Entity: g.Entity, Clock: g.Version.Clock}] > 0 {
			w.addWaiting(g)
		}
	}
	var err error
	add := func(s pg.Statement, read func(*pg.Row), of columns, params ...[]byte) {
		if of.n() > 0 && err == nil {
			err = t.p.Add(ctx, s, read, append(of.params(), params...)...)
		}
	}
	add(bufferRead, waits, whole.columns, pg.Int64Param(math.MaxInt64))
	add(parkedLowest, lowest, parked.columns, pg.Int64Param(int64(t.parts[0].Claim.lowest())))
	add(parkedHighest, others, parked.columns)
	add(parkedKeys, others, keys.columns)
	if err == nil {
		err = t.p.Run(ctx)
	}
	for _, w := range t.parts {
		err = errors.Join(err, w.joinParts())
	}
	return err
}

// joinParts makes one list of what was read of each long parked line. It returns errTooLittle if a line is to be read whole.
func (w *partitionBatch) joinParts() (err error) {
	for k, first := range w.state.First {
		all, offsets := w.state.Waiting[k], map[int64]bool{}
		all = slices.DeleteFunc(all, func(g gate.Waiting) bool { // the lowest come first
			again := offsets[g.Offset]
			offsets[g.Offset] = true
			return again
		})
		w.state.Waiting[k] = all
		switch {
		case len(all) == first: // the highest is among the lowest: that is all
			delete(w.state.First, k)
		case !mayBeReadInPart(all):
			w.readWhole(k)
			err = errTooLittle
		}
	}
	return err
}

// readWhole has the next try read a version line whole.
func (w *partitionBatch) readWhole(k gate.VersionLineKey) {
	if w.whole == nil {
		w.whole = map[gate.VersionLineKey]bool{}
	}
	w.whole[k] = true
}

// checkParts returns errTooLittle if the gate needs version lines whole of which it was given a part.
func (w *partitionBatch) checkParts() error {
	for k := range w.state.Short {
		w.readWhole(k)
	}
	if len(w.state.Short) > 0 {
		return errTooLittle
	}
	return nil
}

// eventKeyRows name events that may wait in a partition: the parameters of parkedKeys.
type eventKeyRows struct {
	columns
	fence pg.Int32s
	key   pg.UUIDs
}

func newEventKeyRows() *eventKeyRows {
	r := &eventKeyRows{}
	r.columns = columns{{"fence", &r.fence}, {"event_key", &r.key}}
	return r
}

func (r *eventKeyRows) add(fence int32, key schemas.EventKey) {
	r.fence.Add(fence)
	r.key.Add(key)
}

var (
	parkedLowest = pg.NewFresh(`-- parkedLowest: of each line the beginning of its range of buffer_parked
SELECT b.* ` + parkedOfLine + ` ORDER BY b.kind, b.epoch, b.value, b.sub, b.log_offset LIMIT $4) b`)

	parkedHighest = pg.NewFresh(`-- parkedHighest: of each line the end of its range of buffer_parked
SELECT b.* ` + parkedOfLine + ` ORDER BY b.kind DESC, b.epoch DESC, b.value DESC, b.sub DESC, b.log_offset DESC LIMIT 1) b`)

	// parkedKeys has a range and an order, so that no other index will do where the statistics know of no parked row.
	parkedKeys = pg.NewFresh(`-- parkedKeys: one probe of buffer_parked_keys per event
SELECT b.* FROM ` + newEventKeyRows().from(1, "k") + `
CROSS JOIN LATERAL (SELECT ` + waitingColumns + ` FROM buffer b
    WHERE b.fence = k.fence AND b.event_key BETWEEN k.event_key AND k.event_key AND b.decision = 'parked' ORDER BY b.event_key OFFSET 0) b`)
)

var parkedOfLine = `FROM ` + newLineKeyRows().from(1, "k") + `
CROSS JOIN LATERAL (SELECT ` + waitingColumns + ` FROM buffer b
    WHERE b.fence = k.fence AND b.entity = k.entity AND b.clock = k.clock AND b.decision = 'parked'`
