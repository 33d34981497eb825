package ledger

// What is open of a claim, read back for its lanes. Statements of their own, without locks and without a write: only the claim's own process
// moves what they read. What reads before what, so that an action which gets its row meanwhile is found all the same, is at page.
//
//	read    actions that have a row and are open, with their events; events whose actions have none, which the claim's marks name

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// maxCopies bounds the payload copies that one read brings, in bytes; the first comes whatever it weighs.
const maxCopies = 8 << 20

// Open reads open actions of a claim with lane_seq > after, ascending, at most limit, and whether more follow.
// Dead actions that park their lane are included, so that the lane knows it stands still. Payload copies come with them, up to
// about 8 MiB in all; see Action.HasCopy.
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
		return nil, false, pg.Unavailable(op, err)
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

// page reads rounds until it has more actions than it may return, or there are no more. What a round leaves out because it has ended says
// nothing of what follows.
func (r openRead) page(ctx context.Context, after int64, limit int) ([]Action, bool, error) {
	var all []Action
	for after != endOfOpen {
		actions, upto, err := r.round(ctx, after, limit+1-len(all))
		if err != nil {
			return nil, false, err
		}
		if all = append(all, actions...); len(all) > limit {
			return all[:limit], true, nil
		}
		after = upto
	}
	return all, false, nil
}

// endOfOpen stands in place of a lane_seq for a read that has come to the end of what is open.
const endOfOpen = math.MaxInt64

