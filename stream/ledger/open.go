package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// maxCopies bounds the payload copies that one read brings, in bytes; the first comes whatever it weighs.
const maxCopies = 8 << 20

// Open reads open actions of a claim with lane_seq > after, ascending, at most limit, and whether more follow.
// Dead actions that park their lane are included, so that the lane knows it stands still. Payload copies come with them
// up to 8 MiB; see Action.HasCopy.
func (n *Namespace) Open(ctx context.Context, c *Claim, after int64, limit int) (actions []Action, more bool, err error) {
	op := "read the open actions of " + n.spec.Name
	if limit < 1 {
		return nil, false, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	err = n.inWindows(ctx, func(win *windowSet) (err error) {
		actions, more, err = n.open(ctx, win, c, after, limit)
		return err
	})
	if err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return actions, more, nil
}

// open reads what has a row and what has none, and merges them. The plain ones are listed first: one that gets its row
// in between is then found in both, and never in neither.
func (n *Namespace) open(ctx context.Context, win *windowSet, c *Claim, after int64, limit int) ([]Action, bool, error) {
	plain := c.plain(after, limit+1)
	withRow, err := n.openRows(ctx, win, c, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	if len(withRow) > limit { // what lies beyond is not asked for
		last := withRow[limit].LaneSeq
		plain = plain.upto(last)
	}
	known := make(map[int64]bool, len(withRow))
	for i := range withRow {
		known[withRow[i].LaneSeq] = true
	}
	all := withRow
	for window, seqs := range plain {
		some, err := n.openPlain(ctx, win, c, window, seqs)
		if err != nil {
			return nil, false, err
		}
		for i := range some {
			if !known[some[i].LaneSeq] {
				all = append(all, some[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b Action) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
	if len(all) > limit {
		return all[:limit], true, nil
	}
	return all, false, nil
}

// lanesByWindow are lane_seqs, ascending, by the window they belong to.
type lanesByWindow map[int32][]int64

func (l lanesByWindow) upto(last int64) lanesByWindow {
	for w, seqs := range l {
		n, _ := slices.BinarySearch(seqs, last)
		l[w] = seqs[:n]
	}
	return l
}

// plain lists the plainly open actions of a claim by window; see laneMarks.plain.
func (c *Claim) plain(after int64, limit int) lanesByWindow {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := lanesByWindow{}
	for _, s := range c.marks.plain(after, limit) {
		w := c.windowOf(s)
		out[w] = append(out[w], s)
	}
	return out
}

const eventColumns = `e.entity, e.clock, e.kind, e.epoch, e.value, e.version_text, e.sub, e.decision, e.reason, e.log_offset, e.leader_epoch,
       e.event_key, e.hash, e.source, e.event_id, e.type, e.delta`

// openRowsRead reads actions that have a row and are open, through their own index.
const openRowsRead = `-- openRowsRead: index scans of each window, merged by lane_seq; a probe of each window for the event
WITH found AS (
    SELECT a.lane_seq, a.window_id FROM {actions} a JOIN effects x ON x.id = a.effect
     WHERE a.fence = $1 AND a.lane_seq > $2 AND a.open
       AND ` + ParksLane + `
     ORDER BY a.lane_seq LIMIT $3
)
SELECT a.lane_seq, a.status, a.attempts, (extract(epoch FROM now() - a.first_at) * 1000000)::bigint,
       greatest(0, coalesce(extract(epoch FROM a.next_at - now()) * 1000000, 0))::bigint,
       ` + leftColumns + `, coalesce(octet_length(a.packed), 0) > 0,
       CASE WHEN row_number() OVER upto = 1 OR sum(octet_length(a.packed)) OVER upto <= $4 THEN a.packed END,
       x.name, x.destination, x.on_dead, (extract(epoch FROM now() - a.doubt_end) * 1000000)::bigint, (extract(epoch FROM now() - a.replayed_at) * 1000000)::bigint, a.spent, a.forced, a.twice, ` + eventColumns + `
FROM found CROSS JOIN LATERAL (SELECT * FROM {actions} r WHERE r.window_id = found.window_id AND r.fence = $1 AND r.lane_seq = found.lane_seq OFFSET 0) a
JOIN effects x ON x.id = a.effect
CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e
WINDOW upto AS (ORDER BY a.lane_seq)
ORDER BY a.lane_seq`

func (n *Namespace) openRows(ctx context.Context, win *windowSet, c *Claim, after int64, limit int) ([]Action, error) {
	rows, err := n.ledger.hot.Query(ctx, win.own(openRowsRead), c.ID, after, limit, maxCopies)
	if err != nil {
		return nil, err
	}
	actions, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Action, error) { return n.scanOpen(r, c) })
	// A completion has the last word: where a write was in doubt, a row may be left that says pending.
	return slices.DeleteFunc(actions, func(a Action) bool { return c.ended(a.LaneSeq) }), err
}

// openPlainRead finds the events of actions that have no row.
const openPlainRead = `-- openPlainRead: one probe of events_w{w}_lane per action
SELECT u.lane_seq, 'pending', 0, NULL::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, false, NULL::bytea, x.name, x.destination, x.on_dead,
       NULL::bigint, NULL::bigint, 0, false, false, ` + eventColumns + `
FROM (SELECT unnest($2::bigint[]) AS lane_seq) u
CROSS JOIN LATERAL (SELECT * FROM events_w{w} WHERE fence = $1 AND lane_seq <= u.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL
    ORDER BY fence DESC, lane_seq DESC LIMIT 1) e
JOIN plans p ON p.id = e.plan JOIN effects x ON x.id = p.effects[u.lane_seq - e.lane_seq + 1]`

func (n *Namespace) openPlain(ctx context.Context, win *windowSet, c *Claim, window int32, seqs []int64) ([]Action, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	if !slices.Contains(win.live, window) {
		return nil, errRotated
	}
	sql := OfWindow(window, openPlainRead)
	rows, err := n.ledger.hot.Query(ctx, sql, c.ID, seqs)
	if err != nil {
		return nil, err
	}
	actions, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Action, error) { return n.scanOpen(r, c) })
	if err == nil && len(actions) != len(seqs) {
		err = pg.Refuse(fmt.Errorf("fence %d: %d of %d open actions have no event", c.ID, len(seqs)-len(actions), len(seqs)))
	}
	return actions, err
}

func (n *Namespace) scanOpen(r pgx.CollectableRow, c *Claim) (Action, error) {
	a := Action{Claim: c.ID, Record: -1}
	p := &a.Pointer
	var (
		first, doubt    *int64 // how long ago, as all times here
		wait            int64
		left, quiet     int64
		silence         int64
		decision        string
		replayed        *int64
		replay          ReplayRequest
		key, hash       [16]byte
		name, eventType string
		delta           *bool
	)
	err := r.Scan(&a.LaneSeq, &a.Status, &a.Attempts, &first, &wait, &left, &quiet, &silence, &a.HasCopy, &a.Packed, &name, &a.Destination, &a.OnDead,
		&doubt, &replayed, &replay.Spent, &replay.Force, &replay.Twice,
		&a.Entity, &a.Version.Clock, &a.Version.Kind, &a.Version.Epoch, &a.Version.Value, &a.Version.Text, &a.Version.Sub, &decision, &a.Reason,
		&p.Offset, &p.LeaderEpoch, &key, &hash, &a.Source, &a.EventID, &eventType, &delta)
	if err != nil {
		return a, err
	}
	if first != nil {
		a.FirstAt = ago(*first)
	}
	if doubt != nil {
		a.DoubtEnd = ago(*doubt)
	}
	if delta != nil {
		a.Payload = kindOfPayload(*delta)
	}
	if replayed != nil {
		replay.At = ago(*replayed)
		a.Replay = &replay
	}
	a.Name, a.EventType, a.NextIn, a.Late = name, eventType, time.Duration(wait)*time.Microsecond, decision == "late"
	a.ID = schemas.NewActionID(n.spec.Name, n.spec.Generation, a.Source, a.EventID, name)
	a.Left, a.SilenceLeft, a.Silence = micros(left), micros(quiet), micros(silence)
	p.TopicID, p.Topic, p.Partition, p.Key, p.Hash = c.topicOf(a.LaneSeq), c.Partition.Topic, c.Partition.Number, key, hash
	return a, nil
}

// ago is when something was, by this process's clock, as it is later compared with. How long ago, the database has said by
// its own: the two need not agree.
func ago(us int64) time.Time { return time.Now().Add(-micros(us)) }
