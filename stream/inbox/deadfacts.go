package inbox

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger"
)

// DeadFacts are what alerts want to know of the dead letters of a subscription, beside how many there are.
type DeadFacts struct {
	Team, Subscription string
	Repeated           int64     // have died ledger.FlaggedDeaths times or more
	Oldest             time.Time // when the first of them died
}

// deadFactsReads is how many dead letters of a subscription are looked at, those of the oldest events of each partition first.
const deadFactsReads = 1000

// deadFacts reads rows through actions_w*_dead, as deadOf does.
const deadFacts = `-- deadFacts
SELECT count(*) FILTER (WHERE b.deaths + (b.status = 'dead_letter')::int >= $3), min(coalesce(b.finished_at, b.first_at, b.created_at))
FROM fences f CROSS JOIN LATERAL (SELECT status, deaths, finished_at, first_at, created_at FROM {actions} r
    WHERE fence = f.id AND status IN ('dead_letter', 'unknown') ORDER BY fence, lane_seq LIMIT $2) b WHERE f.subscription = $1`

// deadFacts looks at the dead letters of a subscription: at a thousand of each partition at most. It is nil where there are none any more.
func (s attended) deadFacts(ctx context.Context, tx pgx.Tx) (*DeadFacts, error) {
	d := &DeadFacts{}
	d.Team, d.Subscription, _ = strings.Cut(s.Name, ".")
	var oldest *time.Time
	err := tx.QueryRow(ctx, ledger.OfWindows(s.Windows, deadFacts), s.ID, deadFactsReads, ledger.FlaggedDeaths).Scan(&d.Repeated, &oldest)
	if err != nil || oldest == nil {
		return nil, err
	}
	d.Oldest = oldest.UTC()
	return d, nil
}
