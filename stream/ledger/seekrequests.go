package ledger

// Requests of operators to go on at another offset: what a commit by a tool is in an empty group, while the group has members. One is open a
// partition: AskSeeks ends the former and inserts its own, in one transaction, without the fence's lock. The claim that carries it out locks
// the fence and then the row (readSeekRequest), and ends it in the transaction that moves the position (endSeek).

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// SeekRequest is an operator's request to go on at another offset of a partition.
type SeekRequest struct {
	ID     int64
	To     int64
	By     string
	Reason string
}

// readSeekRequest returns what is asked of the partition, under the fence's lock; nil if nothing is. A request whose offset is of the topic
// before it was created again is ended.
func (t *claimTx) readSeekRequest(ctx context.Context) (*SeekRequest, error) {
	var (
		r     SeekRequest
		topic [16]byte
	)
	err := t.tx.QueryRow(ctx, `SELECT id, to_offset, asked_by, reason, topic_id FROM seek_requests WHERE fence = $1 AND ended_at IS NULL FOR UPDATE`, t.c.ID).
		Scan(&r.ID, &r.To, &r.By, &r.Reason, &topic)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case TopicID(topic) != t.c.Partition.TopicID:
		return nil, exactly(t.tx.Exec(ctx, endSeekRequest, r.ID, "refused", nil))
	}
	return &r, nil
}

const endSeekRequest = `-- endSeekRequest
UPDATE seek_requests SET ended_at = now(), outcome = $2, from_offset = $3 WHERE id = $1 AND ended_at IS NULL`

// endSeek ends the request that the claim has carried out, if there was one. stored is the position before.
func (t *claimTx) endSeek(ctx context.Context, r *SeekRequest, stored *Position) error {
	if r == nil {
		return nil
	}
	if stored == nil {
		stored = &t.c.Next
	}
	return exactly(t.tx.Exec(ctx, endSeekRequest, r.ID, "moved", stored.Offset))
}

// SeekAsk asks the owner of a partition to go on at another offset. Where it stands there already, it only takes back what was asked before.
type SeekAsk struct {
	Fence    int32
	TopicID  TopicID
	From, To int64
}

// SeekStatus is what became of a seek request.
type SeekStatus struct {
	ID        int64
	Topic     string
	Partition int32
	To        int64  `db:"to_offset"`
	From      *int64 `db:"from_offset"` // the position that it moved from; nil: it has moved nothing (yet)
	By        string `db:"asked_by"`
	Reason    string
	AskedAt   time.Time
	EndedAt   *time.Time // nil: not yet
	Outcome   string     // moved, refused (the topic was created again) or replaced; empty: not yet
	Owner     string     // who has the partition; empty: nobody
}

// AskSeeks writes seek requests, all or none, and returns their ids in the same order, 0 where there is nothing to move. A request that is
// still open for one of the partitions is replaced. The owners carry them out, each for itself, with their next claims; where nobody has a
// partition, whoever claims it next does. Kinds: Invalid if by or reason is empty, Unavailable.
func (l *Ledger) AskSeeks(ctx context.Context, seeks []SeekAsk, by, reason string) (ids []int64, err error) {
	const op = "ask to move positions"
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return nil, err
	}
	fences := make([]int32, len(seeks))
	for i := range seeks {
		fences[i] = seeks[i].Fence
	}
	err = l.transact(ctx, func(tx pgx.Tx) error {
		if err := NotMoving(ctx, tx, op, AboutFences, fences); err != nil {
			return err
		}
		ids = make([]int64, len(seeks))
		for i, a := range seeks {
			_, err := tx.Exec(ctx, `UPDATE seek_requests SET ended_at = now(), outcome = 'replaced' WHERE fence = $1 AND ended_at IS NULL`, a.Fence)
			if err != nil {
				return err
			}
			if a.From == a.To {
				continue
			}
			err = tx.QueryRow(ctx, `INSERT INTO seek_requests (fence, topic_id, to_offset, asked_by, reason) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
				a.Fence, [16]byte(a.TopicID), a.To, pg.Clean(by, 200), pg.Clean(reason, 1000)).Scan(&ids[i])
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	return ids, nil
}

// SeekRequests returns the last seek requests of a subscription, at most limit, those that are open first, then the newest first.
func (l *Ledger) SeekRequests(ctx context.Context, subscription string, limit int) (list []SeekStatus, err error) {
	rows, err := l.read.Query(ctx, `SELECT r.id, f.topic, f.partition, r.to_offset, r.from_offset, r.asked_by, r.reason, r.asked_at, r.ended_at,
		coalesce(r.outcome, '') AS outcome, CASE WHEN f.released THEN '' ELSE f.owner END AS owner
		FROM subscriptions s JOIN fences f ON f.subscription = s.id JOIN seek_requests r ON r.fence = f.id
		WHERE s.name = $1 AND s.generation = 0 ORDER BY r.ended_at IS NULL DESC, r.id DESC LIMIT $2`, subscription, limit)
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByName[SeekStatus])
	}
	return list, pg.Unavailable("read the seeks of "+subscription, err)
}

// Remembers returns since when dedupe of a subscription remembers what was decided; zero: it has forgotten nothing.
func (l *Ledger) Remembers(ctx context.Context, subscription string) (time.Time, error) {
	since, err := Remembers(ctx, l.read, subscription)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	if err != nil {
		return time.Time{}, pg.Unavailable("read what dedupe of "+subscription+" remembers", err)
	}
	return since, nil
}

// Remembers asks db for [Ledger.Remembers]; an error is as db gives it, [pgx.ErrNoRows] for a subscription that never ran. A former generation of
// the subscription, which a replay with another generation left, does not count.
func Remembers(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, subscription string) (time.Time, error) {
	var since *time.Time
	err := db.QueryRow(ctx, `SELECT `+remembersSince+` FROM subscriptions s WHERE s.name = $1 AND s.generation = 0`, subscription).Scan(&since)
	return pg.TimeOrZero(since), err
}
