package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Standing is what the decision where a claim starts needs of the ledger besides the stored position.
type Standing struct {
	Epoch int64 // of the fence, before this claim
	// Stop is the partition's stop that has not ended; nil: none.
	Stop *Stop
	// High is the highest next offset that the ledger ever had; 0 before the first claim.
	High int64
	// ProcessedAt is the broker's append time up to which the partition has been processed; zero: never.
	ProcessedAt time.Time
	// Remembers is since when dedupe remembers what was decided; zero: it has forgotten nothing.
	Remembers time.Time
	// CopyOf is the topic that the partition's topic was copied from; nil if it is no copy, or the partition was claimed before.
	CopyOf *Copied
	// SeekRequest is where an operator has asked the partition to go on; nil: nobody has. A claim that succeeds has carried it out.
	SeekRequest *SeekRequest
	// TopicAdopted says that the topic was created again and accepted, or that the subscription was handed over to it.
	TopicAdopted bool
}

// Copied is a topic as it was when it was copied.
type Copied struct {
	Topic string
	ID    TopicID
	Ends  []int64 // by partition
	Read  bool    // another partition of the copy was claimed: there is no way back to the topic
}

// readStanding reads the Standing of the partition, under the fence's lock.
func (t *claimTx) readStanding(ctx context.Context) (Standing, error) {
	tx, c := t.tx, t.c
	st := Standing{Epoch: c.Epoch - 1}
	var err error
	if st.Stop, err = openStop(ctx, tx, t.n.id, c.Partition, ""); err != nil {
		return st, err
	}
	if st.SeekRequest, err = t.readSeekRequest(ctx); err != nil {
		return st, err
	}
	if st.Epoch == 0 && c.copyEnds != nil {
		st.CopyOf = &Copied{ID: *c.copyOf, Ends: c.copyEnds}
		if st.CopyOf.Topic, err = t.nameOf(ctx, *c.copyOf); err != nil {
			return st, err
		}
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM fences WHERE subscription = $1 AND topic_id = $2 AND epoch > 0)`, t.n.id, [16]byte(c.Partition.TopicID)).Scan(&st.CopyOf.Read)
		if err != nil {
			return st, err
		}
	}
	if st.High, st.ProcessedAt, err = processed(ctx, tx, c.ID); err != nil {
		return st, err
	}
	var since *time.Time
	err = tx.QueryRow(ctx, `SELECT `+remembersSince+`,
		EXISTS (SELECT FROM stops WHERE subscription = $1 AND topic_id = $2 AND kind = $3 AND accepted_at IS NOT NULL) FROM subscriptions s WHERE s.id = $1`,
		t.n.id, [16]byte(c.Partition.TopicID), recreated).Scan(&since, &st.TopicAdopted)
	st.Remembers, st.TopicAdopted = pg.TimeOrZero(since), st.TopicAdopted || c.copyOf != nil
	return st, err
}

// remembersSince is since when dedupe of subscription s remembers all that was decided; null: it has forgotten nothing. The first window opens with
// the subscription, and the next one as one is closed. Windows are not dropped in their order, since a dead letter keeps an old one: what counts is
// the youngest window whose predecessor is gone.
const remembersSince = `(SELECT max(opened_at) FROM windows w WHERE w.subscription = s.id AND w.opened_at > s.created_at
		AND NOT EXISTS (SELECT FROM windows p WHERE p.subscription = s.id AND p.id < w.id AND p.closed_at >= w.opened_at))`

// processed returns up to which offset and append time a partition was ever processed; zero if it never was.
func processed(ctx context.Context, tx pgx.Tx, fence int32) (high int64, until time.Time, err error) {
	var at *time.Time
	err = tx.QueryRow(ctx, `SELECT high_offset, CASE WHEN isfinite(processed_at) THEN processed_at END FROM progress WHERE fence = $1`,
		fence).Scan(&high, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, time.Time{}, nil
	}
	return high, pg.TimeOrZero(at), err
}

// endStop ends the partition's stop s, if there is one: the claim goes on. accepted is the id of the stop whose acceptance the claim uses, or
// 0: then the position was moved away from the stop.
func (t *claimTx) endStop(ctx context.Context, s *Stop, accepted int64) error {
	c := t.c
	if s == nil {
		return nil
	}
	if cutKinds[s.Kind] && s.Partition == c.Partition {
		if err := t.tx.Unbounded(ctx); err != nil { // half a million events may wait
			return err
		}
		if err := moveOutOfLog(ctx, t.tx, c, s.From); err != nil {
			return err
		}
	}
	_, err := t.tx.Exec(ctx, `UPDATE stops SET ended_at = now(), ended_epoch = $4, outcome = CASE WHEN id = $5 THEN 'accepted' ELSE 'moved' END
		WHERE subscription = $1 AND topic = $2 AND partition = $3 AND ended_at IS NULL`,
		t.n.id, c.Partition.Topic, c.Partition.Number, c.Epoch, accepted)
	return err
}
