package inbox

import (
	"context"
	"slices"
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

// DeadFacts looks at the dead letters of those subscriptions that have some by counts: at a thousand of each partition at most.
func (b *Inbox) DeadFacts(ctx context.Context, counts []AttentionCount) (out []DeadFacts, err error) {
	if !slices.ContainsFunc(counts, func(c AttentionCount) bool { return c.Kind == AttentionDead }) {
		return nil, nil
	}
	err = attendance{b.slow}.each(ctx, "look at dead letters", func(tx pgx.Tx, s attended) error {
		d := DeadFacts{}
		d.Team, d.Subscription, _ = strings.Cut(s.Name, ".")
		if !slices.ContainsFunc(counts, func(c AttentionCount) bool {
			return c.Kind == AttentionDead && c.Team == d.Team && c.Subscription == d.Subscription
		}) {
			return nil
		}
		var oldest *time.Time
		if err := tx.QueryRow(ctx, ledger.OfWindows(s.Windows, deadFacts), s.ID, deadFactsReads, ledger.FlaggedDeaths).Scan(&d.Repeated, &oldest); err != nil {
			return err
		}
		if oldest != nil { // else the last of them was replayed meanwhile
			d.Oldest = oldest.UTC()
			out = append(out, d)
		}
		return nil
	})
	return out, err
}
