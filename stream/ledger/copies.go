package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

// Bounds of one transaction of [Namespace.Copy], so that a result of the same lanes never waits long for its rows.
const (
	copyBytes = 4 << 20
	copyRows  = 500
)

// Uncopied is an open action whose payload is in the log and nowhere else.
type Uncopied struct {
	LaneSeq int64
	Pointer Pointer
}

// UncopiedPage is what one bounded walk over a claim's open actions found.
type UncopiedPage struct {
	Actions []Uncopied // ascending by LaneSeq
	// Upto is the lane_seq of the last action that was looked at, where the next page begins; 0: there was none.
	Upto int64
	More bool // the walk ended at its limit
	// Left is the lane_seq of the first action without a copy that was passed over, because its event is not below the
	// offset asked for; 0: none.
	Left int64
}

// Copy is a payload copy of an action.
type Copy struct {
	LaneSeq int64
	Packed  []byte // the form of schemas/record.Pack
}

// Uncopied looks at the next limit actions of a claim with lane_seq > after that can still run or be redriven (pending,
// failed, dead, parked, unknown) and lists those without a payload copy whose event stands below offset before in the
// log. Actions that are dead because their payload is lost are left out. It may be called while the claim's owner applies.
func (n *Namespace) Uncopied(ctx context.Context, c *Claim, after, before int64, limit int) (page UncopiedPage, err error) {
	op := "read the actions without a payload copy of " + n.spec.Name
	if limit < 1 {
		return page, schemas.Errorf(schemas.Invalid, op, "limit %d", limit)
	}
	for refreshed := 0; ; refreshed++ {
		page, err = n.uncopied(ctx, c, after, before, limit)
		switch {
		case err == nil:
			return page, nil
		case troubleOf(err) != oldWindows || refreshed >= maxRefresh || n.loadWindows(ctx) != nil:
			return UncopiedPage{}, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
		}
	}
}

func (n *Namespace) uncopied(ctx context.Context, c *Claim, after, before int64, limit int) (UncopiedPage, error) {
	var page UncopiedPage
	rows, err := n.ledger.hot.Query(ctx, uncopiedRead(n.windows.Load().live), c.ID, after, limit+1)
	if err != nil {
		return page, err
	}
	var (
		bare      bool
		offset    int64
		epoch     int32
		laneSeq   int64
		key, hash [16]byte
		walked    int
	)
	_, err = pgx.ForEachRow(rows, []any{&laneSeq, &bare, &offset, &epoch, &key, &hash}, func() error {
		if walked++; walked > limit {
			page.More = true
			return nil
		}
		page.Upto = laneSeq
		switch {
		case !bare:
		case offset >= before:
			if page.Left == 0 {
				page.Left = laneSeq
			}
		default:
			page.Actions = append(page.Actions, Uncopied{LaneSeq: laneSeq, Pointer: Pointer{
				TopicID: c.Partition.TopicID, Topic: c.Partition.Topic, Partition: c.Partition.Number,
				Offset: offset, LeaderEpoch: epoch, Key: key, Hash: hash,
			}})
		}
		return nil
	})
	return page, err
}

// uncopiedRead walks the live windows by name, each by two index scans that stop at the limit: what is pending from the
// mark up, and what is held. It looks at no copy, only whether there is one.
func uncopiedRead(live []int32) string {
	walks := make([]string, len(live))
	for i, w := range live {
		walks[i] = strings.ReplaceAll(uncopiedWalk, "{w}", strconv.Itoa(int(w)))
	}
	return `-- uncopiedRead: Append of index scans that stop at the limit, then one probe of events for each action
WITH walked AS MATERIALIZED (
` + strings.Join(walks, "UNION ALL\n") + `ORDER BY lane_seq LIMIT $3
)
SELECT w.lane_seq, w.bare AND e.log_offset IS NOT NULL, coalesce(e.log_offset, 0), coalesce(e.leader_epoch, -1),
       w.event_key, coalesce(e.hash, w.event_key)
FROM walked w LEFT JOIN LATERAL (SELECT log_offset, leader_epoch, hash FROM events
    WHERE w.bare AND window_id = w.event_window AND event_key = w.event_key OFFSET 0) e ON true
ORDER BY w.lane_seq`
}

const uncopiedWalk = `(SELECT lane_seq, event_window, event_key, packed IS NULL AS bare FROM actions_w{w}
  WHERE fence = $1 AND lane_seq >= (SELECT greatest(lane_low, $2::bigint + 1) FROM progress WHERE fence = $1)
    AND status = 'pending' ORDER BY fence, lane_seq LIMIT $3)
UNION ALL
(SELECT lane_seq, event_window, event_key, packed IS NULL AND class IS DISTINCT FROM 'payload_lost' FROM actions_w{w}
  WHERE fence = $1 AND lane_seq > $2 AND held ORDER BY fence, lane_seq LIMIT $3)
`

