package ledger

import (
	"context"
	"errors"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// newestOfLine reads the newest version of a version line: its row, and the newest event that the row lacks.
const newestOfLine = `-- newestOfLine: a probe by key, and of a line that has not moved lately a walk over all that rows lack, MaxLag events at most
SELECT kind, epoch, value, version_text, sub FROM version_lines WHERE fence = $1 AND entity = $2 AND clock = $3
UNION ALL SELECT e.kind, e.epoch, e.value, e.version_text, e.sub FROM progress p CROSS JOIN LATERAL (
    SELECT kind, epoch, value, version_text, sub FROM {events} v
     WHERE fence = $1 AND lane_seq >= p.dirty_lines_from AND lane_seq IS NOT NULL AND lane_window IS NULL
       AND entity = $2 AND clock = $3 AND decision = 'applied' AND reason = 'next' ORDER BY lane_seq DESC LIMIT 1) e
 WHERE p.fence = $1`

// newerThere lists the versions of events of a version line that came after lane_seq $4 and are still there: those that never waited for a gap
// through the index on (fence, lane_seq), the others through their actions' rows.
const newerThere = `-- newerThere: a walk over the lane_seqs behind an action
SELECT e.kind, e.epoch, e.value, e.version_text, e.sub FROM {events} e
 WHERE e.fence = $1 AND e.lane_seq > $4 AND e.lane_seq IS NOT NULL AND e.lane_window IS NULL AND e.entity = $2 AND e.clock = $3
UNION ALL SELECT e.kind, e.epoch, e.value, e.version_text, e.sub FROM {actions} a JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
 WHERE a.fence = $1 AND a.lane_seq > $4 AND e.lane_window IS NOT NULL AND e.entity = $2 AND e.clock = $3`

// ErrTooFar says that Overtaken cannot tell, however often it is asked.
var ErrTooFar = errors.New("its version line is gone, and too many actions came since to look among them for a newer one of its entity; `dlq replay --force` runs it without that check")

// Overtaken reports whether a's version line has a newer version (P4). It is asked of an action that is to run again and did not park its
// lane. The newer event may have run already, or stand behind a in its lane, or have been filtered: a is not the newest state any more. With
// kind none or order: arrival nothing is newer.
//
// Where the line has expired, or went with a former topic, what is still there of later events answers by a walk. It asks on the connections
// of operators' lists: replays of a hundred thousand dead letters, each of which may read MaxLag events, take none of the batches'. The error wraps [ErrTooFar] if it took longer than those may; any other, of kind Unavailable, means that another call
// may find out.
func (n *Namespace) Overtaken(ctx context.Context, c *Claim, a Action) (bool, error) {
	if n.spec.InArrivalOrder(a) {
		return false, nil
	}
	line := []any{c.ID, string(a.Entity), a.Version.Clock}
	versions, err := n.versions(ctx, newestOfLine, line...)
	known := len(versions) > 0 && a.LaneSeq >= c.lanesFrom
	if err == nil && !known && !newerThan(a.Version, versions) {
		versions, err = n.versions(ctx, newerThere, append(line, a.LaneSeq)...)
		if pg.StatementTimeout(err) {
			err = ErrTooFar
		}
	}
	if err != nil {
		return false, pg.Unavailable("look for newer versions of "+n.spec.Name, err)
	}
	return newerThan(a.Version, versions), nil
}

// InArrivalOrder reports whether nothing is newer than an action: its version orders nothing, or the subscription does not order by it, or did not when it
// was decided.
func (s *Spec) InArrivalOrder(a Action) bool {
	return a.Version.Kind == schemas.None || a.Reason == gate.ReasonArrival || s.Policy.Order == gate.OrderArrival
}

// newerThan reports whether one of versions, of the same line as v, is newer.
func newerThan(v schemas.Version, versions []schemas.Version) bool {
	for _, o := range versions {
		if o.Clock = v.Clock; o.Comparable(v) && o.Compare(v) > 0 {
			return true
		}
	}
	return false
}

// versions runs a query for versions of a line, which it returns without their clock.
func (n *Namespace) versions(ctx context.Context, sql string, args ...any) (versions []schemas.Version, err error) {
	err = n.inWindows(ctx, func(win *windowSet) error {
		rows, err := n.ledger.read.Query(ctx, win.own(sql), args...)
		if err != nil {
			return err
		}
		versions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v schemas.Version, err error) {
			return v, row.Scan(&v.Kind, &v.Epoch, &v.Value, &v.Text, &v.Sub)
		})
		return err
	})
	return versions, err
}
