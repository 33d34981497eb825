package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Shadow is what a replay of mode shadow has found: all counts, and the first differences of each partition.
type Shadow struct {
	Counts      []ShadowCount
	Differences []Difference
}

// ShadowCount counts events of a type that were decided so, would be decided so now, and differ so; see [ledger.ShadowNew] and its neighbours.
// Its JSON is what operators read.
type ShadowCount struct {
	Type    string `json:"type"` // empty: of types beyond the first [ledger.MaxShadowTypes] of a partition
	Was     string `json:"was"`  // [ledger.Undecided] if the subscription never decided it
	Would   string `json:"would"`
	Differs string `json:"differs"`
	Events  int64  `json:"events"`
}

// Difference is an event of which something else would run now than did. Ran and Runs are its actions then and now, "name to destination".
type Difference struct {
	Source, EventID, Type, Entity string
	Was, Would, Differs           string
	Ran, Runs                     string
}

// most of a shadow that is shown; there are as many differences as partitions times [ledger.MaxDifferences].
const (
	mostShadowCounts = 500
	mostDifferences  = 1000
)

// Shadow reads what a replay of mode shadow has found so far. Kind Unavailable.
func (b *Inbox) Shadow(ctx context.Context, id int64) (s Shadow, err error) {
	rows, err := b.slow.Query(ctx, `SELECT type, was, would, differs, sum(events)::bigint FROM replay_shadows WHERE replay = $1
		GROUP BY type, was, would, differs ORDER BY sum(events) DESC, type, was, would, differs LIMIT $2`, id, mostShadowCounts)
	if err == nil {
		s.Counts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ShadowCount])
	}
	if err == nil {
		rows, err = b.slow.Query(ctx, `SELECT d.source, d.event_id, d.type, d.entity, d.was, d.would, d.differs, `+actionsOfPlan("d.was_plan")+`,
			CASE WHEN d.differs = '`+ledger.ShadowGone+`' THEN '' ELSE `+actionsOfPlan("d.plan")+` END
			FROM replay_differences d JOIN fences f ON f.id = d.fence WHERE d.replay = $1 ORDER BY f.topic, f.partition, d.log_offset LIMIT $2`, id, mostDifferences)
	}
	if err == nil {
		s.Differences, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Difference])
	}
	return s, ledger.Unavailable(fmt.Sprintf("read what replay %d has found", id), err)
}

// actionsOfPlan is the SQL text of a plan's actions.
func actionsOfPlan(plan string) string {
	return `coalesce((SELECT string_agg(x.name || ' to ' || x.destination || CASE x.on_dead WHEN 'continue' THEN ' (on_dead: continue)' ELSE '' END, ', ' ORDER BY n.place)
		FROM plans p CROSS JOIN LATERAL unnest(p.effects) WITH ORDINALITY AS n(effect, place) JOIN effects x ON x.id = n.effect WHERE p.id = ` + plan + `), '')`
}
