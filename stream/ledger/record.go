package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
)

const (
	maxErrorText = 4 << 10
	maxResponse  = 4 << 10
	// laneLowEvery is how many finished actions the mark of a claim may lag behind: a claim reads that many for nothing.
	laneLowEvery = 8192
)

// Record writes results in one transaction. Results of claims that are fenced are left out and their claim ids
// returned. It retries until ctx ends; recording a result again changes nothing. It may be called while the claim's
// owner applies.
func (n *Namespace) Record(ctx context.Context, results []Result) (fenced map[int32]bool, err error) {
	op := "record results of " + n.spec.Name
	for _, r := range results {
		if err := r.validate(); err != nil {
			return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
		}
	}
	if len(results) == 0 {
		return nil, nil
	}
	for i, claims := 1, claimsOf(results); i < len(claims); i++ {
		if claims[i].ID == claims[i-1].ID { // the fence would be found held, by one of them
			return nil, schemas.Errorf(schemas.Invalid, op, "two claims of one fence, epochs %d and %d", claims[i-1].Epoch, claims[i].Epoch)
		}
	}
	var last error
	for try, refreshed := 0, 0; ; try++ {
		if err := backoff(ctx, try); err != nil {
			return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(err, redact(last))}
		}
		fenced, err := n.record(ctx, results)
		if err == nil {
			return fenced, nil
		}
		last = err
		switch t := troubleOf(err); {
		case ctx.Err() != nil:
			return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
		case t == oldWindows && refreshed < maxRefresh:
			refreshed++
			_ = n.loadWindows(ctx) // where it fails, the next try does too, and says why
		case t == permanent, t == badData, t == oldWindows:
			return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: redact(err)}
		}
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger results again", "subscription", n.spec.Name, "try", try+1, "error", redact(err))
	}
}

func (r Result) validate() error {
	switch {
	case r.Claim == nil:
		return errors.New("a result has no claim")
	case r.LaneSeq <= 0:
		return fmt.Errorf("lane_seq %d is not positive", r.LaneSeq)
	case !slices.Contains([]Status{Done, Failed, Dead, Unknown, Held}, r.Status):
		return fmt.Errorf("status %q is no result", r.Status)
	case r.Attempt < 0 || r.Attempt > math.MaxInt32:
		return fmt.Errorf("attempt %d", r.Attempt)
	case r.NextIn < 0:
		return fmt.Errorf("next attempt in %s", r.NextIn)
	}
	return nil
}

// resultRows are the columns for one window's actions and attempts.
type resultRows struct{ done, finish, attempts rows }

func newResultRows(n int) *resultRows {
	return &resultRows{
		done: rows{int32Column(n), int64Column(n), int32Column(n), int32Column(n), bytesColumn(n)},
		finish: rows{int32Column(0), int64Column(0), textColumn(0), int32Column(0), int64Column(0), textColumn(0), int32Column(0), int32Column(0),
			textColumn(0), bytesColumn(0), bytesColumn(0)},
		attempts: rows{int32Column(0), int64Column(0), textColumn(0), int32Column(0), textColumn(0),
			int32Column(0), int32Column(0), textColumn(0), bytesColumn(0)},
	}
}

func (n *Namespace) record(ctx context.Context, results []Result) (map[int32]bool, error) {
	conn, err := n.ledger.hot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && troubleOf(err) == oldPlan {
			discard(conn)
			return
		}
		abandon(conn)
	}()
	win := n.windows.Load()
	claims := claimsOf(results)
	fenced := map[int32]bool{}
	p := &pipeline{conn: conn}
	if err = p.add(ctx, begin, nil); err != nil {
		return nil, err
	}
	ids, epochs, tokens := int32Column(len(claims)), int64Column(len(claims)), uuidColumn(len(claims))
	for _, c := range claims {
		fenced[c.ID] = true
		ids.int32(c.ID)
		epochs.int64(c.Epoch)
		tokens.uuid(c.Token)
	}
	held := [][]byte{ids.param(), epochs.param(), tokens.param()}
	err = p.add(ctx, fenceCheck, func(r *row) { delete(fenced, r.int32()) }, held...)
	if err != nil {
		return nil, err
	}
	if err = n.addResults(ctx, p, win, results, held); err != nil {
		return nil, err
	}
	lows, err := n.addLaneLow(ctx, p, win, claims, results)
	if err != nil {
		return nil, err
	}
	if err = p.add(ctx, commit, nil); err != nil {
		return nil, err
	}
	if err = p.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range lows {
		c.finished.Store(0)
	}
	return fenced, nil
}

// claimsOf are the claims of results, each once, sorted.
func claimsOf(results []Result) []*Claim {
	var claims []*Claim
	seen := map[*Claim]bool{}
	for i := range results {
		if c := results[i].Claim; !seen[c] {
			seen[c] = true
			claims = append(claims, c)
		}
	}
	return claimsSorted(claims)
}

