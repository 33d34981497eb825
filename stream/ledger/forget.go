package ledger

// Version lines that no event has moved for Spec.Forget are deleted in three steps. OldLines reads all version lines of the partition and must
// hold up no batch, so it may run beside them. The other two run on the goroutine that applies batches.
//
//	Tidy         writes dirty version lines, under the shared fence: version_lines, progress
//	OldLines     finds old ones, page by page, without a lock
//	ForgetLines  locks the claim's fence, shared; asks of each line again whether it may go, and deletes it: version_lines

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// forgetLines is how many version lines are deleted at once.
const forgetLines = 1000

// forgettable is true for a version line l that last moved in a window which was closed longer ago than $3, and on which nothing waits.
const forgettable = `l.seen_in > 0 AND l.parked IS NULL
  AND l.seen_in < (SELECT min(id) FROM windows WHERE subscription = $2 AND state <> 'ahead'
                      AND (closed_at IS NULL OR closed_at > now() - $3::interval))
  AND NOT EXISTS (SELECT FROM buffer b WHERE b.fence = l.fence AND b.entity = l.entity AND b.clock = l.clock AND b.decision <> 'held')`

// forgetPage is how many version lines one statement looks at: it must not take longer than operators' questions may.
const forgetPage = 100_000

// forgetPageEnd finds the last version line of the page that begins behind ($2, $3).
const forgetPageEnd = `-- forgetPageEnd: version_lines_pkey alone
SELECT entity, clock FROM version_lines WHERE fence = $1 AND (entity, clock) > ($2, $3) ORDER BY entity, clock OFFSET $4 LIMIT 1`

const linesForgettable = `-- linesForgettable: a range of version_lines_pkey
SELECT l.entity, l.clock FROM version_lines l WHERE l.fence = $1 AND (l.entity, l.clock) > ($5, $6) AND ($7::text IS NULL OR (l.entity, l.clock) <= ($7, $8))
  AND ` + forgettable + ` ORDER BY l.entity, l.clock LIMIT $4`

const linesForget = `-- linesForget: one probe of version_lines_pkey per line
DELETE FROM version_lines l USING unnest($4::text[], $5::text[]) AS k(entity, clock)
WHERE l.fence = $1 AND l.entity = k.entity AND l.clock = k.clock AND ` + forgettable

// OldLines are version lines of a claim that no event has moved for long, as Namespace.OldLines found them.
type OldLines struct {
	Keys   []gate.VersionLineKey
	More   bool  // there may be more
	window int32 // the current one when the search began
}

// Tidy writes a claim's dirty version lines whose events are in closed windows, or all dirty ones before OldLines is called. old reports
// whether there may be version lines to delete, for OldLines. It costs nothing until the windows rotate, except one probe if something of
// a former topic is left. The caller is the goroutine that applies.
func (n *Namespace) Tidy(ctx context.Context, c *Claim) (old bool, err error) {
	if err := n.inWindows(ctx, func(win *windowSet) error { return lowerPlaces(ctx, n.ledger.hot, win, c) }); err != nil {
		return false, &schemas.Error{Kind: schemas.Unavailable, Op: "forget version lines of " + n.spec.Name, Err: pg.Redact(err)}
	}
	old = n.spec.Forget > 0 && c.forgotIn != n.windows.Load().current
	// Before the search all dirty lines are written: one that has just moved must not be deleted because its row is old.
	return old, foldOld(ctx, n, c, old)
}

// OldLines finds up to forgetLines version lines that may be deleted. It may be called while the claim's owner applies.
func (n *Namespace) OldLines(ctx context.Context, c *Claim) (old OldLines, err error) {
	old.window = n.windows.Load().current
	r := oldLinesRead{db: n.ledger.read, fence: c.ID, subscription: n.id, kept: n.spec.Forget, page: n.forgetPage}
	for more := true; more && err == nil && len(old.Keys) < forgetLines; {
		var found []gate.VersionLineKey
		found, more, err = r.next(ctx, forgetLines-len(old.Keys))
		old.Keys = append(old.Keys, found...)
	}
	if err != nil {
		return OldLines{}, &schemas.Error{Kind: schemas.Unavailable, Op: "find version lines to forget of " + n.spec.Name, Err: pg.Redact(err)}
	}
	old.More = len(old.Keys) == forgetLines
	return old, nil
}

// oldLinesRead searches a partition's version lines, page by page.
type oldLinesRead struct {
	db                  *Pool
	fence, subscription int32
	kept                time.Duration
	page                int                 // how many version lines one is
	after               gate.VersionLineKey // where the last page ended
}

// next reads the next page, of r.page version lines, and returns those that may be deleted; of more than limit only the first, for which
// the caller stops searching. more says that another page may follow.
func (r *oldLinesRead) next(ctx context.Context, limit int) (keys []gate.VersionLineKey, more bool, err error) {
	entity, clock := string(r.after.Entity), r.after.Clock
	var lastEntity, lastClock *string // null: the last page
	err = r.db.QueryRow(ctx, forgetPageEnd, r.fence, entity, clock, r.page-1).Scan(&lastEntity, &lastClock)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, false, err
	}
	rows, err := r.db.Query(ctx, linesForgettable, r.fence, r.subscription, r.kept, limit, entity, clock, lastEntity, lastClock)
	if err != nil {
		return nil, false, err
	}
	keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k gate.VersionLineKey, err error) {
		return k, row.Scan(&k.Entity, &k.Clock)
	})
	if lastEntity != nil {
		r.after, more = gate.VersionLineKey{Entity: schemas.EntityKey(*lastEntity), Clock: *lastClock}, true
	}
	return keys, more, err
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
		return &schemas.Error{Kind: schemas.Unavailable, Op: "forget version lines of " + n.spec.Name, Err: pg.Redact(err)}
	}
	if !old.More {
		c.forgotIn = old.window
	}
	return nil
}
