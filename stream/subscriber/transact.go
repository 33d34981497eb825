package subscriber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
)

// decided is one unit in its transaction.
type decided struct {
	unit
	next       int64            // the position afterwards
	readIn     int32            // the leader epoch of the last record before it, where it has moved
	events     []*kgo.Record    // the unit's records that are events, or should be
	records    []gate.Record    // of the same
	decoded    []*schemas.Event // of the same; nil if undecodable
	errors     []string         // of the same: why
	known      *known
	out        []gate.Outcome
	ran        []schemas.EventKey // whose handlers were called
	unfinished bool               // the unit is not done when the transaction has committed
	divide     bool               // nothing was done: it is too much for one transaction
}

// transact decides a unit in one transaction: position, what is known, decisions, handlers, what is written. Its error is errFenced,
// a *handlerError, or one of Postgres; nothing is written then, unless a COMMIT was carried out whose answer was lost.
func (w *worker) transact(u unit) (*decided, error) {
	d := &decided{unit: u}
	ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
	defer cancel()
	tx, err := w.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return d, fmt.Errorf("begin a transaction: %w", err)
	}
	defer tx.Rollback(ctx) // after a commit it does nothing; after ctx it closes the connection, and the server rolls back
	if err := w.lock(ctx, tx, d); err != nil {
		return d, err
	}
	d.decode()
	if d.known, err = w.read(ctx, tx, d); err != nil {
		return d, err
	}
	if err := w.decide(ctx, tx, d); err != nil || d.divide {
		return d, err
	}
	if err := w.handle(ctx, tx, d); err != nil {
		return d, err
	}
	if err := w.write(ctx, tx, d); err != nil {
		return d, err
	}
	w.sent = d.next
	if err := tx.Commit(ctx); err != nil {
		return d, d.commitFailed(err)
	}
	w.committed(d)
	return d, nil
}

// lock locks the position, and refuses to go on where it is no longer this worker's. It may be that of a commit whose answer was lost: then
// the records are duplicates. A transaction whose client stands still is ended by the server, since the next owner waits for the row.
func (w *worker) lock(ctx context.Context, tx pgx.Tx, d *decided) error {
	var epoch, next int64
	err := tx.QueryRow(ctx, `SELECT epoch, next_offset, set_config('idle_in_transaction_session_timeout', $4, true)
		FROM forebay_positions WHERE consumer_group = $1 AND topic = $2 AND partition = $3 FOR UPDATE`,
		w.Group, w.topic, w.partition, fmt.Sprint(w.Timeout.Milliseconds())).Scan(&epoch, &next, nil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: %s has no position any more", errFenced, w.place)
	case err != nil:
		return fmt.Errorf("lock the position of %s: %w", w.place, err)
	case epoch != w.epoch:
		return fmt.Errorf("%w: %s was claimed at epoch %d, this member has %d", errFenced, w.place, epoch, w.epoch)
	case next != w.next && next != w.sent:
		return fmt.Errorf("%w: the position of %s is %d, not %d", errFenced, w.place, next, w.next)
	}
	if next != w.next { // the commit whose answer was lost
		w.waits.lookIn(0)
	}
	w.next, d.next = next, next
	return nil
}

// decode makes records for the gate, and moves the position over all that was read.
func (d *decided) decode() {
	for _, r := range d.unit.records {
		d.next, d.readIn = r.Offset+1, r.LeaderEpoch
		if r.Attrs.IsControl() {
			continue
		}
		e, err := record.Decode(r)
		if err == nil && r.Key == nil {
			err = errors.New("key is missing: it names the partition, and without one no order per entity holds")
		}
		g, why := gate.Record{Offset: r.Offset, Broken: gate.ReasonUndecodable}, ""
		if err != nil {
			e, why = nil, clean(err.Error())
		} else {
			g = gateRecord(r, e)
		}
		d.events, d.records, d.decoded, d.errors = append(d.events, r), append(d.records, g), append(d.decoded, e), append(d.errors, why)
	}
}

