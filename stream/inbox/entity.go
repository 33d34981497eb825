package inbox

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// EntityState is where an entity stands in one partition of a subscription.
type EntityState struct {
	Topic     string
	Partition int32
	Lines     []VersionLine
	Waiting   []EntityWait // in the order in which they would run
}

// EntityWait is an event of an entity that waits behind a gap, or is held.
type EntityWait struct {
	Wait
	Source, EventID, Type, Clock string
	Version                      schemas.Version
	Decision                     string // buffered, parked or held
}

// Entity reads where an entity stands in the partitions of a subscription that know it: one, unless several sources call something by the
// same key, or its topic was left for another one. Kind Unavailable.
func (b *Inbox) Entity(ctx context.Context, team, subscription string, entity schemas.EntityKey) ([]EntityState, error) {
	op := "read entity " + ledger.Clean(string(entity), 200)
	rows, err := b.slow.Query(ctx, `SELECT f.id, f.topic, f.partition FROM fences f JOIN subscriptions s ON s.id = f.subscription
		WHERE s.name = $1 AND s.generation = 0 AND (EXISTS (SELECT FROM version_lines l WHERE l.fence = f.id AND l.entity = $2)
		   OR EXISTS (SELECT FROM buffer b WHERE b.fence = f.id AND b.entity = $2)) ORDER BY f.id`, team+"."+subscription, ledger.Clean(string(entity), 4096))
	if err != nil {
		return nil, ledger.Unavailable(op, err)
	}
	type place struct {
		fence int32
		EntityState
	}
	places, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p place, err error) {
		return p, r.Scan(&p.fence, &p.Topic, &p.Partition)
	})
	var out []EntityState
	for _, p := range places {
		if err == nil {
			p.Lines, err = b.lines(ctx, p.fence, entity)
		}
		if err == nil {
			p.Waiting, err = b.waitingOf(ctx, p.fence, entity)
		}
		out = append(out, p.EntityState)
	}
	if err != nil {
		return nil, ledger.Unavailable(op, err)
	}
	return out, nil
}

// waitingOf reads what waits of an entity in a partition.
func (b *Inbox) waitingOf(ctx context.Context, fence int32, entity schemas.EntityKey) ([]EntityWait, error) {
	rows, err := b.slow.Query(ctx, `SELECT source, event_id, type, clock, kind, epoch, value, version_text, sub, decision, stage, buffered_at, deadline FROM buffer
		WHERE fence = $1 AND entity = $2 ORDER BY clock, epoch, value, version_text, sub, log_offset LIMIT 1000`, fence, string(entity))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (w EntityWait, err error) {
		v := &w.Version
		err = r.Scan(&w.Source, &w.EventID, &w.Type, &w.Clock, &v.Kind, &v.Epoch, &v.Value, &v.Text, &v.Sub, &w.Decision, &w.Stage, &w.Since, &w.Until)
		w.Held, v.Clock = w.Decision == "held", w.Clock
		w.Since = w.Since.UTC()
		if w.Until != nil {
			w.Until = new(w.Until.UTC())
		}
		return w, err
	})
}
