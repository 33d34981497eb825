package ledger

import (
	"context"
	"strings"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// unexported is whether the dead topic lacks a death of an action.
const unexported = `exported < deaths + (status = 'dead_letter')::int`

// unexportedRead finds the keys first, a page of each fence by actions_w*_unexported in its order, then probes for the rest: where there are none, as
// mostly, nothing.
var unexportedRead = `-- unexportedRead
WITH keys AS MATERIALIZED (SELECT k.fence, k.lane_seq FROM unnest($1::int[]) AS u(fence) CROSS JOIN LATERAL (
    SELECT fence, lane_seq FROM {actions} a WHERE fence = u.fence AND ` + unexported + ` ORDER BY fence, lane_seq LIMIT $2) k ORDER BY 1, 2 LIMIT $2)
` + strings.Replace(DeadSelect, "{actions} a JOIN", `keys CROSS JOIN LATERAL (SELECT * FROM {actions} r WHERE r.fence = keys.fence AND r.lane_seq = keys.lane_seq OFFSET 0) a JOIN`, 1) + `) d
ORDER BY fence, lane_seq LIMIT $2`

// Unexported reads actions of claims that have died and whose last death the dead topic may not have, in lane order, at most
// limit. What runs again or was discarded meanwhile is among them.
func (n *Namespace) Unexported(ctx context.Context, claims []*Claim, limit int) ([]DeadLetter, error) {
	var list []DeadLetter
	err := n.inWindows(ctx, func(win *windowSet) error {
		rows, err := n.ledger.quick.Query(ctx, win.own(unexportedRead), idsOf(claims), limit)
		if err == nil {
			list, err = pgx.CollectRows(rows, ScanDeadLetter)
		}
		return err
	})
	if err != nil {
		return nil, pg.Unavailable("read what is to be exported of "+n.spec.Name, err)
	}
	return list, nil
}

// DeadPayload is [Ledger.DeadPayload].
func (n *Namespace) DeadPayload(ctx context.Context, d DeadLetter) (packed []byte, p Pointer, err error) {
	return n.ledger.deadPayload(ctx, n.ledger.quick, d)
}

// exportedWrite is not counted: it is asked of every window for all keys, and each has some of them. A miss does no harm. Where the
// row is gone, its window was dropped, and nothing is left to be exported again. Where the fence is, the next owner exports it once
// more, with the same action id and number of deaths in its headers.
const exportedWrite = `UPDATE actions_w{w} a SET exported = u.deaths, packed = CASE WHEN a.open THEN a.packed END
FROM unnest($1::int[], $2::bigint[], $3::int[]) AS u(fence, lane_seq, deaths) WHERE a.fence = u.fence AND a.lane_seq = u.lane_seq`

// Exported notes that the dead topic has what Unexported gave, for those whose claim still holds its fence: the others are
// exported again by its next owner.
func (n *Namespace) Exported(ctx context.Context, claims []*Claim, list []DeadLetter) error {
	op := "note what was exported of " + n.spec.Name
	held := map[int32]bool{}
	err := n.inWindows(ctx, func(win *windowSet) error {
		return pgx.BeginFunc(ctx, n.ledger.quick, func(tx pgx.Tx) error {
			for _, c := range claimsSorted(claims) {
				ok, err := c.held(ctx, tx)
				if err != nil {
					return err
				}
				held[c.ID] = ok
			}
			var fences, deaths []int32
			var lanes []int64
			for i := range list {
				if d := &list[i]; held[d.Fence] {
					fences, lanes, deaths = append(fences, d.Fence), append(lanes, d.LaneSeq), append(deaths, d.Deaths)
				}
			}
			for _, w := range win.live {
				if _, err := tx.Exec(ctx, OfWindow(w, exportedWrite), fences, lanes, deaths); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return pg.Unavailable(op, err)
}
