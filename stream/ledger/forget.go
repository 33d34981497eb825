package ledger

// Version lines that no event has moved for Spec.Forget are deleted in three steps. OldLines looks through some with each call, and must
// hold up no batch, so it may run beside them. The other two run on the goroutine that applies batches.
//
//	Tidy         writes dirty version lines, under the shared fence: version_lines, progress
//	OldLines     finds old ones, page by page, without a lock
//	ForgetLines  locks the claim's fence, shared; asks of each line again whether it may go, and deletes it: version_lines

import (
	"context"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// forgetLines is how many version lines are deleted at once, and at most a page more.
const forgetLines = 1000

// forgetSearch is for how long a search goes on that finds less than that: the next one goes on where it ended.
const forgetSearch = 2 * time.Second

// forgettable is true for a version line l that last moved in a window which was closed longer ago than $3, and on which nothing waits.
const forgettable = `l.seen_in > 0 AND l.parked IS NULL
  AND l.seen_in < (SELECT min(id) FROM windows WHERE subscription = $2 AND state <> 'ahead'
                      AND (closed_at IS NULL OR closed_at > now() - $3::interval))
  AND NOT EXISTS (SELECT FROM buffer b WHERE b.fence = l.fence AND b.entity = l.entity AND b.clock = l.clock AND b.decision <> 'held')`

// forgetPage is how many version lines one statement looks at: it must not take longer than a sweep's statements may.
const forgetPage = 1000

const linesForgettable = `-- linesForgettable: a page of version_lines_pkey; what may be deleted of it, and where it ends
WITH page AS MATERIALIZED (SELECT fence, entity, clock, seen_in, parked FROM version_lines
    WHERE fence = $1 AND (entity, clock) > ($4, $5) ORDER BY entity, clock LIMIT $6)
SELECT l.entity, l.clock, true AS old FROM page l WHERE ` + forgettable + `
UNION ALL (SELECT entity, clock, false FROM page ORDER BY entity DESC, clock DESC LIMIT 1)`

const linesForget = `-- linesForget: one probe of version_lines_pkey per line
DELETE FROM version_lines l USING unnest($4::text[], $5::text[]) AS k(entity, clock)
WHERE l.fence = $1 AND l.entity = k.entity AND l.clock = k.clock AND ` + forgettable

// OldLines are version lines of a claim that no event has moved for long, as Namespace.OldLines found them.
type OldLines struct {
	Keys   []gate.VersionLineKey
	More   bool                // the search has not come to the partition's end
	upto   gate.VersionLineKey // the last version line that was looked at
	window int32               // the current one when the search began at the partition's start
}

// Tidy writes a claim's dirty version lines whose events are in closed windows, or all dirty ones before OldLines is called. old reports
// whether there may be version lines to delete, for OldLines. It costs nothing until the windows rotate, except one probe if something of
// a former topic is left. The caller is the goroutine that applies.
func (n *Namespace) Tidy(ctx context.Context, c *Claim) (old bool, err error) {
	if err := n.inWindows(ctx, func(win *windowSet) error { return lowerPlaces(ctx, n.ledger.hot, win, c) }); err != nil {
		return false, pg.Unavailable("forget version lines of "+n.spec.Name, err)
	}
	old = n.spec.Forget > 0 && (c.sought.More || c.sought.window != n.windows.Load().current)
	// Before the search all dirty lines are written: one that has just moved must not be deleted because its row is old.
	return old, foldOld(ctx, n, c, old)
}

// OldLines finds some of the version lines that may be deleted, behind those that the last search came to whose lines ForgetLines was given.
// It may be called while the claim's owner applies, but not beside ForgetLines.
func (n *Namespace) OldLines(ctx context.Context, c *Claim) (old OldLines, err error) {
	old = OldLines{More: true, window: n.windows.Load().current}
	if c.sought.More {
		old = c.sought
	}
	for began := time.Now(); old.More && err == nil && len(old.Keys) < forgetLines && time.Since(began) < forgetSearch; {
		err = n.oldLinesPage(ctx, c, &old)
	}
	if err != nil {
		return OldLines{}, pg.Unavailable("find version lines to forget of "+n.spec.Name, err)
	}
	return old, nil
}

// oldLinesPage looks at the page of version lines behind old.upto.
func (n *Namespace) oldLinesPage(ctx context.Context, c *Claim, old *OldLines) error {
	rows, err := n.ledger.sweep.Query(ctx, linesForgettable, c.ID, n.id, n.spec.Forget, string(old.upto.Entity), old.upto.Clock, n.forgetPage)
	if err != nil {
		return err
	}
	var k gate.VersionLineKey
	var isOld bool
	old.More = false
	_, err = pgx.ForEachRow(rows, []any{&k.Entity, &k.Clock, &isOld}, func() error {
		if isOld {
			old.Keys = append(old.Keys, k)
		} else {
			old.upto, old.More = k, true // there may be another page
		}
		return nil
	})
	return err
}

// ForgetLines deletes version lines that OldLines has found, except those that have advanced since then: in the cache, which the rows may
// be behind, or in their rows. If the claim has lost its fence it deletes nothing, and returns no error. The caller is the goroutine that
// calls Apply.
func (n *Namespace) ForgetLines(ctx context.Context, c *Claim, old OldLines) error {
	keys := slices.DeleteFunc(slices.Clone(old.Keys), func(k gate.VersionLineKey) bool {
		l := c.cache.lines[k]
		return l != nil && l.dirtySince != 0 // it has moved: its row is behind
	})
	slices.SortFunc(keys, compareKeys)
	var entities, clocks []string
	for _, k := range keys {
		c.cache.drop(k) // before the rows: whether or not they are deleted, the lines are read again
		entities, clocks = append(entities, string(k.Entity)), append(clocks, k.Clock)
	}
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		held, err := c.held(ctx, tx)
		if err != nil || !held || len(keys) == 0 {
			return err
		}
		_, err = tx.Exec(ctx, linesForget, c.ID, n.id, n.spec.Forget, entities, clocks)
		return err
	})
	if err != nil {
		return pg.Unavailable("forget version lines of "+n.spec.Name, err)
	}
	c.sought = old
	c.sought.Keys = nil
	return nil
}
