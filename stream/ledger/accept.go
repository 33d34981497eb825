package ledger

// Accepting stops, in one transaction.
//
//	lock    the stops that the filter selects
//	decide  that there are some, and that a recreated topic is accepted whole
//	write   who accepted them and why; what was accepted before keeps its acceptance
//	read    the stops as they are then

import (
	"context"
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// StopFilter selects stops. Zero fields select all; of Partition, nil does.
type StopFilter struct {
	Subscription string // "<team>.<subscription>"
	Topic        string
	Partition    *int32
	ID           int64
}

// Stops lists the stops that have not ended, sorted by subscription, generation, topic and partition.
func (l *Ledger) Stops(ctx context.Context, f StopFilter) ([]Stop, error) {
	out, err := stops(ctx, l.read, f, "")
	if err != nil {
		return nil, pg.Unavailable("list what is stopped", err)
	}
	return out, nil
}

// stops reads the stops that have not ended; lock ends the query, such as FOR UPDATE.
func stops(ctx context.Context, from querier, f StopFilter, lock string) ([]Stop, error) {
	rows, err := from.Query(ctx, `SELECT `+stopColumns+stopTables+`WHERE k.ended_at IS NULL
		AND ($1 = '' OR s.name = $1) AND ($2 = '' OR k.topic = $2) AND ($3::int IS NULL OR k.partition = $3) AND ($4::bigint = 0 OR k.id = $4)
		ORDER BY s.name, s.generation, k.topic, k.partition, k.id`+lock, f.Subscription, f.Topic, f.Partition, f.ID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanStop)
}

// Accept accepts the stops that the filter selects, exactly as they were reported, and returns them. The partitions go on with
// their owners' next try. A stop that was accepted before keeps its acceptance. A recreated topic is accepted as a whole: its partitions
// belong together. With dryRun nothing is written, and it need not be said who asks and why. Kinds: NotFound if the filter selects none,
// Invalid if subscription, who or why is missing or the filter selects a part of a recreated topic, Unavailable.
func (l *Ledger) Accept(ctx context.Context, f StopFilter, a Acceptance, dryRun bool) ([]Stop, error) {
	const op = "accept what is stopped"
	if f.Subscription == "" {
		return nil, schemas.Errorf(schemas.Invalid, op, "it does not say of which subscription")
	}
	if !dryRun {
		if err := schemas.CheckRequest(op, a.By, a.Reason); err != nil {
			return nil, err
		}
	}
	var out []Stop
	err := l.transact(ctx, func(tx pgx.Tx) (err error) {
		if err := NotMoving(ctx, tx, op, AboutSubscription, f.Subscription); err != nil {
			return err
		}
		if out, err = stops(ctx, tx, f, " FOR UPDATE OF k"); err != nil {
			return err
		}
		if err := acceptable(op, f, out); err != nil || dryRun {
			return err
		}
		ids := make([]int64, len(out))
		for i := range out {
			ids[i] = out[i].ID
		}
		_, err = tx.Exec(ctx, `UPDATE stops SET accepted_at = now(), accepted_by = $2, accepted_reason = $3
			WHERE id = ANY ($1) AND accepted_at IS NULL`, ids, pg.Clean(a.By, 200), pg.Clean(a.Reason, 2000))
		if err == nil {
			out, err = stops(ctx, tx, f, "")
		}
		return err
	})
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	return out, nil
}

// recreated is the kind of stop that concerns a topic as a whole.
const recreated = "topic_recreated"

// acceptable refuses to accept nothing, and a single partition of a topic that was created again.
func acceptable(op string, f StopFilter, found []Stop) error {
	if len(found) == 0 {
		where := f.Subscription
		if f.Topic != "" {
			where += ", topic " + f.Topic
		}
		if f.Partition != nil {
			where += fmt.Sprintf(", partition %d", *f.Partition)
		}
		if f.ID != 0 {
			where += fmt.Sprintf(", stop %d (another one may have replaced it)", f.ID)
		}
		return pg.Refuse(schemas.Errorf(schemas.NotFound, op, "nothing is stopped under %s; `forebay subscriptions get %s` says what is", where, f.Subscription))
	}
	for i := range found {
		if found[i].Kind == recreated && (f.Partition != nil || f.ID != 0) {
			return pg.Refuse(schemas.Errorf(schemas.Invalid, op, "topic %s was created again and is accepted as a whole: leave partition and stop out",
				found[i].Partition.Topic))
		}
	}
	return nil
}
