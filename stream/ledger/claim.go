package ledger

// A claim is one transaction. Kafka is asked in the middle of it, so each statement has a deadline of its own. Its steps:
//
//	checkTopic    the topic is the recorded one, or is recorded now              topics
//	inherit       a topic that was created again gets the former one's fence     fences: locked, written (recreated.go)
//	lockFence     the former owner's transactions end first                      fences: locked
//	notMoved      the subscription has not gone to another ledger                moves (move.go)
//	checkCopies   of a topic and its copy one is read, never both                fences of copies: locked, written (checkcopies.go)
//	restoreLines  after a try that found a version line gone: it is made again   version_lines, events (dirtylines.go)
//	readPosition  where the partition stands, ...                                progress
//	readStanding  ... what stops it, is asked of it, and what dedupe remembers   stops, progress, windows, seek_requests (standing.go)
//	confirm       Kafka: this process owns the partition; where it starts        (confirm.go)
//	take          the new owner, the position, the seek                          fences, progress, seeks
//	endSeek       what an operator asked for is done                             seek_requests (seekrequests.go)
//	endStop       a stop that was accepted, or was left behind, ends             stops (standing.go)
//	moveWaiting   what waits in the topic that this one is a copy of comes here  buffer, events, commands, backfills (movewaiting.go)
//	load          what the gate and the lanes go on with                         version_lines, buffer, windows, actions, completions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// claimTx is that transaction.
type claimTx struct {
	n   *Namespace
	req ClaimRequest
	op  string

	restore bool // a try has found that a version line is gone: the next one makes it again

	tx *pg.Tx
	c  *Claim // as far as it is known; another one for each try
}

// Claim takes the fence of a partition; see ClaimRequest. It waits for the transactions that hold the fence until ctx ends. Errors of
// ClaimRequest.Confirm come back as they are (errors.Is and errors.As find them). Kinds otherwise: Invalid if the request is incomplete or
// contradicts itself, Conflict if the topic is not the one that the ledger knows, the partition belongs to a copy or an original that must
// not be read now, or a row that must be there is gone; Internal if Confirm's start does not fit the stored position, Unavailable.
func (n *Namespace) Claim(ctx context.Context, req ClaimRequest) (*Claim, error) {
	t := &claimTx{n: n, req: req, op: fmt.Sprintf("claim %s/%d for %s", req.Partition.Topic, req.Partition.Number, n.spec.Name)}
	if err := req.Validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: t.op, Err: err}
	}
	err := t.attempt(ctx)
	for try := 1; err != nil && t.mayRetry(err) && pg.Backoff(ctx, try) == nil; try++ {
		t.restore = t.restore || pg.IsMissed(err)
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger claim failed; trying again", "subscription", n.spec.Name, "topic", req.Partition.Topic,
			"partition", req.Partition.Number, "error", pg.Redact(err))
		err = t.attempt(ctx)
	}
	if err == nil || t.committed(ctx, err) { // the COMMIT whose answer was lost may have succeeded
		n.recent.askForAll() // other processes have seen the partition's events, and this one does not know which
		return t.c, nil
	}
	return nil, t.failed(err)
}

