package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// claimState is what a claim carries besides its fence.
type claimState struct {
	policy gate.Policy // the partition's share of the subscription's

	// Of a topic that was created again: its former id, which actions below lanesFrom still have, and the offset below which
	// there may be rejected records of the former topic. See inherit.
	former    TopicID
	lanesFrom int64
	places    int64

	copyOf   *[16]byte // in a copy of a topic: the topic's id; see moveWaiting
	copyVoid bool      // nobody may go on in this copy; see checkCopies
	copyEnds []int64   // where the topic ended, by partition
	restore  bool      // a try of this claim has found that a line is gone

	// Owned by the goroutine that applies.
	laneSeq  int64 // next lane_seq to give
	revision int64 // of progress, as the last batch left it
	buffered int   // events of the partition that wait with a deadline
	bytes    int64 // of their copies
	waiting  int   // rows of the partition in the buffer, parked ones included
	// overdueAt is the database's clock, in Postgres microseconds, when NextDeadline last found a deadline; 0 before.
	// Expire ends no wait that became overdue later: the end of the log was not observed after it (P5).
	overdueAt      int64
	cache          *lineCache
	dirty          dirtyLines
	foldedInWindow int32 // the window that was current when no event of an earlier one was left to fold
	forgotIn       int32 // the window in which ForgetLines last found nothing more

	// Shared with those who record results.
	mu    sync.Mutex
	spans []laneSpan // ascending: which window an action belongs to
	marks laneMarks
}

// laneSpan says that actions from lane_seq on belong to a window, until the next span begins.
type laneSpan struct {
	from   int64
	window int32
}

// windowOf is the window that an action belongs to; 0 where the claim never had such an action. The caller holds mu.
func (c *Claim) windowOf(laneSeq int64) int32 {
	if laneSeq >= c.marks.given {
		return 0
	}
	for _, v := range slices.Backward(c.spans) {
		if v.from <= laneSeq {
			return v.window
		}
	}
	return 0
}

// low is the lane_seq below which every action has ended or has a row.
func (c *Claim) low() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks.low
}

// extend notes that the lane_seqs from (included) to to (excluded) were given and belong to window. rows are those that have
// a row.
func (c *Claim) extend(from, to int64, window int32, rows []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spans); n == 0 || c.spans[n-1].window != window {
		c.spans = append(c.spans, laneSpan{from, window})
	}
	c.marks.given = to
	for _, s := range rows {
		b, i := c.marks.at(s)
		b.withRow.set(i)
		c.marks.markRecorded(s)
	}
}

// Claim takes the fence of a partition; see ClaimRequest. Errors of ClaimRequest.Confirm come back as they are (errors.Is and
// errors.As find them). It waits for the transactions that hold the fence until ctx ends. Kinds: Invalid where the request is not
// whole, Conflict where the topic is not the one that the ledger knows or the ledger has lost a version line, Unavailable where the
// database is away, and Internal.
func (n *Namespace) Claim(ctx context.Context, req ClaimRequest) (*Claim, error) {
	op := fmt.Sprintf("claim %s/%d for %s", req.Partition.Topic, req.Partition.Number, n.spec.Name)
	if err := req.validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	c := &Claim{Partition: req.Partition}
	c.policy = n.spec.Policy.Share(int(req.Partitions))
	if _, err := rand.Read(c.Token[:]); err != nil {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	c.cache = newLineCache(n.spec.CacheLines)
	err := n.claimOnce(ctx, c, req)
	for try, missed := 1, false; err != nil && (retryClaim(err) || pg.IsMissed(err) && !missed) && pg.Backoff(ctx, try) == nil; try++ {
		missed = missed || pg.IsMissed(err)
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger claim failed; trying again", "subscription", n.spec.Name, "topic", req.Partition.Topic,
			"partition", req.Partition.Number, "error", pg.Redact(err))
		*c = Claim{Partition: c.Partition, Token: c.Token, claimState: claimState{policy: c.policy, cache: newLineCache(n.spec.CacheLines), restore: missed}}
		err = n.claimOnce(ctx, c, req)
	}
	if err == nil || n.holds(ctx, c, err) { // the COMMIT whose answer was lost may have succeeded
		n.recent.askForAll() // for all keys at first: other processes have seen the partition's events, and this one does not know which
		return c, nil
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return nil, err
	}
	if confirm, ok := errors.AsType[confirmError](err); ok {
		return nil, confirm.error
	}
	if pg.IsMissed(err) { // another attempt would find the same
		return nil, &schemas.Error{Kind: schemas.Conflict, Op: op, Err: fmt.Errorf("%w: a row that the claim needs can be neither found nor made again, and nothing was changed; "+
			"it is tried again every few seconds. Look for what keeps rows from being written (a trigger, a rule, a policy on the ledger's tables), or restore the ledger from a backup", err)}
	}
	return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
}