// gateRecord is what the gate needs to know of an event.
func gateRecord(r *kgo.Record, e *schemas.Event) gate.Record {
	return gate.Record{
		Offset: r.Offset, AppendTime: r.Timestamp, Key: e.Key(), Hash: e.Hash, Entity: e.Entity, Version: e.Version, First: e.First,
		Payload: e.Payload, Size: int64(len(r.Value)), Deleted: e.Deleted, Backfill: e.Backfill,
	}
}

// handle calls the handler for what is to run, in its order.
func (w *worker) handle(ctx context.Context, tx pgx.Tx, d *decided) error {
	for _, o := range d.out {
		if !o.Decision.Runs() {
			continue
		}
		r, e := d.eventOf(o)
		if _, ok := d.givenUp[e.Key()]; ok {
			continue
		}
		d.ran = append(d.ran, e.Key())
		event := Event{Event: e, Decision: o.Decision, Reason: o.Reason, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
		if err := w.call(ctx, tx, event); err != nil {
			return &handlerError{key: e.Key(), err: err, refused: !tx.Conn().IsClosed() && !nobodysFault(err)}
		}
	}
	return nil
}

// call calls the handler. What it panics with is its error, too.
func (w *worker) call(ctx context.Context, tx pgx.Tx, e Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%v", p)
			}
			err = fmt.Errorf("panic: %w\n%s", cause, stackOfPanic(debug.Stack()))
		}
	}()
	err = w.Handler(ctx, tx, e)
	conn := tx.Conn().PgConn()
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w (%w: the transaction has taken longer than Timeout, %s)", err, ctx.Err(), w.Timeout)
	case err != nil:
		return err
	case conn.IsBusy():
		return errors.New("it returned no error, but rows of a query are still open: close them")
	case conn.TxStatus() != 'T':
		return fmt.Errorf("it returned no error, but the transaction is over (status %c): a statement failed, or it committed or rolled back", conn.TxStatus())
	}
	return nil
}

// stackOfPanic leaves out what is above the panic: this package's and the runtime's.
func stackOfPanic(stack []byte) []byte {
	if _, below, ok := bytes.Cut(stack, []byte("\npanic(")); ok {
		lines := bytes.SplitN(below, []byte("\n"), 3) // its arguments, its place, the handler
		return lines[len(lines)-1]
	}
	return stack
}

// commitFailed is the error of a commit. A constraint that is deferred up to it is the handler's statement's, if it was one event's.
func (d *decided) commitFailed(err error) error {
	err = fmt.Errorf("commit: %w", err)
	if _, ok := errors.AsType[*pgconn.PgError](err); ok && len(d.ran) == 1 && !nobodysFault(err) {
		return &handlerError{key: d.ran[0], err: err, refused: true}
	}
	return err
}

// eventOf returns the record and the event that an outcome is about: they are of this unit, or come out of the gap buffer.
func (d *decided) eventOf(o gate.Outcome) (*kgo.Record, *schemas.Event) {
	if o.Record >= 0 {
		return d.events[o.Record], d.decoded[o.Record]
	}
	if r, ok := d.known.waited[o.Released.Key]; ok {
		return r.record, r.event
	}
	for i := range d.records { // it entered the gap buffer and left it in this unit
		if d.records[i].Key == o.Released.Key && d.records[i].Offset == o.Released.Offset {
			return d.events[i], d.decoded[i]
		}
	}
	panic("subscriber: the gate released an event that nobody gave it")
}

// committed takes note of what the transaction did.
func (w *worker) committed(d *decided) {
	w.next = d.next
	if n := len(d.unit.records); n > 0 && !d.unfinished {
		w.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{
			w.topic: {w.partition: {Epoch: d.unit.records[n-1].LeaderEpoch, Offset: w.next}},
		})
	}
	for _, o := range d.out {
		if o.Decision == gate.Buffered {
			w.waits.lookIn(w.Policy.GapWait)
		}
		if o.Decision.Rejects() {
			w.Logger.Warn("record set aside", "group", w.Group, "topic", w.topic, "partition", w.partition, "offset", d.records[o.Record].Offset,
				"decision", o.Decision, "reason", o.Reason)
		}
	}
	if !w.waits.asOf.IsZero() && w.next >= w.waits.end {
		w.waits.lookIn(0)
	}
}

// clean makes a text that a column takes, of 4000 bytes at most: a stack is among them.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), 4000)], "?"), "\x00", "?")
}