func claimsSorted(claims []*Claim) []*Claim {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b *Claim) int { return int(a.ID) - int(b.ID) })
	return claims
}

func (n *Namespace) addResults(ctx context.Context, p *pipeline, win *windowSet, results []Result, held [][]byte) error {
	byWindow := map[int32]*resultRows{}
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b Result) int {
		if a.Claim.ID != b.Claim.ID {
			return int(a.Claim.ID) - int(b.Claim.ID)
		}
		return int(a.LaneSeq - b.LaneSeq)
	})
	for i := range sorted {
		window := sorted[i].Claim.windowOf(sorted[i].LaneSeq)
		rr := byWindow[window]
		if rr == nil {
			rr = newResultRows(len(results))
			byWindow[window] = rr
		}
		// Two results of one action in one group: the last one is the action's, an UPDATE would take either.
		if i+1 == len(sorted) || sorted[i+1].Claim != sorted[i].Claim || sorted[i+1].LaneSeq != sorted[i].LaneSeq {
			rr.action(&sorted[i])
		}
		rr.attempt(&sorted[i])
	}
	for _, window := range slices.Sorted(maps.Keys(byWindow)) { // lock order: windows, and in them lanes, ascend
		rr := byWindow[window]
		finish, ok := win.q.finish[window]
		if !ok {
			if window == 0 {
				return refusal{errors.New("a result of an action that the claim never had")}
			}
			return errRotated
		}
		for _, step := range []struct {
			s    statement
			rows rows
		}{{win.q.done[window], rr.done}, {finish, rr.finish}, {win.q.attempt[window], rr.attempts}} {
			if step.rows.n() == 0 {
				continue
			}
			if err := p.add(ctx, step.s, nil, step.rows.params(held...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rr *resultRows) action(r *Result) {
	if r.Status == Done && r.Attempt == 1 && r.Class == "" && r.Error == "" {
		c := rr.done
		c[0].int32(r.Claim.ID)
		c[1].int64(r.LaneSeq)
		c[2].int32(int32(r.Code))
		c[3].int32(microseconds(r.Latency))
		c[4].bytes(response(r))
		return
	}
	c := rr.finish
	c[0].int32(r.Claim.ID)
	c[1].int64(r.LaneSeq)
	c[2].text(string(r.Status))
	c[3].int32(int32(r.Attempt))
	c[4].int64(r.NextIn.Microseconds())
	c[5].text(clean(r.Class, 40))
	c[6].int32(int32(r.Code))
	c[7].int32(microseconds(r.Latency))
	c[8].text(clean(r.Error, maxErrorText))
	c[9].bytes(response(r))
	if r.Status == Done {
		c[10].null()
	} else {
		c[10].bytes(r.Packed)
	}
}

// attempt adds a row for an attempt, unless it is a first one that simply succeeded.
func (rr *resultRows) attempt(r *Result) {
	if r.Attempt == 0 || r.Attempt == 1 && r.Status == Done {
		return
	}
	c := rr.attempts
	c[0].int32(r.Claim.ID)
	c[1].int64(r.LaneSeq)
	c[2].text(string(r.Status))
	c[3].int32(int32(r.Attempt))
	c[4].text(clean(r.Class, 40))
	c[5].int32(int32(r.Code))
	c[6].int32(microseconds(r.Latency))
	c[7].text(clean(r.Error, maxErrorText))
	c[8].bytes(response(r))
}

func response(r *Result) []byte {
	if len(r.Response) == 0 {
		return nil
	}
	return r.Response[:min(len(r.Response), maxResponse)]
}

func microseconds(d time.Duration) int32 {
	return int32(min(max(d.Microseconds(), 0), math.MaxInt32))
}

// addLaneLow moves the mark of the claims that have finished enough since it was moved last.
func (n *Namespace) addLaneLow(ctx context.Context, p *pipeline, win *windowSet, claims []*Claim, results []Result) ([]*Claim, error) {
	highest, count := map[*Claim]int64{}, map[*Claim]int64{}
	for i := range results {
		highest[results[i].Claim] = max(highest[results[i].Claim], results[i].LaneSeq)
		count[results[i].Claim]++
	}
	var moved []*Claim
	for _, c := range claims {
		if c.finished.Add(count[c]) < laneLowEvery {
			continue
		}
		moved = append(moved, c)
		if err := p.add(ctx, win.q.laneLow, nil, int32Param(c.ID), int64Param(highest[c]+1)); err != nil {
			return nil, err
		}
	}
	return moved, nil
}

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
	rows, err := n.ledger.hot.Query(ctx, openRead, c.ID, after, limit+1, n.id, maxCopies)
	if err == nil {
		actions, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (Action, error) { return n.scanOpen(r, c) })
	}
	if err != nil {
		return nil, false, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	if len(actions) > limit {
		return actions[:limit], true, nil
	}
	return actions, false, nil
}

// openRead walks the keys of the live windows from the mark up, and the held ones through their own index.
const openRead = `-- openRead: Append of index scans, merged by lane_seq; runtime pruning finds the event's window
WITH mark AS (SELECT greatest(lane_low, $2::bigint + 1) AS low FROM progress WHERE fence = $1),
live AS (SELECT id FROM windows WHERE subscription = $4 AND state <> 'ahead'),
found AS (
    (SELECT a.lane_seq, a.window_id FROM live JOIN actions a ON a.window_id = live.id
      WHERE a.fence = $1 AND a.lane_seq >= (SELECT low FROM mark) AND a.status = 'pending' ORDER BY a.lane_seq LIMIT $3)
    UNION ALL
    (SELECT a.lane_seq, a.window_id FROM live JOIN actions a ON a.window_id = live.id JOIN effects x ON x.id = a.effect
      WHERE a.fence = $1 AND a.lane_seq > $2 AND a.held AND (a.status <> 'dead_letter' OR x.on_dead = 'park')
      ORDER BY a.lane_seq LIMIT $3)
    ORDER BY lane_seq LIMIT $3
)
SELECT a.lane_seq, a.status, a.attempts, a.first_at,
       greatest(0, coalesce(extract(epoch FROM a.next_at - now()) * 1000000, 0))::bigint, coalesce(octet_length(a.packed), 0) > 0,
       CASE WHEN row_number() OVER upto = 1 OR sum(octet_length(a.packed)) OVER upto <= $5 THEN a.packed END,
       x.name, x.destination, x.on_dead, e.entity, e.clock, e.kind, e.epoch, e.value, e.sub, e.decision, e.reason,
       e.log_offset, e.leader_epoch, e.event_key, e.hash, e.source, e.event_id, e.type
FROM found JOIN actions a ON a.window_id = found.window_id AND a.fence = $1 AND a.lane_seq = found.lane_seq
JOIN effects x ON x.id = a.effect
JOIN events e ON e.window_id = a.event_window AND e.event_key = a.event_key
WINDOW upto AS (ORDER BY a.lane_seq)
ORDER BY a.lane_seq`

func (n *Namespace) scanOpen(r pgx.CollectableRow, c *Claim) (Action, error) {
	a := Action{Claim: c.ID, Record: -1}
	p := &a.Pointer
	var (
		first           *time.Time
		wait            int64
		decision        string
		key, hash       [16]byte
		name, eventType string
	)
	err := r.Scan(&a.LaneSeq, &a.Status, &a.Attempts, &first, &wait, &a.HasCopy, &a.Packed, &name, &a.Destination, &a.OnDead,
		&a.Entity, &a.Version.Clock, &a.Version.Kind, &a.Version.Epoch, &a.Version.Value, &a.Version.Sub, &decision, &a.Reason,
		&p.Offset, &p.LeaderEpoch, &key, &hash, &a.Source, &a.EventID, &eventType)
	if err != nil {
		return a, err
	}
	if first != nil {
		a.FirstAt = *first
	}
	a.Name, a.EventType, a.NextIn, a.Late = name, eventType, time.Duration(wait)*time.Microsecond, decision == "late"
	a.ID = schemas.NewActionID(n.spec.Name, n.spec.Generation, a.Source, a.EventID, name)
	p.TopicID, p.Topic, p.Partition, p.Key, p.Hash = c.Partition.TopicID, c.Partition.Topic, c.Partition.Number, key, hash
	return a, nil
}

// NextDeadline is how long until the first gap of each claim may expire by the database's clock, for claims that have
// one (negative when overdue). Expire then ends only what was overdue at this moment, so that the caller can observe
// the end of the log in between.
func (n *Namespace) NextDeadline(ctx context.Context, claims []*Claim) (map[int32]time.Duration, error) {
	ids := make([]int32, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
	}
	rows, err := n.ledger.hot.Query(ctx, `-- nextDeadline: one step into buffer_by_deadline per fence
SELECT c.id, (extract(epoch FROM b.deadline - now()) * 1000000)::bigint, now() FROM unnest($1::int[]) AS c(id)
CROSS JOIN LATERAL (SELECT deadline FROM buffer WHERE fence = c.id AND deadline IS NOT NULL ORDER BY fence, deadline LIMIT 1) b`, ids)
	out := map[int32]time.Duration{}
	if err == nil {
		var (
			id int32
			us int64
			at time.Time
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &us, &at}, func() error {
			out[id] = time.Duration(us) * time.Microsecond
			for _, c := range claims {
				if c.ID == id {
					c.overdueAt = pgTime(at)
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read the deadlines of " + n.spec.Name, Err: redact(err)}
	}
	return out, nil
}
