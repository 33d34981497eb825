package subscriber

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/gate"
)

// waits is when a partition's events have waited long enough. A wait that is overdue by the database's clock ends once the partition is
// read to an end that was asked for after that:
//
//	waiting ──deadline──▶ overdue ──end of the log, asked after that──▶ read to it ──▶ ended
//
// So a predecessor that came into the log in time is decided before the wait ends, however long this program was away.
type waits struct {
	due  time.Time // when to look next, by our clock; zero: nothing waits
	asOf time.Time // when something was found overdue, by the database's clock; zero: nothing was
	end  int64     // of the log, asked after asOf
}

// never is longer than any wait.
const never = 24 * time.Hour

// left is how long it is to the next look; 0: now.
func (w *waits) left() time.Duration {
	if w.due.IsZero() {
		return never
	}
	return max(0, time.Until(w.due))
}

// lookIn has waits looked at after d at the latest.
func (w *waits) lookIn(d time.Duration) {
	if at := time.Now().Add(d); w.due.IsZero() || at.Before(w.due) {
		w.due = at
	}
}

// sweep ends the waits that may end, and finds out when to look next. An error of Postgres or Kafka is tried again; the error that it
// returns ends the session.
func (w *worker) sweep() error {
	w.waits.due = time.Time{}
	ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
	defer cancel()
	if w.waits.asOf.IsZero() {
		if err := w.findOverdue(ctx); err != nil {
			if hopeless(err) {
				return withAdvice(err)
			}
			w.Logger.Warn("waits not looked at; trying again", "topic", w.topic, "partition", w.partition, "error", err)
			w.waits.asOf = time.Time{}
			w.waits.lookIn(time.Second)
			return nil
		}
	}
	if w.waits.asOf.IsZero() {
		return nil
	}
	if w.next < w.waits.end {
		w.waits.lookIn(time.Second) // or as soon as a batch has come so far, see transact
		return nil
	}
	asOf := w.waits.asOf
	lines, err := w.overdueLines(ctx, asOf)
	if err == nil && len(lines) > 0 {
		if err := w.untilDone(unit{ended: lines, asOf: asOf}); err != nil || w.quits() {
			return err
		}
	}
	if err != nil {
		w.Logger.Warn("waits not ended; trying again", "topic", w.topic, "partition", w.partition, "error", err)
		w.waits.lookIn(time.Second)
		return nil
	}
	w.waits.asOf = time.Time{}
	w.waits.lookIn(0) // what waits behind the next gap
	return nil
}

// findOverdue looks whether the deadline of an event in the gap buffer has passed. If so, it notes the end of the log: the event that is
// missing may be in it, so the log is read up to there first. Otherwise it looks again when the next deadline passes.
func (w *worker) findOverdue(ctx context.Context) error {
	var now time.Time
	var first *time.Time
	err := w.Pool.QueryRow(ctx, `SELECT clock_timestamp(), min(deadline) FROM forebay_events
		WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND record IS NOT NULL`, w.Group, w.topic, w.partition).Scan(&now, &first)
	switch {
	case err != nil:
		return fmt.Errorf("read deadlines: %w", err)
	case first == nil:
		return nil
	case first.After(now):
		w.waits.lookIn(first.Sub(now))
		return nil
	}
	w.waits.asOf = now
	w.waits.end, err = offsetOf(ctx, w.adm.ListEndOffsets, w.place) // not before a transaction that is open: what is missing may be behind it
	return err
}

// overdueLines are the version lines on which a wait was overdue at asOf.
func (w *worker) overdueLines(ctx context.Context, asOf time.Time) ([]gate.VersionLineKey, error) {
	rows, err := w.Pool.Query(ctx, `SELECT DISTINCT entity, clock FROM forebay_events
		WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND record IS NOT NULL AND deadline <= $4 ORDER BY entity, clock LIMIT $5`,
		w.Group, w.topic, w.partition, asOf, w.Batch)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (k gate.VersionLineKey, err error) { return k, r.Scan(&k.Entity, &k.Clock) })
}
