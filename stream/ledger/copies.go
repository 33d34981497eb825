package ledger

// Payload copies for open actions, before the log deletes what their pointers name: what has none (WithoutCopy), and storing them (Copy).
//
//	read    beside batches, without locks: open rows of actions, and of events whose actions have no row
//	decide  from the claim's marks: which copies go into a row that is there, which make one, which action has ended
//	lock    in one round trip with what follows: the claim's fence, shared (FOR KEY SHARE)
//	write   by window: actions, updated or made from their events

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Bounds of one transaction of [Namespace.Copy], so that a result of the same lanes never waits long for its rows.
const (
	copyBytes = 4 << 20
	copyRows  = 500
)

// WithoutCopy is an open action whose payload is in the log and nowhere else.
type WithoutCopy struct {
	LaneSeq int64
	Pointer Pointer
}

// WithoutCopyPage is what one bounded walk over a claim's open actions found.
type WithoutCopyPage struct {
	Actions []WithoutCopy // ascending by LaneSeq
	// Upto is the lane_seq of the last action that was looked at, where the next page begins; 0: there was none.
	Upto int64
	More bool // the walk ended at its limit
	// Left is the lane_seq of the first action without a copy that was passed over, because its event is not below the
	// offset asked for; 0: none. LeftOffset is the lowest offset of all those.
	Left, LeftOffset int64
}

// Copy is a payload copy of an action.
type Copy struct {
	LaneSeq int64
	Packed  []byte // the form of schemas/record.Pack
}