// retryClaim reports whether a failed claim is tried again: the fence was locked for longer than the server lets it wait, or
// the connection hung. After a COMMIT without an answer, holds looks instead.
func retryClaim(err error) bool {
	if _, doubt := errors.AsType[inDoubtError](err); doubt {
		return false
	}
	if _, ok := errors.AsType[confirmError](err); ok {
		return false
	}
	return pg.IsSilent(err) || pg.Locked(err)
}

// claimOnce runs the transaction. Claims have half of the connections: each holds one for as long as Kafka takes to
// confirm it, and the partitions that run need theirs meanwhile.
func (n *Namespace) claimOnce(ctx context.Context, c *Claim, req ClaimRequest) error {
	select {
	case n.ledger.claiming <- struct{}{}:
		defer func() { <-n.ledger.claiming }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := n.ledger.hot.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pg.Abandon(conn)
	tx, err := n.ledger.hot.BeginOn(ctx, conn)
	if err != nil {
		return err
	}
	if err := n.claim(ctx, tx, c, req); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return inDoubtError{err}
	}
	return nil
}

// inDoubtError marks an error of COMMIT.
type inDoubtError struct{ error }

func (e inDoubtError) Unwrap() error { return e.error }

func (r ClaimRequest) validate() error {
	switch {
	case r.Partition.Topic == "" || r.Partition.TopicID == TopicID{}:
		return errors.New("topic or topic id is missing")
	case r.Partition.Number < 0 || r.Partition.Number >= r.Partitions:
		return fmt.Errorf("partition %d of %d", r.Partition.Number, r.Partitions)
	case r.Confirm == nil:
		return errors.New("confirm is missing")
	}
	return nil
}

// confirmError marks what Confirm returned.
type confirmError struct{ error }

func (n *Namespace) claim(ctx context.Context, tx *pg.Tx, c *Claim, req ClaimRequest) error {
	if err := n.checkTopic(ctx, tx, req); err != nil {
		return err
	}
	inherited, err := n.inherit(ctx, tx, c)
	if err != nil {
		return err
	}
	if err := n.lockFence(ctx, tx, c); err != nil {
		return err
	}
	if err := n.checkCopies(ctx, tx, c); err != nil {
		return err
	}
	if err := n.restoreMissing(ctx, tx, c); err != nil {
		return err
	}
	if inherited {
		if err := tx.Unbounded(ctx); err != nil {
			return err
		}
		if err := startAtZero(ctx, tx, c); err != nil {
			return err
		}
	}
	stored, err := readPosition(ctx, tx, c)
	if err != nil {
		return err
	}
	standing, err := n.readStanding(ctx, tx, c)
	if err != nil {
		return err
	}
	if inherited { // nothing is stored of the new topic yet
		stored, standing.Epoch = nil, 0
	}
	if req.Standing != nil {
		req.Standing(standing)
	}
	start, err := confirm(ctx, tx, n.ledger.db.Deadlines().Idle(), req.Confirm, stored)
	if err != nil {
		return err
	}
	if err := checkStart(stored, start); err != nil {
		return err
	}
	c.Next, c.Seek = start.Position, start.Seek
	if err := n.take(ctx, tx, c); err != nil {
		return err
	}
	if err := n.endStop(ctx, tx, c, standing.Stop, start.Accepted); err != nil {
		return err
	}
	if err := moveWaiting(ctx, tx, c); err != nil {
		return err
	}
	return n.loadClaim(ctx, tx, c)
}