// round reads the actions that have a row and those that have none, at most limit of each, and merges them as far as both were read: up to
// a lane_seq, or [endOfOpen]. Those without a row are listed first: an action that gets its row in between is then found in both lists, and never
// in neither.
func (r openRead) round(ctx context.Context, after int64, limit int) (all []Action, upto int64, err error) {
	plain, upto := r.c.plain(after, limit)
	withRow, rowsUpto, err := r.rows(ctx, after, limit)
	if err != nil {
		return nil, 0, err
	}
	upto = min(upto, rowsUpto)
	known := make(map[int64]bool, len(withRow))
	for i := range withRow {
		if withRow[i].LaneSeq <= upto {
			known[withRow[i].LaneSeq] = true
			all = append(all, withRow[i])
		}
	}
	for window, seqs := range plain.upto(upto) {
		withoutRow, err := r.plain(ctx, window, seqs)
		if err != nil {
			return nil, 0, err
		}
		for i := range withoutRow {
			if !known[withoutRow[i].LaneSeq] {
				all = append(all, withoutRow[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b Action) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
	return all, upto, nil
}

// lanesByWindow are lane_seqs, ascending, by the window they belong to.
type lanesByWindow map[int32][]int64

// upto leaves out lane_seqs above last.
func (l lanesByWindow) upto(last int64) lanesByWindow {
	for w, seqs := range l {
		n := sort.Search(len(seqs), func(i int) bool { return seqs[i] > last })
		l[w] = seqs[:n]
	}
	return l
}

// plain returns the open actions without a row of a claim, by window, and up to where they are all; see marks.Marks.Plain.
func (c *Claim) plain(after int64, limit int) (out lanesByWindow, upto int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seqs := c.marks.Plain(after, limit)
	if upto = endOfOpen; len(seqs) == limit {
		upto = seqs[limit-1]
	}
	out = lanesByWindow{}
	for _, s := range seqs {
		w := c.windowOf(s)
		out[w] = append(out[w], s)
	}
	return out, upto
}

const eventColumns = `e.entity, e.clock, e.kind, e.epoch, e.value, e.version_text, e.sub, e.decision, e.reason, e.log_offset, e.leader_epoch,
       e.event_key, e.hash, e.source, e.event_id, e.type, e.delta, coalesce(e.replay, 0) AS replay`

// openRowsRead reads actions that have a row and are open, through their own index, and says how many it has found. See openRows.
const openRowsRead = `-- openRowsRead: index scans of each window, merged by lane_seq; a probe of one window for the row, the event and the attempts of what runs again
WITH found AS (
    SELECT a.lane_seq, a.window_id FROM {actions} a JOIN effects x ON x.id = a.effect
     WHERE a.fence = $1 AND a.lane_seq > $2 AND a.open
       AND ` + ParksLane + `
     ORDER BY a.lane_seq LIMIT $3
)
SELECT a.lane_seq, a.status, a.attempts, a.attempt_epoch, (extract(epoch FROM now() - a.first_at) * 1000000)::bigint AS first_ago,
       (extract(epoch FROM now() - coalesce(a.replayed_at, a.created_at)) * 1000000)::bigint AS open_ago,
       greatest(0, coalesce(extract(epoch FROM a.next_at - now()) * 1000000, 0))::bigint AS next_in,
       ` + leftColumns + `, coalesce(a.cancel_url, '') AS cancel_url, a.newer_at IS NOT NULL AS newer,
       coalesce(octet_length(a.packed), 0) > 0 AS has_copy,
       CASE WHEN row_number() OVER upto = 1 OR sum(octet_length(a.packed)) OVER upto <= $4 THEN a.packed END AS packed,
       x.name, x.destination, x.on_dead, (extract(epoch FROM now() - a.doubt_end) * 1000000)::bigint AS doubt_ago,
       (extract(epoch FROM now() - a.replayed_at) * 1000000)::bigint AS replayed_ago, a.spent, a.forced, a.twice,
       a.replayed_at IS NOT NULL AND EXISTS (SELECT FROM {attempts} t
           WHERE t.window_id = a.window_id AND t.fence = a.fence AND t.lane_seq = a.lane_seq AND t.ended_at > a.replayed_at) AS tried,
       (SELECT count(*) FROM found) AS found, ` + eventColumns + `
FROM found CROSS JOIN LATERAL (SELECT * FROM {actions} r WHERE r.window_id = found.window_id AND r.fence = $1 AND r.lane_seq = found.lane_seq OFFSET 0) a
JOIN effects x ON x.id = a.effect
CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e
WINDOW upto AS (ORDER BY a.lane_seq)
ORDER BY a.lane_seq`

// openRows is openRowsRead on the live windows: by the parents, so that the row and the event of each action are probed in one window, not in all.
func (w *windowSet) openRows() string { return OfSome(w.live, openRowsRead) }

// rows reads open actions that have a row, and up to where they are all.
func (r openRead) rows(ctx context.Context, after int64, limit int) (actions []Action, upto int64, err error) {
	rows, err := r.db.Query(ctx, r.win.openRows(), r.c.ID, after, limit, maxCopies)
	if err != nil {
		return nil, 0, err
	}
	found := 0
	actions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Action, error) {
		o, err := pgx.RowToStructByName[openRow](row)
		found = o.Found
		return r.action(&o), err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(actions) != found {
		return nil, 0, pg.Refuse(fmt.Errorf("fence %d: %d of %d open actions have no event", r.c.ID, found-len(actions), found))
	}
	if upto = endOfOpen; found == limit {
		upto = actions[found-1].LaneSeq
	}
	return actions, upto, nil
}

// openPlainRead finds the events of actions that have no row: nothing but the event and the action's name.
const openPlainRead = `-- openPlainRead: one probe of events_w{w}_lane per action
SELECT u.lane_seq, 'pending' AS status, (extract(epoch FROM now() - e.decided_at) * 1000000)::bigint AS open_ago, x.name, x.destination, x.on_dead, ` + eventColumns + `
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
	actions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Action, error) {
		o, err := pgx.RowToStructByNameLax[openRow](row)
		return r.action(&o), err
	})
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
	OpenAgo      int64
	NextIn       int64
	ResultIn     int64
	SilenceLeft  int64
	Silence      int64
	CancelURL    string
	Newer        bool
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
	Tried        bool
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
	Found       int // rows that openRowsRead has found, with an event or without
}

// action returns the action of a row, without its ID.
func (r openRead) action(o *openRow) Action {
	a := Action{
		Claim: r.c.ID, Record: -1, Generation: o.Replay, LaneSeq: o.LaneSeq, Status: o.Status, Attempts: o.Attempts, AttemptEpoch: o.AttemptEpoch, Spent: o.Spent, NextIn: micros(o.NextIn),
		Left: micros(o.ResultIn), SilenceLeft: micros(o.SilenceLeft), Silence: micros(o.Silence), CancelURL: o.CancelURL, Newer: o.Newer, HasCopy: o.HasCopy, Packed: o.Packed,
		Name: o.Name, Destination: o.Destination, OnDead: o.OnDead,
		Since: pg.Ago(o.OpenAgo), Entity: o.Entity, Reason: o.Reason, Late: o.Decision == "late", Source: o.Source, EventID: o.EventID, EventType: o.Type,
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
		a.Replay = &ReplayRequest{At: pg.Ago(*o.ReplayedAgo), Force: o.Forced, Twice: o.Twice, Tried: o.Tried}
	}
	return a
}