// WithoutCopy looks at open actions of a claimed partition (pending, failed, dead, parked, unknown), at most limit of them, by lane_seq from behind
// after on. It lists those that have no payload copy and whose event's offset is below belowOffset. An action that is dead because its payload
// is lost is looked at and not listed. It may be called while the claim's owner applies batches.
func (n *Namespace) WithoutCopy(ctx context.Context, c *Claim, after, belowOffset int64, limit int) (page WithoutCopyPage, err error) {
	op := "read the actions without a payload copy of " + n.spec.Name
	if limit < 1 {
		return page, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	err = n.inWindows(ctx, func(win *windowSet) error {
		r := withoutCopyRead{n.ledger.hot, win, c}
		walked, err := r.walk(ctx, after, limit+1) // one more says whether there is a next page
		page = pageOf(walked, belowOffset, limit)
		return err
	})
	if err != nil {
		return WithoutCopyPage{}, pg.Unavailable(op, err)
	}
	return page, nil
}

// withoutCopyRead looks at what is open of a claim, by two queries: one of the rows in actions, one of the events whose actions
// have none.
type withoutCopyRead struct {
	db  *Pool
	win *windowSet
	c   *Claim
}

// walk looks at the next open actions, ascending: up to limit that have a row in actions and up to limit that have none. Of all these only the
// first limit are the next ones: the caller leaves out the rest, behind which others may have been left out.
func (r withoutCopyRead) walk(ctx context.Context, after int64, limit int) ([]lookedAt, error) {
	plain, _ := r.c.plain(after, limit) // those without; asked first, since they may get a row meanwhile: see openRead.round
	walked, err := r.rows(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	for window, seqs := range plain {
		some, err := r.plain(ctx, window, seqs)
		if err != nil {
			return nil, err
		}
		walked = append(walked, some...)
	}
	slices.SortFunc(walked, func(a, b lookedAt) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
	return walked, nil
}

// lookedAt is an open action; bare means that it needs a copy.
type lookedAt struct {
	WithoutCopy
	bare bool
}

// pageOf makes a page of the first limit actions that were looked at.
func pageOf(walked []lookedAt, belowOffset int64, limit int) (page WithoutCopyPage) {
	if len(walked) > limit {
		walked, page.More = walked[:limit], true
	}
	for i := range walked {
		w := &walked[i]
		page.Upto = w.LaneSeq
		switch {
		case !w.bare:
		case w.Pointer.Offset >= belowOffset:
			if page.Left == 0 {
				page.Left, page.LeftOffset = w.LaneSeq, w.Pointer.Offset
			}
			page.LeftOffset = min(page.LeftOffset, w.Pointer.Offset)
		default:
			page.Actions = append(page.Actions, w.WithoutCopy)
		}
	}
	return page
}

// withoutCopyRowsRead walks the open rows of a fence ($1) above a lane_seq ($2) to the limit ($3), in the tables of the live windows. It looks at
// no copy, only whether there is one. What it returns of the event is filled in for bare actions alone, and means nothing for the others.
func withoutCopyRowsRead(live []int32) string {
	walks := make([]string, len(live))
	for i, w := range live {
		walks[i] = OfWindow(w, withoutCopyWalk)
	}
	return OfWindows(live, `-- withoutCopyRowsRead: Append of index scans that stop at the limit, then one probe of each window's events for each action
WITH walked AS MATERIALIZED (
    SELECT * FROM (`+strings.Join(walks, "UNION ALL\n")+`) w ORDER BY lane_seq LIMIT $3
)
SELECT w.lane_seq, w.bare AND e.log_offset IS NOT NULL AS bare, coalesce(e.log_offset, 0) AS log_offset, coalesce(e.leader_epoch, -1) AS leader_epoch,
       w.event_key, coalesce(e.hash, w.event_key) AS hash, e.replay IS NOT NULL AS again, coalesce(e.source, '') AS source, coalesce(e.event_id, '') AS event_id
FROM walked w LEFT JOIN LATERAL (SELECT log_offset, leader_epoch, hash, replay, source, event_id FROM {events} v
    WHERE w.bare AND window_id = w.event_window AND event_key = w.event_key OFFSET 0) e ON true
ORDER BY w.lane_seq`)
}

const withoutCopyWalk = `(SELECT lane_seq, event_window, event_key, packed IS NULL AND class IS DISTINCT FROM 'payload_lost' AS bare
  FROM actions_w{w} WHERE fence = $1 AND lane_seq > $2 AND open ORDER BY fence, lane_seq LIMIT $3)
`

func (r withoutCopyRead) rows(ctx context.Context, after int64, limit int) ([]lookedAt, error) {
	return r.scan(r.db.Query(ctx, withoutCopyRowsRead(r.win.live), r.c.ID, after, limit))
}

const withoutCopyPlainRead = `-- withoutCopyPlainRead: one probe of events_w{w}_lane per action
SELECT u.lane_seq, true AS bare, e.log_offset, e.leader_epoch, e.event_key, e.hash, e.replay IS NOT NULL AS again, e.source, e.event_id
FROM (SELECT unnest($2::bigint[]) AS lane_seq) u
CROSS JOIN LATERAL (SELECT log_offset, leader_epoch, event_key, hash, replay, source, event_id FROM events_w{w}
    WHERE fence = $1 AND lane_seq <= u.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL ORDER BY fence DESC, lane_seq DESC LIMIT 1) e`

func (r withoutCopyRead) plain(ctx context.Context, window int32, seqs []int64) ([]lookedAt, error) {
	if !slices.Contains(r.win.live, window) {
		return nil, errRotated
	}
	return r.scan(r.db.Query(ctx, OfWindow(window, withoutCopyPlainRead), r.c.ID, seqs))
}

type withoutCopyRow struct {
	LaneSeq     int64
	Bare        bool
	Offset      int64 `db:"log_offset"`
	LeaderEpoch int32
	EventKey    [16]byte
	Hash        [16]byte
	Reprocessed bool `db:"again"`
	Source      string
	EventID     string
}

// scan collects the rows of either query.
func (r withoutCopyRead) scan(rows pgx.Rows, err error) ([]lookedAt, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (lookedAt, error) {
		o, err := pgx.RowToStructByName[withoutCopyRow](row)
		return lookedAt{bare: o.Bare, WithoutCopy: WithoutCopy{LaneSeq: o.LaneSeq, Pointer: Pointer{
			TopicID: r.c.topicOf(o.LaneSeq), Topic: r.c.Partition.Topic, Partition: r.c.Partition.Number,
			Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Key: keyInLog(o.EventKey, o.Reprocessed, o.Source, o.EventID), Hash: o.Hash,
		}}}, err
	})
}

// Copy stores payload copies of actions of one claim, in transactions of at most 4 MiB (a larger copy has one of its
// own). What is done, or has a copy, is left alone, so that storing again changes nothing. fenced says that the claim has
// lost its fence; then nothing more was written. It may be called while the claim's owner applies and results are recorded. Errors are those of
// untilDone.
func (n *Namespace) Copy(ctx context.Context, c *Claim, copies []Copy) (stored int, fenced bool, err error) {
	op := "store payload copies of " + n.spec.Name
	groups, err := CopyGroups(op, copies)
	if err != nil {
		return 0, false, err
	}
	for _, group := range groups {
		var one int
		t := &copyTx{n: n, c: c, group: group}
		err = n.repeat(ctx, op, func(win *windowSet) (err error) {
			one, fenced, err = t.run(ctx, win)
			return err
		})
		if err != nil {
			return stored, false, err
		}
		if stored += one; fenced {
			break
		}
	}
	return stored, fenced, nil
}

// CopyGroups returns what [Namespace.Copy] stores in a transaction each. An error is of kind Invalid.
func CopyGroups(op string, copies []Copy) (groups [][]Copy, err error) {
	for _, one := range copies {
		if one.LaneSeq <= 0 || len(one.Packed) == 0 {
			return nil, schemas.Errorf(schemas.Invalid, op, "an empty copy, or one of lane_seq %d", one.LaneSeq)
		}
	}
	copies = slices.Clone(copies)
	slices.SortStableFunc(copies, func(a, b Copy) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
	copies = slices.CompactFunc(copies, func(a, b Copy) bool { return a.LaneSeq == b.LaneSeq }) // a statement takes one each
	for len(copies) > 0 {
		group := copies[:1]
		for size := len(copies[0].Packed); len(group) < min(len(copies), copyRows); group = copies[:len(group)+1] {
			if size += len(copies[len(group)].Packed); size > copyBytes {
				break
			}
		}
		groups, copies = append(groups, group), copies[len(group):]
	}
	return groups, nil
}

// copyTx stores a group of copies in one transaction: it locks the fence, updates the rows that are there, and makes those that
// are not from their events.
type copyTx struct {
	n     *Namespace
	c     *Claim
	group []Copy
}

// run runs the transaction once.
func (t *copyTx) run(ctx context.Context, win *windowSet) (stored int, fenced bool, err error) {
	n, c := t.n, t.c
	conn, err := n.ledger.hot.Acquire(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { pg.ReleaseAfter(conn, err) }()
	ctx, done := n.ledger.hot.Bounded(ctx)
	defer func() { err = done(err) }() // before the connection is given back
	w, err := copiesOf(c, t.group)
	if err != nil {
		return 0, false, err
	}
	p := &pg.Pipeline{Conn: conn}
	if err = p.Add(ctx, pg.Begin, nil); err != nil {
		return 0, false, err
	}
	held := fencesOf(c).params()
	fenced = true
	if err = p.Add(ctx, fenceCheck, func(*pg.Row) { fenced = false }, held...); err != nil {
		return 0, false, err
	}
	for _, window := range slices.Sorted(maps.Keys(w.windows)) {
		if !slices.Contains(win.live, window) {
			return 0, false, errRotated
		}
		for i, sql := range []string{copyUpdate, copyInsert} {
			cols := w.windows[window][i]
			if cols.n() == 0 {
				continue
			}
			s := pg.NewFresh(OfWindow(window, sql))
			if err = p.Add(ctx, s, func(*pg.Row) { stored++ }, cols.params(held...)...); err != nil {
				return 0, false, err
			}
		}
		if made := w.windows[window][1]; made.n() > 0 { // an error if one has no row after that
			if err = p.Add(ctx, win.q.standing[window], nil, append(made.action().params(), held...)...); err != nil {
				return 0, false, err
			}
		}
	}
	if err = p.Add(ctx, pg.Commit, nil); err != nil {
		return 0, false, err
	}
	if err = p.Commit(ctx); err != nil {
		return 0, false, err
	}
	w.markCommitted()
	return stored, fenced, nil
}

// copyWrite is what one transaction of copies writes: by window, rows that are there and rows that are not.
type copyWrite struct {
	claim   *Claim
	windows map[int32][2]*copyColumns
	made    []int64 // the lane_seqs of the actions whose row this transaction makes
}

// copiesOf decides how each copy is written, and marks the claim with the rows that will be made. What has ended, or may
// have, is left out.
func copiesOf(c *Claim, group []Copy) (*copyWrite, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &copyWrite{claim: c, windows: map[int32][2]*copyColumns{}}
	for _, one := range group {
		window := c.windowOf(one.LaneSeq)
		if window == 0 {
			return nil, pg.Refuse(errors.New("a copy for an action that the claim never had"))
		}
		cols, ok := w.windows[window]
		if !ok {
			cols = [2]*copyColumns{newCopyColumns(), newCopyColumns()}
			w.windows[window] = cols
		}
		to := cols[0]
		switch c.marks.WayOfCopy(one.LaneSeq) {
		case marks.Nowhere:
			continue
		case marks.NewRow:
			w.made = append(w.made, one.LaneSeq)
			to = cols[1]
		}
		to.fence.Add(c.ID)
		to.laneSeq.Add(one.LaneSeq)
		to.packed.Add(one.Packed)
	}
	return w, nil
}

// markCommitted notes in the claim's marks that the rows that were made are committed.
func (w *copyWrite) markCommitted() {
	w.claim.mu.Lock()
	defer w.claim.mu.Unlock()
	for _, laneSeq := range w.made {
		w.claim.marks.MarkRecorded(laneSeq)
	}
	w.claim.marks.Advance()
}

// copyColumns are copies: copyUpdate and copyInsert, behind the fence.
type copyColumns struct {
	columns
	fence   pg.Int32s
	laneSeq pg.Int64s
	packed  pg.Blobs
}

func newCopyColumns() *copyColumns {
	r := &copyColumns{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"packed", &r.packed}}
	return r
}

// action is the columns that name the action.
func (r *copyColumns) action() columns { return r.columns[:2] }

var copyUpdate = `-- copyUpdate: one probe of actions_w{w}_lane per copy
UPDATE actions_w{w} a SET packed = u.packed
FROM ` + newCopyColumns().zip(4) + `
WHERE a.fence = u.fence AND a.lane_seq = u.lane_seq AND a.open AND a.packed IS NULL
  AND u.fence = ANY (ARRAY(` + fencesHeld + `))
RETURNING a.lane_seq`

var copyInsert = `-- copyInsert: one probe of events_w{w}_lane per copy
INSERT INTO actions_w{w} AS a (window_id, fence, lane_seq, event_key, event_window, effect, created_at, packed)
SELECT {w}, u.fence, u.lane_seq, e.event_key, {w}, p.effects[u.lane_seq - e.lane_seq + 1], e.decided_at, u.packed
FROM ` + newCopyColumns().zip(4) + ` CROSS JOIN LATERAL (` + eventOfLane + `) e JOIN plans p ON p.id = e.plan
WHERE u.fence = ANY (ARRAY(` + fencesHeld + `))
ON CONFLICT (fence, lane_seq) DO UPDATE SET packed = EXCLUDED.packed WHERE a.open AND a.packed IS NULL
RETURNING a.lane_seq`