// checkTopic refuses, with a TopicError, a topic that was created again, until that is accepted, and a topic with another
// number of partitions than recorded. Positions belong to a topic id: a new topic has none.
func (n *Namespace) checkTopic(ctx context.Context, tx pgx.Tx, req ClaimRequest) error {
	op := fmt.Sprintf("claim %s/%d for %s", req.Partition.Topic, req.Partition.Number, n.spec.Name)
	_, err := tx.Exec(ctx, `INSERT INTO topics (subscription, topic, topic_id, partitions) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, n.id, req.Partition.Topic, [16]byte(req.Partition.TopicID), req.Partitions)
	if err != nil {
		return err
	}
	var id [16]byte
	e := TopicError{Topic: req.Partition.Topic, ID: req.Partition.TopicID, Count: req.Partitions}
	err = tx.QueryRow(ctx, `SELECT topic_id, partitions FROM topics WHERE subscription = $1 AND topic = $2`,
		n.id, req.Partition.Topic).Scan(&id, &e.Counts)
	e.Known = id
	switch {
	case err != nil:
		return err
	case e.Recreated():
		return n.adoptRecreatedTopic(ctx, tx, req, &e, op)
	case e.Count != e.Counts:
		return &schemas.Error{Kind: schemas.Conflict, Op: op, Err: &e}
	}
	return nil
}

// lockFence waits for the fence's row and reads it. From here on the former owner commits no batch.
func (n *Namespace) lockFence(ctx context.Context, tx pgx.Tx, c *Claim) error {
	p := c.Partition
	_, err := tx.Exec(ctx, `INSERT INTO fences (subscription, topic, topic_id, partition) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, n.id, p.Topic, [16]byte(p.TopicID), p.Number)
	if err != nil {
		return err
	}
	var (
		released bool
		former   *[16]byte
	)
	err = tx.QueryRow(ctx, `SELECT id, epoch, released, doubt_to, former, lanes_from, places, copy_of, copy_void, copy_ends FROM fences
		WHERE subscription = $1 AND topic_id = $2 AND partition = $3 FOR UPDATE`,
		n.id, [16]byte(p.TopicID), p.Number).Scan(&c.ID, &c.Epoch, &released, &c.DoubtTo, &former, &c.lanesFrom, &c.places, &c.copyOf, &c.copyVoid, &c.copyEnds)
	if err != nil {
		return err
	}
	if former != nil {
		c.former = *former
	}
	c.Unclean = c.Epoch > 0 && !released
	c.Epoch++
	return nil
}

// readPosition reads what the ledger stored, after the lock; nil on the first claim.
func readPosition(ctx context.Context, tx pgx.Tx, c *Claim) (*Position, error) {
	var p Position
	c.laneSeq = 1
	err := tx.QueryRow(ctx, `SELECT next_offset, leader_epoch, next_lane_seq, revision FROM progress WHERE fence = $1`,
		c.ID).Scan(&p.Offset, &p.LeaderEpoch, &c.laneSeq, &c.revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// checkStart refuses a start of Confirm that moves the position without a seek.
func checkStart(stored *Position, start Start) error {
	const op = "claim"
	switch {
	case start.Position.Offset < 0:
		return schemas.Errorf(schemas.Internal, op, "start at negative offset %d", start.Position.Offset)
	case start.Seek == nil && stored != nil && stored.Offset != start.Position.Offset:
		return schemas.Errorf(schemas.Internal, op, "start at %d without a seek, the ledger's next offset is %d",
			start.Position.Offset, stored.Offset)
	case start.Seek != nil && (stored == nil || start.Seek.From != stored.Offset || start.Seek.To != start.Position.Offset):
		return schemas.Errorf(schemas.Internal, op, "seek %+v does not lead from the ledger's position to %d",
			*start.Seek, start.Position.Offset)
	}
	return nil
}

// take writes the new owner, the doubt about the former one, the position and the seek.
func (n *Namespace) take(ctx context.Context, tx pgx.Tx, c *Claim) error {
	if c.Unclean {
		c.DoubtTo = c.laneSeq
	}
	var doubt *int64
	err := tx.QueryRow(ctx, `UPDATE fences SET epoch = $2, token = $3, owner = $4, claimed_at = now(), released = false,
		doubt_to = $5, doubt_at = CASE WHEN $6 THEN clock_timestamp() ELSE doubt_at END
		WHERE id = $1 RETURNING (extract(epoch FROM clock_timestamp() - doubt_at) * 1000000)::bigint`, c.ID, c.Epoch, c.Token, pg.Clean(n.spec.Owner, 200), c.DoubtTo, c.Unclean).Scan(&doubt)
	if err != nil {
		return err
	}
	if doubt != nil {
		c.DoubtAt = ago(*doubt)
	}
	c.revision++
	err = exactly(tx.Exec(ctx, `INSERT INTO progress (fence, next_offset, leader_epoch, high_offset, revision)
		VALUES ($1, $2, $3, $2, $4) ON CONFLICT (fence) DO UPDATE SET next_offset = EXCLUDED.next_offset,
		leader_epoch = EXCLUDED.leader_epoch, high_offset = greatest(progress.high_offset, EXCLUDED.next_offset),
		revision = EXCLUDED.revision, updated_at = now()`, c.ID, c.Next.Offset, c.Next.LeaderEpoch, c.revision))
	if err != nil || c.Seek == nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO seeks (fence, from_offset, to_offset, epoch, owner) VALUES ($1, $2, $3, $4, $5)`,
		c.ID, c.Seek.From, c.Seek.To, c.Epoch, pg.Clean(n.spec.Owner, 200))
	return err
}

// restoreMissing makes the lines again that an earlier try of this claim has found gone, and says so.
func (n *Namespace) restoreMissing(ctx context.Context, tx *pg.Tx, c *Claim) error {
	if !c.restore {
		return nil
	}
	if err := tx.Unbounded(ctx); err != nil {
		return err
	}
	made, err := n.restoreLines(ctx, tx, c.ID)
	if err == nil && made > 0 {
		n.ledger.cfg.Logger.ErrorContext(ctx, "version lines were gone from the ledger and are made again from their events; who deleted them?",
			"subscription", n.spec.Name, "topic", c.Partition.Topic, "partition", c.Partition.Number, "lines", made)
	}
	return err
}

// loadClaim reads the gate's and the lanes' state of the partition.
func (n *Namespace) loadClaim(ctx context.Context, tx pgx.Tx, c *Claim) error {
	if err := foldLines(ctx, tx, c.ID); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE decision = 'buffered'),
		coalesce(sum(octet_length(packed)) FILTER (WHERE decision = 'buffered'), 0)
		FROM buffer WHERE fence = $1 AND decision <> 'held'`, c.ID).Scan(&c.waiting, &c.buffered, &c.bytes)
	if err != nil {
		return err
	}
	// Under the lock: the former owner may have written into a window that was opened while this claim waited.
	if err := n.readWindows(ctx, tx); err != nil {
		return err
	}
	win := n.windows.Load()
	c.foldedInWindow = win.current
	if err := lowerPlaces(ctx, tx, win, c); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, win.q.laneFirst.SQL, c.ID)
	if err != nil {
		return err
	}
	var (
		window int32
		from   int64
	)
	_, err = pgx.ForEachRow(rows, []any{&window, &from}, func() error {
		c.spans = append(c.spans, laneSpan{from, window})
		return nil
	})
	if err != nil {
		return err
	}
	return loadMarks(ctx, tx, win, c)
}

