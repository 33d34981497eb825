package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Begin stores where a subscription begins in those topics for which nothing is stored yet, and returns all that is stored: of each topic,
// the offsets of the first call that gave any. A partition that is not in the result begins at 0.
func (n *Namespace) Begin(ctx context.Context, offsets map[Partition]int64) (map[Partition]int64, error) {
	var stored map[Partition]int64
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		err := exactly(tx.Exec(ctx, `UPDATE subscriptions SET began_at = coalesce(began_at, now()) WHERE id = $1`, n.id))
		if err != nil {
			return err
		}
		if stored, err = loadBegin(ctx, tx, n.id); err != nil {
			return err
		}
		if err := storeBegin(ctx, tx, n.id, offsets, stored); err != nil {
			return err
		}
		stored, err = loadBegin(ctx, tx, n.id)
		return err
	})
	if err != nil {
		return nil, pg.Unavailable("store the beginning of "+n.spec.Name, err)
	}
	return stored, nil
}

// storeBegin stores the offsets of topics that have none stored.
func storeBegin(ctx context.Context, tx pgx.Tx, subscription int32, offsets, stored map[Partition]int64) error {
	known := map[TopicID]bool{}
	for p := range stored {
		known[p.TopicID] = true
	}
	for p, offset := range offsets {
		if known[p.TopicID] {
			continue
		}
		_, err := tx.Exec(ctx, `INSERT INTO begins (subscription, topic, topic_id, partition, log_offset)
			VALUES ($1, $2, $3, $4, $5)`, subscription, p.Topic, [16]byte(p.TopicID), p.Number, offset)
		if err != nil {
			return err
		}
	}
	return nil
}

// loadBegin reads the offsets at which a subscription began.
func loadBegin(ctx context.Context, tx pgx.Tx, subscription int32) (map[Partition]int64, error) {
	rows, err := tx.Query(ctx, `SELECT topic, topic_id, partition, log_offset FROM begins WHERE subscription = $1`, subscription)
	if err != nil {
		return nil, err
	}
	stored := map[Partition]int64{}
	var (
		p      Partition
		offset int64
	)
	_, err = pgx.ForEachRow(rows, []any{&p.Topic, (*[16]byte)(&p.TopicID), &p.Number, &offset}, func() error {
		stored[p] = offset
		return nil
	})
	return stored, err
}

// Began returns when Begin was first called for this subscription, by the database's clock; zero before.
func (n *Namespace) Began(ctx context.Context) (time.Time, error) {
	var began *time.Time
	err := n.ledger.quick.QueryRow(ctx, `SELECT began_at FROM subscriptions WHERE id = $1`, n.id).Scan(&began)
	if err != nil {
		return time.Time{}, pg.Unavailable("read the beginning of "+n.spec.Name, err)
	}
	if began == nil {
		return time.Time{}, nil
	}
	return *began, nil
}