// Validate refuses a request that is not whole.
func (r ClaimRequest) Validate() error {
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

// attempt makes one try of the transaction. Claims use half of the connections at most: each holds one for as long as Kafka takes to
// confirm the claim, and the partitions that run need some meanwhile.
func (t *claimTx) attempt(ctx context.Context) error {
	n := t.n
	t.c = &Claim{Partition: t.req.Partition, claimState: claimState{policy: n.spec.Share(int(t.req.Partitions)), cache: newLineCache(n.spec.CacheLines)}}
	rand.Read(t.c.Token[:])
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
	defer pg.RollbackAndRelease(conn)
	if t.tx, err = n.ledger.hot.BeginOn(ctx, conn); err != nil {
		return err
	}
	if err := t.run(ctx); err != nil {
		return err
	}
	if err := t.tx.Commit(ctx); err != nil {
		return inDoubtError{err}
	}
	return nil
}

// run is the transaction, from its first statement to COMMIT.
func (t *claimTx) run(ctx context.Context) error {
	if err := t.checkTopic(ctx); err != nil {
		return err
	}
	inherited, err := t.inherit(ctx)
	if err != nil {
		return err
	}
	if err := t.lockFence(ctx); err != nil {
		return err
	}
	// Whoever moves the subscription marks it under the fence's lock.
	if err := notMoved(ctx, t.tx, t.op, t.n.spec.Name); err != nil {
		return err
	}
	if err := t.checkCopies(ctx); err != nil {
		return err
	}
	if t.restore {
		if err := t.restoreLines(ctx); err != nil {
			return err
		}
	}
	if inherited {
		if err := t.startAtZero(ctx); err != nil {
			return err
		}
	}
	stored, err := t.readPosition(ctx)
	if err != nil {
		return err
	}
	standing, err := t.readStanding(ctx)
	if err != nil {
		return err
	}
	if inherited { // nothing is stored of the new topic yet
		stored, standing.Epoch = nil, 0
	}
	if t.req.Standing != nil {
		t.req.Standing(standing)
	}
	start, err := confirm(ctx, t.tx, t.n.ledger.db.Deadlines().Idle(), t.req.Confirm, stored)
	if err != nil {
		return err
	}
	if err := start.Check(stored); err != nil {
		return err
	}
	t.c.Next, t.c.Seek = start.Position, start.Seek
	if err := t.take(ctx); err != nil {
		return err
	}
	if err := t.endSeek(ctx, standing.SeekRequest, stored); err != nil {
		return err
	}
	if err := t.endStop(ctx, standing.Stop, start.Accepted); err != nil {
		return err
	}
	if err := t.moveWaiting(ctx); err != nil {
		return err
	}
	return t.load(ctx)
}

// checkTopic records a topic that the subscription has not had yet. It refuses, with a TopicError, a topic that was created again, until
// that is accepted, and a topic with another number of partitions than recorded. Positions belong to a topic id: a new topic has none.
func (t *claimTx) checkTopic(ctx context.Context) error {
	p, id := t.req.Partition, t.n.id
	_, err := t.tx.Exec(ctx, `INSERT INTO topics (subscription, topic, topic_id, partitions) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, id, p.Topic, [16]byte(p.TopicID), t.req.Partitions)
	if err != nil {
		return err
	}
	e := TopicError{Topic: p.Topic, ID: p.TopicID, Partitions: t.req.Partitions}
	err = t.tx.QueryRow(ctx, `SELECT topic_id, partitions FROM topics WHERE subscription = $1 AND topic = $2`, id, p.Topic).
		Scan((*[16]byte)(&e.Known), &e.KnownPartitions)
	switch {
	case err != nil:
		return err
	case e.Recreated():
		return t.adoptRecreatedTopic(ctx, &e)
	case e.Partitions != e.KnownPartitions:
		return &schemas.Error{Kind: schemas.Conflict, Op: t.op, Err: &e}
	}
	return nil
}

// lockFence makes the fence's row if there is none, waits for its lock and reads it into t.c. While the lock is held, the former owner
// commits nothing. t.c gets the epoch after the stored one, and Unclean if the former owner has not released; take writes them.
func (t *claimTx) lockFence(ctx context.Context) error {
	c, p := t.c, t.c.Partition
	// ON CONFLICT alone would use up an id with every claim, and a partition that stands still is claimed every few seconds.
	_, err := t.tx.Exec(ctx, `INSERT INTO fences (subscription, topic, topic_id, partition) SELECT $1::int, $2::text, $3::uuid, $4::int
		WHERE NOT EXISTS (SELECT FROM fences WHERE subscription = $1 AND topic_id = $3 AND partition = $4)
		ON CONFLICT DO NOTHING`, t.n.id, p.Topic, [16]byte(p.TopicID), p.Number)
	if err != nil {
		return err
	}
	var (
		released bool
		former   *[16]byte
	)
	err = t.tx.QueryRow(ctx, `SELECT id, epoch, released, doubt_to, former, lanes_from, places, copy_of, copy_void, copy_ends FROM fences
		WHERE subscription = $1 AND topic_id = $2 AND partition = $3 FOR UPDATE`, t.n.id, [16]byte(p.TopicID), p.Number).
		Scan(&c.ID, &c.Epoch, &released, &c.DoubtTo, &former, &c.lanesFrom, &c.rejectedBelow, &c.copyOf, &c.copyVoid, &c.copyEnds)
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

// readPosition returns the stored position, nil on the first claim, and reads the next lane_seq and the revision into t.c.
func (t *claimTx) readPosition(ctx context.Context) (*Position, error) {
	var p Position
	var revision int64
	t.c.laneSeq = 1
	err := t.tx.QueryRow(ctx, `SELECT next_offset, leader_epoch, next_lane_seq, revision FROM progress WHERE fence = $1`,
		t.c.ID).Scan(&p.Offset, &p.LeaderEpoch, &t.c.laneSeq, &revision)
	t.c.revision.Store(revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// Check refuses a start that moves the stored position without a seek.
func (start Start) Check(stored *Position) error {
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

// take writes the new owner, the doubt about the former one if that did not release, the position and the seek. After a seek back the
// partition counts as not processed until it has caught up: dedupe keeps the windows in which what is read again was decided.
func (t *claimTx) take(ctx context.Context) error {
	c, owner := t.c, pg.Clean(t.n.spec.Owner, 200)
	if c.Unclean {
		c.DoubtTo = c.laneSeq
	}
	var doubt *int64
	err := t.tx.QueryRow(ctx, `UPDATE fences SET epoch = $2, token = $3, owner = $4, claimed_at = now(), released = false,
		doubt_to = $5, doubt_at = CASE WHEN $6 THEN clock_timestamp() ELSE doubt_at END
		WHERE id = $1 RETURNING (extract(epoch FROM clock_timestamp() - doubt_at) * 1000000)::bigint`,
		c.ID, c.Epoch, c.Token, owner, c.DoubtTo, c.Unclean).Scan(&doubt)
	if err != nil {
		return err
	}
	if doubt != nil {
		c.DoubtAt = pg.Ago(*doubt)
	}
	c.revision.Add(1)
	back := c.Seek != nil && c.Seek.To < c.Seek.From
	err = exactly(t.tx.Exec(ctx, `INSERT INTO progress (fence, next_offset, leader_epoch, high_offset, revision)
		VALUES ($1, $2, $3, $2, $4) ON CONFLICT (fence) DO UPDATE SET next_offset = EXCLUDED.next_offset,
		leader_epoch = EXCLUDED.leader_epoch, high_offset = greatest(progress.high_offset, EXCLUDED.next_offset),
		processed_at = CASE WHEN $5 THEN '-infinity' ELSE progress.processed_at END,
		revision = EXCLUDED.revision, updated_at = now()`, c.ID, c.Next.Offset, c.Next.LeaderEpoch, c.revision.Load(), back))
	if err != nil || c.Seek == nil {
		return err
	}
	_, err = t.tx.Exec(ctx, `INSERT INTO seeks (fence, from_offset, to_offset, epoch, owner) VALUES ($1, $2, $3, $4, $5)`,
		c.ID, c.Seek.From, c.Seek.To, c.Epoch, owner)
	return err
}

// restoreLines makes version lines again whose rows are gone, and logs how many.
func (t *claimTx) restoreLines(ctx context.Context) error {
	if err := t.tx.Unbounded(ctx); err != nil {
		return err
	}
	made, err := restoreLines(ctx, t.tx, t.c.ID)
	if err == nil && made > 0 {
		t.n.ledger.cfg.Logger.ErrorContext(ctx, "version lines were gone from the ledger and are made again from their events; who deleted them?",
			"subscription", t.n.spec.Name, "topic", t.c.Partition.Topic, "partition", t.c.Partition.Number, "lines", made)
	}
	return err
}

// manyParked is how many parked events a claim counts. Where there are as many, it takes it that some wait as long as it lasts.
const manyParked = 10_000

// load brings the partition's state up to date and reads it: it writes the version lines that the former owner left unwritten, then
// reads how much waits in the gap buffer, the windows, below which offset a former topic's rejected records are, and which actions have
// ended. The claim holds the fence's lock: the former owner changes none of this any more.
func (t *claimTx) load(ctx context.Context) error {
	c := t.c
	if err := foldLines(ctx, t.tx, c.ID); err != nil {
		return err
	}
	// Events that are held for an operator do not wait for a gap to be filled, and are not counted.
	var parked int
	err := t.tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM (SELECT FROM buffer WHERE fence = $1 AND decision = 'parked' ORDER BY entity, clock LIMIT $2) p),
		count(*), coalesce(sum(octet_length(packed)), 0) FROM buffer WHERE fence = $1 AND deadline IS NOT NULL AND decision = 'buffered'`,
		c.ID, manyParked).Scan(&parked, &c.buffered, &c.bytes)
	if err != nil {
		return err
	}
	if parked == manyParked {
		parked = math.MaxInt32 / 2
	}
	c.waiting = parked + c.buffered
	// The windows are read again here, under the fence's lock: while this claim waited for it, another window may have been opened, and
	// the former owner may have written into it.
	win, err := t.n.windows.read(ctx, t.tx)
	if err != nil {
		return err
	}
	c.foldedInWindow = win.current
	if err := lowerPlaces(ctx, t.tx, win, c); err != nil {
		return err
	}
	if err := t.loadSpans(ctx, win); err != nil {
		return err
	}
	if err := t.asked(ctx); err != nil {
		return err
	}
	return loadMarks(ctx, t.tx, win, c)
}

// loadSpans reads into c.spans which window holds the claim's actions from which lane_seq on.
func (t *claimTx) loadSpans(ctx context.Context, win *windowSet) error {
	rows, err := t.tx.Query(ctx, win.q.laneFirst.SQL, t.c.ID)
	if err != nil {
		return err
	}
	var s laneSpan
	_, err = pgx.ForEachRow(rows, []any{&s.window, &s.from}, func() error {
		t.c.spans = append(t.c.spans, s)
		return nil
	})
	return err
}

const marksRead = `-- marksRead
SELECT c.bucket, c.lanes, true FROM {completions} c WHERE c.fence = $1 AND c.bucket >= $2::bigint >> 10
UNION ALL SELECT a.lane_seq >> 10, ARRAY[(a.lane_seq & 1023)::smallint], false FROM {actions} a WHERE a.fence = $1 AND a.lane_seq >= $2`

// loadMarks reads into c.marks which actions from lane_low on have ended or have a row. All below lane_low have ended.
func loadMarks(ctx context.Context, tx pgx.Tx, win *windowSet, c *Claim) error {
	var low int64
	err := tx.QueryRow(ctx, `SELECT lane_low FROM progress WHERE fence = $1`, c.ID).Scan(&low)
	if err != nil {
		return err
	}
	c.marks = marks.New(low, c.laneSeq)
	rows, err := tx.Query(ctx, win.own(marksRead), c.ID, low)
	if err != nil {
		return err
	}
	var (
		bucket int64
		lanes  []int16
		ended  bool
	)
	both := map[int32][]int64{}
	_, err = pgx.ForEachRow(rows, []any{&bucket, &lanes, &ended}, func() error {
		for _, lane := range lanes {
			if s := marks.LaneSeq(bucket, lane); c.marks.Load(s, ended) {
				w := c.windowOf(s)
				both[w] = append(both[w], s)
			}
		}
		return nil
	})
	for w, seqs := range both {
		if err == nil {
			_, err = tx.Exec(ctx, OfWindow(w, endCompleted), c.ID, seqs)
		}
	}
	c.marks.Advance()
	c.marks.Unsaved = 0
	return err
}

// endCompleted ends the rows of actions that a completion says are done. Versions up to November 2026 left such rows open, where a sink's
// COMMIT had got no answer: counted as open and keeping their window, or listed as dead, while no lane ran them.
const endCompleted = `-- endCompleted: one probe of actions_w{w}_lane per action
UPDATE actions_w{w} SET status = 'done', open = false, finished_at = now(), next_at = NULL, packed = CASE WHEN exported < deaths THEN packed END
WHERE fence = $1 AND lane_seq = ANY ($2) AND open`

// inDoubtError is an error of COMMIT.
type inDoubtError struct{ error }

func (e inDoubtError) Unwrap() error { return e.error }

// confirmError is an error that Confirm returned.
type confirmError struct{ error }

// mayRetry reports whether a failed claim is tried again: the fence was locked for longer than the server lets a statement wait, the
// connection hung, or, once, a version line is to be restored. After an error of COMMIT it is not: committed finds out what happened.
func (t *claimTx) mayRetry(err error) bool {
	if _, doubt := errors.AsType[inDoubtError](err); doubt {
		return false
	}
	if _, ok := errors.AsType[confirmError](err); ok {
		return false
	}
	return pg.IsSilent(err) || pg.Locked(err) || (pg.IsMissed(err) && !t.restore)
}

// committed finds out, after a claim that ended with cause, whether its COMMIT took effect though no answer came: the fence then has this
// claim's token. It returns false if cause is another error, if COMMIT took no effect, and if the fence could not be read.
func (t *claimTx) committed(ctx context.Context, cause error) bool {
	if _, ok := errors.AsType[inDoubtError](cause); !ok || !pg.Unanswered(cause) {
		return false
	}
	var mine bool
	err := t.n.ledger.transact(ctx, func(tx pgx.Tx) error {
		// The lock waits for the transaction in doubt.
		return tx.QueryRow(ctx, `SELECT coalesce(token = $2, false) FROM fences WHERE id = $1 FOR UPDATE`, t.c.ID, t.c.Token).Scan(&mine)
	})
	return err == nil && mine
}

// failed returns the error that Claim's caller gets for err.
func (t *claimTx) failed(err error) error {
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return err
	}
	if confirm, ok := errors.AsType[confirmError](err); ok {
		return confirm.error
	}
	if pg.IsMissed(err) { // another attempt would find the same
		return &schemas.Error{Kind: schemas.Conflict, Op: t.op, Err: fmt.Errorf("%w: a row that the claim needs can be neither found nor made again, and nothing was changed; "+
			"it is tried again every few seconds. Look for what keeps rows from being written (a trigger, a rule, a policy on the ledger's tables), or restore the ledger from a backup", err)}
	}
	return &schemas.Error{Kind: schemas.Unavailable, Op: t.op, Err: pg.Redact(err)}
}