// Copy stores payload copies of actions of one claim, in transactions of at most 4 MiB (a larger copy has one of its
// own). What is done, or has a copy, is left alone, so that storing again changes nothing. fenced says that the claim has
// lost its fence; then nothing more was written. It tries until ctx ends, and may be called while the claim's owner
// applies and results are recorded.
func (n *Namespace) Copy(ctx context.Context, c *Claim, copies []Copy) (stored int, fenced bool, err error) {
	op := "store payload copies of " + n.spec.Name
	for _, one := range copies {
		if one.LaneSeq <= 0 || len(one.Packed) == 0 {
			return 0, false, schemas.Errorf(schemas.Invalid, op, "an empty copy, or one of lane_seq %d", one.LaneSeq)
		}
	}
	copies = slices.Clone(copies)
	slices.SortFunc(copies, func(a, b Copy) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
	for len(copies) > 0 && !fenced {
		size := 0
		group := copies[:1]
		for size = len(copies[0].Packed); len(group) < min(len(copies), copyRows); group = copies[:len(group)+1] {
			if size += len(copies[len(group)].Packed); size > copyBytes {
				break
			}
		}
		copies = copies[len(group):]
		var one int
		if one, fenced, err = n.copyAgain(ctx, c, group); err != nil {
			return stored, false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
		}
		stored += one
	}
	return stored, fenced, nil
}

// copyAgain stores one group, again until it is known to be committed.
func (n *Namespace) copyAgain(ctx context.Context, c *Claim, group []Copy) (stored int, fenced bool, err error) {
	var last error
	for try, refreshed := 0, 0; ; try++ {
		if err := backoff(ctx, try); err != nil {
			return 0, false, errors.Join(err, last)
		}
		stored, fenced, last = n.copy(ctx, c, group)
		switch t := troubleOf(last); {
		case last == nil:
			return stored, fenced, nil
		case ctx.Err() != nil, t == permanent, t == badData:
			return 0, false, last
		case t == oldWindows:
			if refreshed++; refreshed > maxRefresh {
				return 0, false, last
			}
			_ = n.loadWindows(ctx) // where it fails, the next try does too, and says why
		}
		n.ledger.cfg.Logger.WarnContext(ctx, "payload copies again", "subscription", n.spec.Name, "try", try+1, "error", redact(last))
	}
}

func (n *Namespace) copy(ctx context.Context, c *Claim, group []Copy) (stored int, fenced bool, err error) {
	conn, err := n.ledger.hot.Acquire(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		if err != nil && troubleOf(err) == oldPlan {
			discard(conn)
			return
		}
		abandon(conn)
	}()
	live := n.windows.Load().live
	byWindow := map[int32]rows{}
	for _, one := range group {
		w := c.windowOf(one.LaneSeq)
		if w == 0 {
			return 0, false, refusal{errors.New("a copy for an action that the claim never had")}
		}
		if !slices.Contains(live, w) {
			return 0, false, errRotated
		}
		cols := byWindow[w]
		if cols == nil {
			cols = rows{int32Column(len(group)), int64Column(len(group)), bytesColumn(len(group))}
			byWindow[w] = cols
		}
		cols[0].int32(c.ID)
		cols[1].int64(one.LaneSeq)
		cols[2].bytes(one.Packed)
	}
	p := &pipeline{conn: conn}
	if err = p.add(ctx, begin, nil); err != nil {
		return 0, false, err
	}
	id, epoch, token := int32Column(1), int64Column(1), uuidColumn(1)
	id.int32(c.ID)
	epoch.int64(c.Epoch)
	token.uuid(c.Token)
	held := [][]byte{id.param(), epoch.param(), token.param()}
	fenced = true
	if err = p.add(ctx, fenceCheck, func(*row) { fenced = false }, held...); err != nil {
		return 0, false, err
	}
	for _, w := range slices.Sorted(maps.Keys(byWindow)) {
		if err = p.add(ctx, copyUpdate(w), func(*row) { stored++ }, byWindow[w].params(held...)...); err != nil {
			return 0, false, err
		}
	}
	if err = p.add(ctx, commit, nil); err != nil {
		return 0, false, err
	}
	if err = p.run(ctx); err != nil {
		return 0, false, err
	}
	return stored, fenced, nil
}

// copyUpdate changes no column of an index: where the page has room, and large copies take none of it, it is a HOT update.
func copyUpdate(window int32) statement {
	return newStatement(strings.ReplaceAll(`-- copyUpdate: one probe of actions_w{w}_lane per copy
UPDATE actions_w{w} a SET packed = u.packed
FROM `+zip(4, "fence int", "lane_seq bigint", "packed bytea")+`
WHERE a.fence = u.fence AND a.lane_seq = u.lane_seq AND a.status <> 'done' AND a.packed IS NULL
  AND u.fence = ANY (ARRAY(`+fencesHeld+`))
RETURNING a.lane_seq`, "{w}", strconv.Itoa(int(window))))
}
