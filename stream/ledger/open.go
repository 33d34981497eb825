package ledger

// What is open of a claim, read back for its lanes. Statements of their own, without locks and without a write: only the claim's own process
// moves what they read. What reads before what, so that an action which gets its row meanwhile is found all the same, is at page.
//
//	read    actions that have a row and are open, with their events; events whose actions have none, which the claim's marks name

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// maxCopies bounds the payload copies that one read brings, in bytes; the first comes whatever it weighs.
const maxCopies = 8 << 20

// Open reads open actions of a claim with lane_seq > after, ascending, at most limit, and whether more follow.
// Dead actions that park their lane are included, so that the lane knows it stands still. Payload copies come with them, up to 8 MiB
// in all; see Action.HasCopy.
func (n *Namespace) Open(ctx context.Context, c *Claim, after int64, limit int) (actions []Action, more bool, err error) {
	op := "read the open actions of " + n.spec.Name
	if limit < 1 {
		return nil, false, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	err = n.inWindows(ctx, func(win *windowSet) (err error) {
		r := openRead{n.ledger.hot, win, c}
		actions, more, err = r.page(ctx, after, limit)
		return err
	})
	if err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	for i := range actions {
		a := &actions[i]
		if a.Generation == 0 { // of no replay
			a.Generation = n.spec.Generation
		}
		a.ID = schemas.NewActionID(n.spec.Name, a.Generation, a.Source, a.EventID, a.Name)
	}
	return actions, more, nil
}

// openRead reads what is open of a claim, by two queries: one of the rows in actions, one of the events whose actions have none.
type openRead struct {
	db  *Pool
	win *windowSet
	c   *Claim
}

// page reads the actions that have a row and those that have none, and merges them. Those without are listed first: an action that gets its
// row in between is then found in both lists, and never in neither.
func (r openRead) page(ctx context.Context, after int64, limit int) ([]Action, bool, error) {
	plain := r.c.plain(after, limit+1)
	withRow, err := r.rows(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	if len(withRow) > limit { // actions behind these are not read
		last := withRow[limit].LaneSeq
		plain = plain.upto(last)
	}
	known := make(map[int64]bool, len(withRow))
	for i := range withRow {
		known[withRow[i].LaneSeq] = true
	}
	all := withRow
	for window, seqs := range plain {
		withoutRow, err := r.plain(ctx, window, seqs)
		if err != nil {
			return nil, false, err
		}
		for i := range withoutRow {
			if !known[withoutRow[i].LaneSeq] {
				all = append(all, withoutRow[i])
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

// upto leaves out lane_seqs from last on.
func (l lanesByWindow) upto(last int64) lanesByWindow {
	for w, seqs := range l {
		n, _ := slices.BinarySearch(seqs, last)
		l[w] = seqs[:n]
	}
	return l
}

// plain returns the open actions without a row of a claim, by window; see marks.Marks.Plain.
func (c *Claim) plain(after int64, limit int) lanesByWindow {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := lanesByWindow{}
	for _, s := range c.marks.Plain(after, limit) {
		w := c.windowOf(s)
		out[w] = append(out[w], s)
	}
	return out
}

const eventColumns = `e.entity, e.clock, e.kind, e.epoch, e.value, e.version_text, e.sub, e.decision, e.reason, e.log_offset, e.leader_epoch,
       e.event_key, e.hash, e.source, e.event_id, e.type, e.delta, coalesce(e.replay, 0) AS replay`

// openRowsRead reads actions that have a row and are open, through their own index.
const openRowsRead = `-- openRowsRead: index scans of each window, merged by lane_seq; a probe of each window for the event
WITH found AS (
    SELECT a.lane_seq, a.window_id FROM {actions} a JOIN effects x ON x.id = a.effect
     WHERE a.fence = $1 AND a.lane_seq > $2 AND a.open
       AND ` + ParksLane + `
     ORDER BY a.lane_seq LIMIT $3
)
SELECT a.lane_seq, a.status, a.attempts, a.attempt_epoch, (extract(epoch FROM now() - a.first_at) * 1000000)::bigint AS first_ago,
       greatest(0, coalesce(extract(epoch FROM a.next_at - now()) * 1000000, 0))::bigint AS next_in,
       ` + leftColumns + `, coalesce(octet_length(a.packed), 0) > 0 AS has_copy,
       CASE WHEN row_number() OVER upto = 1 OR sum(octet_length(a.packed)) OVER upto <= $4 THEN a.packed END AS packed,
       x.name, x.destination, x.on_dead, (extract(epoch FROM now() - a.doubt_end) * 1000000)::bigint AS doubt_ago,
       (extract(epoch FROM now() - a.replayed_at) * 1000000)::bigint AS replayed_ago, a.spent, a.forced, a.twice, ` + eventColumns + `
FROM found CROSS JOIN LATERAL (SELECT * FROM {actions} r WHERE r.window_id = found.window_id AND r.fence = $1 AND r.lane_seq = found.lane_seq OFFSET 0) a
JOIN effects x ON x.id = a.effect
CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e
WINDOW upto AS (ORDER BY a.lane_seq)
ORDER BY a.lane_seq`

// rows reads open actions that have a row.
func (r openRead) rows(ctx context.Context, after int64, limit int) ([]Action, error) {
	rows, err := r.db.Query(ctx, r.win.own(openRowsRead), r.c.ID, after, limit, maxCopies)
	if err != nil {
		return nil, err
	}
	actions, err := r.actions(rows, pgx.RowToStructByName[openRow])
	// A completion has the last word: where a write was in doubt, a row may be left that says pending.
	return slices.DeleteFunc(actions, func(a Action) bool { return r.c.ended(a.LaneSeq) }), err
}

// openPlainRead finds the events of actions that have no row: nothing but the event and the action's name.
const openPlainRead = `-- openPlainRead: one probe of events_w{w}_lane per action
SELECT u.lane_seq, 'pending' AS status, x.name, x.destination, x.on_dead, ` + eventColumns + `
FROM (SELECT unnest($2::bigint[]) AS lane_seq) u
CROSS JOIN LATERAL (SELECT * FROM events_w{w} WHERE fence = $1 AND lane_seq <= u.lane_seq AND lane_seq IS NOT NULL AND lane_window IS NULL
    ORDER BY fence DESC, lane_seq DESC LIMIT 1) e
JOIN plans p ON p.id = e.plan JOIN effects x ON x.id = p.effects[u.lane_seq - e.lane_seq + 1]`

// plain reads open actions of one window that have no row, from their events.
func (r openRead) plain(ctx context.Context, window int32, seqs []int64) ([]Action, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	if !slices.Contains(r.win.live, window) {
		return nil, errRotated
	}
	rows, err := r.db.Query(ctx, OfWindow(window, openPlainRead), r.c.ID, seqs)
	if err != nil {
		return nil, err
	}
	actions, err := r.actions(rows, pgx.RowToStructByNameLax[openRow])
	if err == nil && len(actions) != len(seqs) {
		err = pg.Refuse(fmt.Errorf("fence %d: %d of %d open actions have no event", r.c.ID, len(seqs)-len(actions), len(seqs)))
	}
	return actions, err
}

// openRow is a row of openRowsRead, or of openPlainRead. Times are how long ago, or in how long, in microseconds.
type openRow struct {
	LaneSeq      int64
	Status       Status
	Attempts     int
	AttemptEpoch int64
	FirstAgo     *int64
	NextIn       int64
	ResultIn     int64
	SilenceLeft  int64
	Silence      int64
	HasCopy      bool
	Packed       []byte
	Name         string
	Destination  string
	OnDead       OnDead
	DoubtAgo     *int64
	ReplayedAgo  *int64
	Spent        int
	Forced       bool
	Twice        bool
	Entity       schemas.EntityKey
	versionColumns
	Decision    string
	Reason      gate.Reason
	Offset      int64 `db:"log_offset"`
	LeaderEpoch int32
	EventKey    [16]byte
	Hash        [16]byte
	Source      string
	EventID     string
	Type        string
	Delta       *bool
	Replay      int32
}

// actions collects the actions of a query, each row of which scan reads: openRowsRead or openPlainRead.
func (r openRead) actions(rows pgx.Rows, scan pgx.RowToFunc[openRow]) ([]Action, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Action, error) {
		o, err := scan(row)
		if err != nil {
			return Action{}, err
		}
		return r.action(&o), nil
	})
}

// action returns the action of a row, without its ID.
func (r openRead) action(o *openRow) Action {
	a := Action{
		Claim: r.c.ID, Record: -1, Generation: o.Replay, LaneSeq: o.LaneSeq, Status: o.Status, Attempts: o.Attempts, AttemptEpoch: o.AttemptEpoch, Spent: o.Spent, NextIn: micros(o.NextIn),
		Left: micros(o.ResultIn), SilenceLeft: micros(o.SilenceLeft), Silence: micros(o.Silence), HasCopy: o.HasCopy, Packed: o.Packed,
		Name: o.Name, Destination: o.Destination, OnDead: o.OnDead,
		Entity: o.Entity, Reason: o.Reason, Late: o.Decision == "late", Source: o.Source, EventID: o.EventID, EventType: o.Type,
		Version: o.version(),
		Pointer: Pointer{TopicID: r.c.topicOf(o.LaneSeq), Topic: r.c.Partition.Topic, Partition: r.c.Partition.Number,
			Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Key: keyInLog(o.EventKey, o.Replay != 0, o.Source, o.EventID), Hash: o.Hash},
	}
	if o.FirstAgo != nil {
		a.FirstAt = pg.Ago(*o.FirstAgo)
	}
	if o.DoubtAgo != nil {
		a.DoubtEnd = pg.Ago(*o.DoubtAgo)
	}
	if o.Delta != nil {
		a.Payload = kindOfPayload(*o.Delta)
	}
	if o.ReplayedAgo != nil {
		a.Replay = &ReplayRequest{At: pg.Ago(*o.ReplayedAgo), Force: o.Forced, Twice: o.Twice}
	}
	return a
}
