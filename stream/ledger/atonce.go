package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// A batch in one round trip. An owner knows its partitions' positions and the version lines that it has cached, and the keys of a batch are nearly
// always new. So the gate decides on that at once, and the first round trip goes out together with the second: it still locks the windows and the
// fences, and asks for what it would read, but as statements that fail where the ledger has anything else than was taken for granted. Nothing is
// written then, and the batch is tried in two round trips.
//
// A claim's batch is taken for known once the one before has committed and nothing of it was seen before: a rewind or a partition that moved here
// takes two.

// notAsKnown is the name of the statements that fail where the ledger differs from what a batch has taken for granted.
const notAsKnown = "what is known of the ledger"

// errNotAsKnown says that nothing was written because the ledger differs from what the batch has taken for granted.
var errNotAsKnown = errors.New("the ledger differs from what the batch has taken for granted")

var (
	// fencesStand is fenceCheck, and fails if one of the claims has lost its fence.
	fencesStand = pg.NewStatement("-- fencesStand\nSELECT 1 / (count(*) = cardinality($1))::int FROM (" + fenceCheck.SQL + ") held").Counting(notAsKnown)

	// asKnown fails if the windows (the last of them is the current one), or the position or revision of a claim, are not those given, or a
	// position is below one that was reached before. It is a statement of its own, behind the locks, so that it sees what those have waited for.
	asKnown = pg.NewStatement(`-- asKnown: one probe of progress_pkey per claim
SELECT 1 / coalesce((SELECT array_agg(id ORDER BY id) FROM windows WHERE subscription = $1 AND state <> 'ahead') = $2::int[]
    AND cardinality($3::int[]) = (SELECT count(*) FROM unnest($3::int[], $4::bigint[], $5::bigint[]) AS c(id, next, revision)
        CROSS JOIN LATERAL (SELECT FROM progress WHERE fence = c.id AND next_offset = c.next AND high_offset <= c.next AND revision = c.revision OFFSET 0) p),
    false)::int`).Counting(notAsKnown)
)

// unseen is a statement that fails if one that looks for keys finds one.
func unseen(name, sql string) pg.Statement {
	return pg.NewStatement("-- " + name + ": one probe of an unique index per key\nSELECT 1 / (count(*) = 0)::int FROM (" + sql + ") s").
		Counting(notAsKnown)
}

// known reports whether the process knows all that the gate needs for the batch, unless somebody else has written meanwhile: then the batch is tried
// in one round trip.
func (t *batchTx) known() bool {
	if t.n.spec.Policy.Also != 0 || t.lookups.recent > 0 {
		return false
	}
	return !slices.ContainsFunc(t.parts, func(w *partitionBatch) bool {
		return !w.Claim.asKnown || w.keepsPosition() || slices.Contains(w.cached, nil)
	})
}

// takeForGranted queues, in the place of the reads, statements that fail if these would have brought anything else than is known.
func (t *batchTx) takeForGranted(ctx context.Context, fences *fenceRows) error {
	var live pg.Int32s
	for _, id := range t.win.live {
		live.Add(id)
	}
	var next, revisions pg.Int64s
	for _, w := range t.parts {
		w.fenced = false
		w.stored = storedProgress{next: w.From, high: w.From, revision: w.Claim.revision.Load()}
		next.Add(w.stored.next)
		revisions.Add(w.stored.revision)
	}
	err := errors.Join(
		t.p.Add(ctx, fencesStand, nil, fences.params()...),
		t.p.Add(ctx, asKnown, nil, pg.Int32Param(t.n.id), live.Param(), fences.id.Param(), next.Param(), revisions.Param()),
	)
	if err == nil && t.allKeys.Len() > 0 && len(t.win.live) > 1 {
		err = t.p.Add(ctx, t.win.q.unseenBefore, nil, t.allKeys.Param())
	}
	if err == nil && t.lookUp.Len() > 0 {
		err = t.p.Add(ctx, t.win.q.unseen, nil, t.lookUp.Param())
	}
	return err
}
