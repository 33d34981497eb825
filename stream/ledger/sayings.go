package ledger

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Saying is an event in which a program says something to others, as an action is to answer it. What is said of one entity, for one action,
// is decided by one process after the other: whoever owns its partition.
type Saying struct {
	Source string
	Entity schemas.EntityKey
	Action string
	Event  schemas.EventKey
	At     time.Time     // the intake's clock, so that what was held up, or runs again, counts in its own time
	Per    time.Duration // for how long it counts
}

const (
	saidNote = `-- said: one range of sayings_pkey, of one entity
WITH noted AS (INSERT INTO sayings (subscription, source, entity, action, event_key, said_at, gone_at)
    VALUES ($1, $2, $3, $4, $5, $6, greatest($6, now()) + $7::bigint * interval '1 microsecond') ON CONFLICT DO NOTHING)
SELECT 1 + count(*) FROM sayings WHERE subscription = $1 AND source = $2 AND entity = $3 AND action = $4 AND event_key <> $5
    AND said_at > $6::timestamptz - $7::bigint * interval '1 microsecond' AND said_at <= $6`

	saidCount = `-- saidCount: one range of sayings_pkey, of one entity
SELECT count(*) FROM sayings WHERE subscription = $1 AND source = $2 AND entity = $3 AND action = $4
    AND said_at > $5::timestamptz - $6::bigint * interval '1 microsecond' AND said_at <= $5`

	saidForget = `-- unsay
DELETE FROM sayings WHERE subscription = $1 AND source = $2 AND entity = $3 AND action = $4 AND said_at <= $5`
)

// Said notes a saying, once however often it is told, and returns how many there were within Per up to its own time, itself included. Kind:
// Unavailable.
func (n *Namespace) Said(ctx context.Context, s Saying) (said int, err error) {
	err = n.ledger.quick.QueryRow(ctx, saidNote, n.id, s.Source, string(s.Entity), s.Action, [16]byte(s.Event), s.At, s.Per.Microseconds()).Scan(&said)
	if err != nil {
		return 0, pg.Unavailable("count what programs say about an entity", err)
	}
	return said, nil
}

// CountSaid returns how much was said within Per up to a saying's time, as far as it was noted, and notes nothing. Kind: Unavailable.
func (n *Namespace) CountSaid(ctx context.Context, s Saying) (said int, err error) {
	if err = n.ledger.quick.QueryRow(ctx, saidCount, n.id, s.Source, string(s.Entity), s.Action, s.At, s.Per.Microseconds()).Scan(&said); err != nil {
		return 0, pg.Unavailable("count what programs say about an entity", err)
	}
	return said, nil
}

// Unsay forgets what was said up to a saying, and that one. Kind: Unavailable.
func (n *Namespace) Unsay(ctx context.Context, s Saying) error {
	if _, err := n.ledger.quick.Exec(ctx, saidForget, n.id, s.Source, string(s.Entity), s.Action, s.At); err != nil {
		return pg.Unavailable("forget what programs have said about an entity", err)
	}
	return nil
}
