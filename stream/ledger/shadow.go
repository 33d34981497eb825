package ledger

import (
	"context"
	"fmt"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// A replay of mode shadow runs nothing. A step of it has the gate say what would run again now, as one that runs again does, compares that
// with what the ledger says ran, and writes counts, and the first differences.

// What a shadow finds about an event; empty where it would do what it did: the same actions, or nothing; or it ran, and a newer state has
// overtaken it since.
const (
	ShadowNew   = "new"   // nothing of it ran, and would
	ShadowGone  = "gone"  // it ran, and would not: the subscription does not want it any more
	ShadowOther = "other" // it ran, and would with other actions, destinations or on_dead
)

const (
	MaxDifferences = 100 // that a shadow keeps of a partition
	// MaxShadowTypes is how many event types a shadow counts by name in a partition. The events of the others are counted together, under
	// the empty name.
	MaxShadowTypes = 200
)

// isShadow reports whether a batch is a step of a replay that runs nothing; s is nil for one that is no step of any.
func (s *replayStep) isShadow() bool { return s != nil && s.known != nil }

// would returns what would become of record i. The gate was asked about it as about one that is to run again. What did not run stays as it
// was decided, as a replay that runs again leaves it out, unless it was stale and is asked for.
func (w *partitionBatch) would(i int) gate.Decision {
	d := w.verdicts[i].Decision
	if !w.replay.isShadow() || !d.Runs() && d != gate.Stale {
		return d
	}
	if k := w.replay.known[w.Records[i].Offset]; k.Done && !k.Decision.Runs() && (k.Decision != gate.Stale || !w.replay.stale) {
		return k.Decision
	}
	return d
}

// shadowRows are what a step of a shadow has found: the parameters of shadowWrite.
type shadowRows struct {
	columns
	offset                               pg.Int64s
	key                                  pg.UUIDs
	was, would, kind, entity, source, id pg.Texts
}

func newShadowRows() *shadowRows {
	r := &shadowRows{}
	r.columns = columns{{"log_offset", &r.offset}, {"event_key", &r.key}, {"was", &r.was}, {"would", &r.would}, {"type", &r.kind}, {"entity", &r.entity},
		{"source", &r.source}, {"event_id", &r.id}}
	return r
}

// writeShadow queues what a step of a shadow has found. An event that the step has twice counts once.
func (t *batchTx) writeShadow(ctx context.Context, w *partitionBatch) error {
	rows := newShadowRows()
	for i := range w.verdicts {
		r := &w.Records[i]
		if w.verdicts[i].Decision == gate.Duplicate || w.broken(i) {
			continue
		}
		rows.offset.Add(r.Offset)
		rows.key.Add(keyInLog(r.Key, true, r.Source, r.ID))
		rows.was.Add(string(w.replay.known[r.Offset].Decision))
		rows.would.Add(string(w.would(i)))
		rows.kind.Add(r.Type)
		rows.entity.Add(string(r.Entity))
		rows.source.Add(r.Source)
		rows.id.Add(r.ID)
	}
	if rows.n() == 0 {
		return nil
	}
	params := rows.params(pg.Int64Param(w.replay.id), pg.Int32Param(w.Claim.ID), pg.Int32Param(t.n.plan))
	return t.p.Add(ctx, pg.NewFresh(t.win.own(shadowWrite)), nil, params...)
}

const ran = ` IN ('applied', 'late')`

// shadowWrite says of each event how what would run differs from what ran, counts that, and keeps the first differences of the partition.
// One owner at a time writes of a partition, so that what it reads of the counts is what stands there.
var shadowWrite = `-- shadowWrite: one probe of an unique index per event and window
WITH found AS (
    SELECT u.*, e.plan, CASE WHEN u.was` + ran + ` AND u.would = 'filtered' THEN '` + ShadowGone + `'
                             WHEN u.was` + ran + ` AND u.would` + ran + ` AND e.plan IS DISTINCT FROM $3::int THEN '` + ShadowOther + `'
                             WHEN NOT u.was` + ran + ` AND u.would` + ran + ` THEN '` + ShadowNew + `' ELSE '' END AS differs
    FROM ` + newShadowRows().from(4, "u") + ` LEFT JOIN LATERAL (SELECT plan FROM {events} v WHERE v.event_key = u.event_key LIMIT 1) e ON true
), named AS (
    SELECT DISTINCT type FROM replay_shadows WHERE replay = $1 AND fence = $2 AND type <> ''
), more AS (
    SELECT type FROM named
    UNION ALL (SELECT DISTINCT type FROM found WHERE type NOT IN (SELECT type FROM named) ORDER BY type
        LIMIT greatest(0, ` + fmt.Sprint(MaxShadowTypes) + ` - (SELECT count(*) FROM named)))
), counted AS (
    INSERT INTO replay_shadows AS s (replay, fence, type, was, would, differs, events)
    SELECT $1::bigint, $2::int, coalesce(m.type, ''), was, would, differs, count(*) FROM found LEFT JOIN more m ON m.type = found.type
    GROUP BY 3, was, would, differs ORDER BY 3, was, would, differs
    ON CONFLICT (replay, fence, type, was, would, differs) DO UPDATE SET events = s.events + EXCLUDED.events
)
INSERT INTO replay_differences (replay, fence, log_offset, was, would, differs, was_plan, plan, type, entity, source, event_id)
SELECT $1, $2, log_offset, was, would, differs, plan, $3, type, entity, source, event_id FROM found WHERE differs <> '' ORDER BY log_offset
LIMIT greatest(0, ` + fmt.Sprint(MaxDifferences) + ` - (SELECT count(*) FROM replay_differences WHERE replay = $1 AND fence = $2))`
