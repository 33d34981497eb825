package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// backfillsReplace ends the open requests of version lines for which a new one is inserted.
var backfillsReplace = pg.NewFresh(`-- backfillsReplace
UPDATE backfills f SET ended_at = now(), failure = 'replaced'
FROM ` + newBackfillRows().line().from(1, "u") + `
WHERE f.fence = u.fence AND f.entity = u.entity AND f.clock = u.clock AND f.ended_at IS NULL`)

// backfillsInsert inserts requests for backfills, each with the source of an event that waits on its version line.
var backfillsInsert = pg.NewCounted(`-- backfillsInsert
INSERT INTO backfills (fence, entity, clock, kind, epoch, from_value, to_value, reason, source)
SELECT u.fence, u.entity, u.clock, u.kind, u.epoch, u.from_value, u.to_value, u.reason, b.source
FROM `+newBackfillRows().zip(1)+`
CROSS JOIN LATERAL (SELECT source FROM buffer WHERE fence = u.fence AND entity = u.entity AND clock = u.clock
    AND decision = 'buffered' LIMIT 1) b`, "$1::int[]").Planned()

// Backfill is an open request for what is missing on a version line.
type Backfill struct {
	ID          int64
	Claim       int32               `db:"fence"` // id of the fence's row
	Source      string              // "/<team>/<source>"
	VersionLine gate.VersionLineKey `db:"-"`
	Kind        schemas.VersionKind
	Epoch       int64 // of the version line; 0: its provider gives none
	From        int64 `db:"from_value"` // the values that are missing, both included, of kind sequence; 0 otherwise
	To          int64 `db:"to_value"`
	Reason      gate.Reason
	// Left is how long the answer is still waited for, by the database's clock.
	Left time.Duration `db:"-"`
}

// BackfillEnd is the outcome of a request.
type BackfillEnd struct {
	Failure  string // closed list of stream/backfill.Reason; empty: none
	Detail   string
	Code     int
	Produced int
}

// backfillRow is a row of the query of Backfills.
type backfillRow struct {
	Backfill
	Entity  schemas.EntityKey
	Clock   string
	AskedIn int64 // when it was asked, in microseconds from now: negative
}

// Backfills reads the open requests of claims with an id above after, oldest first, at most limit.
func (n *Namespace) Backfills(ctx context.Context, claims []*Claim, after int64, limit int) ([]Backfill, error) {
	rows, err := n.ledger.hot.Query(ctx, `-- backfills
SELECT f.id, f.fence, f.source, f.entity, f.clock, f.kind, f.epoch, f.from_value, f.to_value, f.reason,
       (extract(epoch FROM f.asked_at - now()) * 1000000)::bigint AS asked_in
FROM backfills f WHERE f.fence = ANY ($1) AND f.ended_at IS NULL AND f.id > $2 ORDER BY f.id LIMIT $3`, idsOf(claims), after, limit)
	var list []Backfill
	if err == nil {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Backfill, error) {
			r, err := pgx.RowToStructByName[backfillRow](row)
			r.VersionLine = gate.VersionLineKey{Entity: r.Entity, Clock: r.Clock}
			r.Left = n.spec.Policy.BackfillWait + micros(r.AskedIn)
			return r.Backfill, err
		})
	}
	return list, pg.Unavailable("read the backfills of "+n.spec.Name, err)
}

// EndBackfill stores the outcome of a request, under the fence. After a failure, the events that wait for the answer are due at once:
// Policy.Otherwise follows as soon as the partition has been read to its end. Ending a request twice changes nothing. fenced says that
// the claim has lost its fence; then nothing was written.
func (n *Namespace) EndBackfill(ctx context.Context, c *Claim, id int64, end BackfillEnd) (fenced bool, err error) {
	err = n.ledger.transact(ctx, func(tx pgx.Tx) error {
		fenced = false
		var held bool
		err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR KEY SHARE`, c.ID, c.Epoch, c.Token).Scan(&held)
		if err != nil || !held {
			fenced = err == nil
			return err
		}
		var k gate.VersionLineKey
		err = tx.QueryRow(ctx, `UPDATE backfills SET ended_at = now(), failure = $3, detail = nullif($4, ''), code = nullif($5, 0), produced = $6
			WHERE id = $1 AND fence = $2 AND ended_at IS NULL RETURNING entity, clock`,
			id, c.ID, end.Failure, pg.Clean(end.Detail, MaxErrorText), end.Code, end.Produced).Scan(&k.Entity, &k.Clock)
		if err == pgx.ErrNoRows { //nolint:errorlint // Scan's own
			return nil
		}
		if err != nil || end.Failure == "" {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE buffer SET deadline = least(deadline, now())
			WHERE fence = $1 AND entity = $2 AND clock = $3 AND decision = 'buffered' AND stage = 'backfilling'`, c.ID, k.Entity, k.Clock)
		return err
	})
	if err != nil {
		return false, pg.Unavailable("end a backfill of "+n.spec.Name, err)
	}
	return fenced, nil
}