const marksRead = `-- marksRead
SELECT c.bucket, c.lanes, true FROM {completions} c WHERE c.fence = $1 AND c.bucket >= $2::bigint >> 10
UNION ALL SELECT a.lane_seq >> 10, ARRAY[(a.lane_seq & 1023)::smallint], false FROM {actions} a WHERE a.fence = $1 AND a.lane_seq >= $2`

// loadMarks reads which actions from lane_low on have ended or have a row.
func loadMarks(ctx context.Context, tx pgx.Tx, win *windowSet, c *Claim) error {
	m := &c.marks
	*m = laneMarks{low: 1, given: c.laneSeq, buckets: map[int64]*laneBucket{}}
	err := tx.QueryRow(ctx, `SELECT lane_low FROM progress WHERE fence = $1`, c.ID).Scan(&m.low)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, win.own(marksRead), c.ID, m.low)
	if err != nil {
		return err
	}
	var (
		bucket int64
		lanes  []int16
		ended  bool
	)
	_, err = pgx.ForEachRow(rows, []any{&bucket, &lanes, &ended}, func() error {
		for _, lane := range lanes {
			s := bucket<<bucketBits | int64(lane)
			if s < m.low {
				continue
			}
			b, i := m.at(s)
			if ended {
				b.ended.set(i)
			} else {
				b.withRow.set(i)
			}
			m.markRecorded(s)
		}
		return nil
	})
	m.savedLow = m.low
	m.advance()
	m.unsaved = 0
	return err
}

// holds finds out after an unknown COMMIT of a claim whether it happened. cause is why the claim failed.
func (n *Namespace) holds(ctx context.Context, c *Claim, cause error) bool {
	if _, ok := errors.AsType[inDoubtError](cause); !ok || !pg.Unanswered(cause) {
		return false
	}
	var mine bool
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		// The lock waits for the transaction in doubt.
		return tx.QueryRow(ctx, `SELECT coalesce(token = $2, false) FROM fences WHERE id = $1 FOR UPDATE`, c.ID, c.Token).Scan(&mine)
	})
	return err == nil && mine
}

// Release gives the fence back after a drain, so that the next claim is clean; c.DoubtTo goes to it. Not an error when fenced
// already.
func (n *Namespace) Release(ctx context.Context, c *Claim) error {
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH held AS (UPDATE fences SET released = true, doubt_to = $5 WHERE id = $1 AND epoch = $2 AND token = $3 RETURNING id),
			hit AS (UPDATE progress p SET lane_low = greatest(p.lane_low, $4) FROM held WHERE p.fence = held.id RETURNING 1)
			SELECT 1 / (count(*) = (SELECT count(*) FROM held))::int FROM hit`,
			c.ID, c.Epoch, c.Token, c.low(), c.DoubtTo)
		return pg.OrMissed("release", err)
	})
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "release the fence of " + c.Partition.Topic, Err: pg.Redact(err)}
	}
	return nil
}
